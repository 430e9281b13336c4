//! Layers without a cycle: the groups that `lib.rs` lists, and the imports of each module, by `crate::` or by enough
//! `super::`. Not for imports inside one module: each module may organise these freely.

use std::collections::BTreeMap;

use crate::lexer::{Kind, Token, begins};

/// Module name to the number of its group; 1 is the bottom.
pub type Groups = BTreeMap<String, usize>;

/// One path that leads to a module at the top of the crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    pub line: usize,
    pub module: String,
}

/// Reads lines such as `// 3 wire formats` and the `pub mod x;` below them.
pub fn groups(lib: &str) -> Result<Groups, String> {
    let mut groups = Groups::new();
    let mut group = 0;
    for (index, line) in lib.lines().enumerate() {
        let number = line.strip_prefix("// ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        if let Some(number) = number {
            if number != group + 1 {
                return Err(format!("src/lib.rs:{}: group {number} follows group {group}", index + 1));
            }
            group = number;
        } else if let Some(rest) = line.split_once("mod ").filter(|(before, _)| ["", "pub "].contains(before)) {
            let name = rest.1.trim_end_matches(';');
            if group == 0 || groups.insert(name.to_owned(), group).is_some() {
                return Err(format!("src/lib.rs:{}: module {name} must stand once, in a numbered group", index + 1));
            }
        }
    }
    Ok(groups)
}

/// The module path of a file under `src`: `config/raw.rs` is `["config", "raw"]`, `config/mod.rs` is `["config"]`.
pub fn module_path(file: &str) -> Vec<&str> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") || path == ["lib"] {
        path.pop();
    }
    path
}

/// Every module at the top of the crate that these tokens name; `depth` is the length of the file's module path.
pub fn imports(tokens: &[Token], depth: usize) -> Vec<Import> {
    let mut found = Vec::new();
    let mut nesting = Nesting::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        nesting.see(tokens, at);
        let after_path = at >= 2 && tokens[at - 1].is(":") && tokens[at - 2].is(":");
        let mut next = at;
        let mut climbed = 0;
        while begins(&tokens[next..], "super : :") && !after_path {
            (next, climbed) = (next + 3, climbed + 1);
        }
        if begins(&tokens[at..], "crate : :") {
            roots(&tokens[at + 3..], &mut found);
        } else if climbed > 0 && climbed >= depth + nesting.modules() {
            roots(&tokens[next..], &mut found);
        } else if token.is("crate") && tokens.get(at + 1).is_some_and(|next| next.is("as")) {
            found.push(Import { line: token.line, module: "crate as …".to_owned() });
        }
        at = next.max(at + 1);
    }
    found
}

/// The problems in these imports of a module.
pub fn violations(groups: &Groups, module: &str, imports: &[Import]) -> Vec<String> {
    let Some(own) = groups.get(module) else {
        return vec![format!("1: module {module} stands in no group of src/lib.rs")];
    };
    let wrong =
        |import: &&Import| import.module != module && groups.get(&import.module).is_none_or(|group| group >= own);
    let say = |import: &Import| {
        let Import { line, module: other } = import;
        match groups.get(other) {
            Some(group) => format!(
                "{line}: {module} (group {own}) imports {other} (group {group}); it may import only from groups below its own"
            ),
            None => format!("{line}: {module} imports crate::{other}, which stands in no group of src/lib.rs"),
        }
    };
    imports.iter().filter(wrong).map(say).collect()
}

/// Takes the first name of a path, or those of a group in braces.
fn roots(path: &[Token], found: &mut Vec<Import>) {
    let mut push = |token: &Token| match &token.kind {
        Kind::Word(word) if word != "self" => found.push(Import { line: token.line, module: word.clone() }),
        Kind::Mark('*') => found.push(Import { line: token.line, module: "*".to_owned() }),
        _ => {}
    };
    let Some(first) = path.first() else { return };
    if !first.is("{") {
        return push(first);
    }
    let mut depth = 0_usize;
    for pair in path.windows(2) {
        match pair[0].kind {
            Kind::Mark('{') => depth += 1,
            Kind::Mark('}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
        if depth == 1 && (pair[0].is("{") || pair[0].is(",")) {
            push(&pair[1]);
        }
    }
}

/// The braces that are open, and which of them belong to a `mod`.
#[derive(Default)]
struct Nesting(Vec<bool>);

impl Nesting {
    fn see(&mut self, tokens: &[Token], at: usize) {
        if tokens[at].is("{") {
            self.0.push(at >= 2 && tokens[at - 2].is("mod"));
        } else if tokens[at].is("}") {
            self.0.pop();
        }
    }

    fn modules(&self) -> usize {
        self.0.iter().filter(|module| **module).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    const LIB: &str = "//! 9 in the text\n\n// 1 below\npub mod low;\n// 2 above them\npub mod mid;\npub mod side;\n";

    fn named(source: &str, depth: usize) -> Vec<String> {
        imports(&tokens(source), depth).into_iter().map(|import| import.module).collect()
    }

    #[test]
    fn groups_are_read_in_order() {
        let groups = groups(LIB).unwrap();
        assert_eq!((groups["low"], groups["mid"], groups["side"]), (1, 2, 2));
        for wrong in ["pub mod low;", "// 1 a\npub mod b;\n// 3 c", "// 1 a\nmod b;\nmod b;"] {
            assert!(super::groups(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_spelling_of_an_import_is_seen() {
        for (source, depth, expected) in [
            ("use crate::a::b;", 1, &["a"][..]),
            ("use crate::{\n  a::{x, y},\n  b as c, self,\n  d::*,\n};", 1, &["a", "b", "d"]),
            ("fn f() { crate::a::g(crate::b::H) } pub(in crate::c) struct S;", 1, &["a", "b", "c"]),
            ("use super::a;", 1, &["a"]),
            ("use super::a; use super::super::{b, c};", 2, &["b", "c"]),
            ("mod inner { use super::a; use super::super::b; } use super::c;", 1, &["b", "c"]),
            ("use crate::*; use crate as x; $crate::a!()", 1, &["*", "crate as …", "a"]),
            ("// use crate::a;\n\"crate::b\"; pub(crate) fn crate_c() {} x::super::y", 1, &[]),
        ] {
            assert_eq!(named(source, depth), expected, "{source}");
        }
    }

    #[test]
    fn only_groups_below_may_be_imported() {
        let groups = groups(LIB).unwrap();
        let check = |module, source| violations(&groups, module, &imports(&tokens(source), 1)).len();
        assert_eq!(check("mid", "use crate::{low::x, mid::y};"), 0);
        assert_eq!(check("mid", "use crate::side;"), 1, "its own group");
        assert_eq!(check("low", "use crate::mid;"), 1, "a group above");
        assert_eq!(check("mid", "use super::side;"), 1, "past the root");
        assert_eq!(check("mid", "use crate::nowhere;"), 1);
        assert_eq!(check("nowhere", ""), 1);
    }

    #[test]
    fn a_file_has_a_module_path() {
        assert_eq!(module_path("config/raw.rs"), ["config", "raw"]);
        assert_eq!(module_path("config/mod.rs"), ["config"]);
        assert_eq!(module_path("recorder.rs"), ["recorder"]);
        assert!(module_path("lib.rs").is_empty());
    }
}
