//! The types that a file defines, so that a name has one meaning in the whole crate. Not for associated types, which
//! belong to their trait. `scripts/counts` counts by the same rule.

use crate::lexer::{Kind, Token, end_of_brackets};

/// Line and name of each struct, enum, trait and type alias.
pub fn defined(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // For each open brace whether it opens an `impl` or a trait.
    let mut braces: Vec<bool> = Vec::new();
    let mut opens_members = false;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let begins_item =
            at == 0 || [";", "}", "{", "]", "pub", ")", "unsafe"].iter().any(|mark| tokens[at - 1].is(mark));
        let keyword = ["struct", "enum", "trait", "type"].iter().any(|word| token.is(word)) && begins_item;
        let name = tokens.get(at + 1).and_then(Token::word).filter(|name| name.starts_with(char::is_uppercase));
        let associated = token.is("type") && braces.last() == Some(&true);
        found.extend(name.filter(|_| keyword && !associated).map(|name| (token.line, name.to_owned())));
        opens_members |= begins_item && (token.is("impl") || token.is("trait"));
        match token.kind {
            Kind::Mark('{') => braces.push(std::mem::take(&mut opens_members)),
            Kind::Mark('}') => drop(braces.pop()),
            Kind::Mark(';') => opens_members = false,
            // These contain no items; `[u8; 2]` would end one.
            Kind::Mark('(' | '[') if opens_members => at = end_of_brackets(tokens, at) - 1,
            _ => {}
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    fn names(source: &str) -> Vec<String> {
        defined(&tokens(source)).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn every_kind_of_type_is_found() {
        let source = "struct A; pub enum B { C } pub(crate) trait D { type E; fn f() {} } #[derive(X)] type G = u8;
            impl<T> A where T: Into<[u8; 2]> { type H = u8; fn f() { struct I; type J = u8; } } mod k { struct L(u8); }";
        assert_eq!(names(source), ["A", "B", "D", "G", "I", "J", "L"]);
    }

    #[test]
    fn other_uses_of_the_words_are_no_definitions() {
        let source =
            "fn f(x: impl A) -> impl B { r#type } macro_rules! m { ($name:ident) => { struct $name; } } \"struct C\"";
        assert!(names(source).is_empty(), "{:?}", names(source));
    }
}
