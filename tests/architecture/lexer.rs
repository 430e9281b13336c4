//! Rust source as tokens with their lines: just enough to separate code from comments and strings, and product code
//! from test code. Not a parser: it does not recognise expressions.

/// One token and the line it begins on, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    /// The text between the quotes; only escaped quotes are unescaped.
    Text(String),
    Number(String),
    Mark(char),
}

impl Token {
    pub fn is(&self, wanted: &str) -> bool {
        match &self.kind {
            Kind::Word(word) | Kind::Number(word) => word == wanted,
            Kind::Mark(mark) => wanted.chars().eq([*mark]),
            Kind::Text(_) => false,
        }
    }

    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// True if `tokens` begins with these words and marks, written with blanks between them: `"tokio : : spawn"`.
pub fn begins(tokens: &[Token], wanted: &str) -> bool {
    let mut tokens = tokens.iter();
    wanted.split(' ').all(|part| tokens.next().is_some_and(|token| token.is(part)))
}

/// All tokens of a source file, without comments.
pub fn tokens(source: &str) -> Vec<Token> {
    let characters = source.chars().collect();
    let mut lexer = Lexer { characters, at: 0, line: 1 };
    std::iter::from_fn(|| lexer.next()).collect()
}

struct Lexer {
    characters: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(character) = self.peek(0).filter(|character| wanted(*character)) {
            taken.push(character);
            self.bump();
        }
        taken
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            self.take_while(char::is_whitespace);
            match (self.peek(0)?, self.peek(1)) {
                ('/', Some('/')) => drop(self.take_while(|character| character != '\n')),
                ('/', Some('*')) => self.skip_block_comment(),
                _ => break,
            }
        }
        let line = self.line;
        let kind = match self.peek(0)? {
            '"' => Kind::Text(self.quoted('"')),
            '\'' => self.character_or_lifetime(),
            character if character.is_ascii_digit() => Kind::Number(self.take_while(is_word)),
            character if is_word(character) => self.word_or_prefixed_text(),
            mark => {
                self.bump();
                Kind::Mark(mark)
            }
        };
        Some(Token { line, kind })
    }

    /// Block comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while let Some(character) = self.bump() {
            match (character, self.peek(0)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => continue,
            }
            self.bump();
            if depth == 0 {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> String {
        self.bump();
        let mut text = String::new();
        while let Some(character) = self.bump().filter(|character| *character != quote) {
            text.extend(if character == '\\' { self.bump() } else { Some(character) });
        }
        text
    }

    /// A raw string's text; the cursor is at the first `#` or the quote.
    fn raw_text(&mut self) -> String {
        let hashes = self.take_while(|character| character == '#').len();
        self.bump();
        let mut text = String::new();
        while let Some(character) = self.bump() {
            if character == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                break;
            }
            text.push(character);
        }
        text
    }

    /// `'a'` is text, `'a` a lifetime; a lifetime's name is a word with its tick, so that rules do not read it as a
    /// path.
    fn character_or_lifetime(&mut self) -> Kind {
        let escaped = self.peek(1) == Some('\\');
        if escaped || self.peek(2) == Some('\'') {
            return Kind::Text(self.quoted('\''));
        }
        self.bump();
        Kind::Word(format!("'{}", self.take_while(is_word)))
    }

    fn word_or_prefixed_text(&mut self) -> Kind {
        let word = self.take_while(is_word);
        let next_is_raw = || {
            let hashes = (0..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
            self.peek(hashes) == Some('"')
        };
        match (word.as_str(), self.peek(0)) {
            ("r" | "br" | "cr", Some('"' | '#')) if next_is_raw() => Kind::Text(self.raw_text()),
            ("b" | "c", Some('"')) => Kind::Text(self.quoted('"')),
            ("b", Some('\'')) => Kind::Text(self.quoted('\'')),
            _ => Kind::Word(word),
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The tokens without `#[cfg(test)]` and `#[cfg(any(test, …))]` items, and the names of the modules whose files hold only tests.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        let for_tests = ["# [ cfg ( test ) ]", "# [ cfg ( any ( test ,"];
        if for_tests.iter().any(|words| begins(&tokens[at..], words)) {
            let item = skip_attributes(tokens, at);
            let end = end_of_item(tokens, item);
            modules.extend(module_file(&tokens[item..end]));
            at = end;
        } else {
            kept.push(token.clone());
            at += 1;
        }
    }
    (kept, modules)
}

/// `mod name;` or `pub(crate) mod name;`
fn module_file(item: &[Token]) -> Option<String> {
    let name = item.iter().position(|token| token.is("mod"))? + 1;
    item.get(name + 1)?.is(";").then(|| item[name].word().map(str::to_owned))?
}

fn skip_attributes(tokens: &[Token], mut at: usize) -> usize {
    while begins(&tokens[at..], "# [") {
        at = end_of_brackets(tokens, at + 1);
    }
    at
}

/// One past the item that begins at `at`: after its `;`, or after the brace that closes its body.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Mark(';') => return at + 1,
            Kind::Mark('{') => return end_of_brackets(tokens, at),
            Kind::Mark('(' | '[') => at = end_of_brackets(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// One past the bracket of any kind that closes the one at `open`; the end of the file if none does.
pub fn end_of_brackets(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> String {
        let show = |token: &Token| match &token.kind {
            Kind::Word(word) | Kind::Number(word) => word.clone(),
            Kind::Text(text) => format!("<{text}>"),
            Kind::Mark(mark) => mark.to_string(),
        };
        tokens(source).iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_strings_and_lifetimes_are_told_apart() {
        for (source, expected) in [
            ("a // b\nc /* d /* e */ f */ g", "a c g"),
            (r#"f("a { \" b", 'x', '\'', '"')"#, r#"f ( <a { " b> , <x> , <'> , <"> )"#),
            (r##"r#"a " b"# r"c\" b"d" br#"e"# b'}' r#type"##, r##"<a " b> <c\> <d> <e> <}> r # type"##),
            ("&'static str; 'a: loop {}", "& 'static str ; 'a : loop { }"),
            ("1.5e3 0x1f 0..9 \"//\"", "1 . 5e3 0x1f 0 . . 9 <//>"),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
        assert_eq!(tokens("a\n\"b\nc\"\nd").iter().map(|token| token.line).collect::<Vec<_>>(), [1, 2, 4]);
    }

    #[test]
    fn test_code_is_left_out_and_test_files_are_named() {
        let source = "a; #[cfg(test)] mod far; #[cfg(test)] #[x(y)] pub(crate) mod near { mod deep; b } c; \
            #[cfg(test)] const D: [u8; 2] = [1, 2]; #[cfg(any(test, feature = \"x\"))] fn e(f: [u8; 2]) { g } #[cfg(unix)] h;";
        let (kept, modules) = without_tests(&tokens(source));
        let words: Vec<&str> = kept.iter().filter_map(Token::word).collect();
        assert_eq!(words, ["a", "c", "cfg", "unix", "h"]);
        assert_eq!(modules, ["far"]);
    }
}
