//! Import circles between the files, and between the rooms, of one crate. Cargo refuses those between crates.
//!
//! The rule: a file *uses* another file if its code names an item that the other file defines. Re-exports are followed
//! to the file that defines the name, and a `pub use` alone is not a use, so that a `mod.rs` that only declares and
//! re-exports its children belongs to no circle. Uses must not form a circle, and this includes a parent and its child:
//! shared items belong in a third file. In practice: vocabulary (types, constants, errors) uses nothing, the parts use
//! the vocabulary, and the file that dispatches to the parts uses both; never the other way.
//!
//! Method calls name no file, so an `impl` block in a child file does not make the parent use it.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::{Kind, Token, begins};

/// A file of a crate: its module path from the crate's root, and its tokens without tests.
pub struct File<'a> {
    pub module: Vec<&'a str>,
    pub path: &'a str,
    pub tokens: &'a [Token],
}

/// Files that use each other, and one line for each use between them.
#[derive(Debug)]
pub struct Circle {
    pub files: Vec<String>,
    pub uses: Vec<String>,
}

/// An import: its name in the file, the full path, and whether it is only re-exported.
struct Import {
    line: usize,
    name: String,
    path: Vec<String>,
    public: bool,
}

/// A path that the code spells out, such as `reader::Reader` or `super::wire::Data`, from the crate's root.
struct Spelled {
    line: usize,
    path: Vec<String>,
}

struct Module<'a> {
    file: &'a File<'a>,
    imports: Vec<Import>,
    spelled: Vec<Spelled>,
    /// All words outside `use` declarations.
    words: BTreeSet<&'a str>,
}

struct Modules<'a> {
    /// By module path, joined by `::`.
    by_path: BTreeMap<String, Module<'a>>,
}

/// The module path of a file, from the root of its crate: `config/raw.rs` is `["config", "raw"]`, `config/mod.rs` is
/// `["config"]`.
pub fn module_path(file: &str) -> Vec<&str> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") || path == ["lib"] || path == ["main"] {
        path.pop();
    }
    path
}

/// The circles among these files of one crate.
pub fn circles(files: &[File<'_>]) -> Vec<Circle> {
    let modules = Modules::of(files);
    let uses = modules.uses();
    among(uses.iter().map(|(user, used, line)| (*user, *used, line.as_str())))
}

/// The circles among the rooms of one crate: its folders and files down to `depth` levels. A room within another is no neighbour of
/// it.
pub fn room_circles(files: &[File<'_>], home: &str, depth: usize) -> Vec<Circle> {
    let room = |path: &str| {
        let inner = path[home.len()..].trim_matches('/').trim_end_matches(".rs").trim_end_matches("/mod");
        inner.split('/').take(depth).collect::<Vec<_>>().join("/")
    };
    let is_within = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}/"));
    let modules = Modules::of(files);
    let uses = modules.uses();
    let between = uses.iter().map(|(user, used, line)| (room(user), room(used), line));
    let between: Vec<_> = between.filter(|(one, other, _)| !is_within(one, other) && !is_within(other, one)).collect();
    among(between.iter().map(|(one, other, line)| (one.as_str(), other.as_str(), line.as_str())))
}

/// The circles among what uses each other. Of each use: who, whom, and its line.
fn among<'u>(uses: impl Iterator<Item = (&'u str, &'u str, &'u str)>) -> Vec<Circle> {
    let uses: Vec<_> = uses.collect();
    let mut reachable: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (user, ..) in &uses {
        let mut open = vec![*user];
        let reached = reachable.entry(user).or_default();
        while let Some(from) = open.pop() {
            let next = uses.iter().filter(|(user, ..)| *user == from).map(|(_, used, _)| *used);
            open.extend(next.filter(|used| reached.insert(used)));
        }
    }
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (place, reached) in &reachable {
        let returns = |other: &&&str| reachable.get(**other).is_some_and(|reached| reached.contains(place));
        let together: Vec<&str> = reached.iter().filter(returns).copied().collect();
        if together.is_empty() || together.iter().any(|place| !seen.insert(*place)) {
            continue;
        }
        let inside = |user: &str, used: &str| together.contains(&user) && together.contains(&used);
        let lines = uses.iter().filter(|(user, used, _)| inside(user, used)).map(|(.., line)| (*line).to_owned());
        circles
            .push(Circle { uses: lines.collect(), files: together.iter().map(|place| (*place).to_owned()).collect() });
    }
    circles
}

impl<'a> Modules<'a> {
    fn of(files: &'a [File<'a>]) -> Modules<'a> {
        Modules { by_path: files.iter().map(|file| (file.module.join("::"), Module::of(file))).collect() }
    }

    /// Who uses whom, and the line.
    fn uses(&self) -> Vec<(&str, &str, String)> {
        self.by_path.values().flat_map(|module| self.uses_of(module)).collect()
    }
}

impl<'a> Module<'a> {
    fn of(file: &'a File<'a>) -> Self {
        let mut module = Module { file, imports: Vec::new(), spelled: Vec::new(), words: BTreeSet::new() };
        let tokens = file.tokens;
        let (mut braces, mut at) = (Vec::new(), 0);
        while let Some(token) = tokens.get(at) {
            if token.is("{") {
                braces.push(at >= 2 && tokens[at - 2].is("mod"));
            } else if token.is("}") {
                braces.pop();
            }
            let inline = braces.iter().filter(|module| **module).count();
            let first_of_path = at == 0 || !(tokens[at - 1].is(":") || tokens[at - 1].is("."));
            if token.is("use") {
                let end = at + tokens[at..].iter().position(|token| token.is(";")).unwrap_or(tokens.len() - at);
                let public = at > 0 && (tokens[at - 1].is("pub") || tokens[at - 1].is(")"));
                module.import(&tokens[at + 1..end], public, inline);
                at = end;
            } else if token.word().is_some() && first_of_path && begins(&tokens[at + 1..], ": :") {
                at = module.spell(at, inline);
            } else {
                // A module, field or method with this name is not a use of the import.
                let after = at > 0 && (tokens[at - 1].is("mod") || tokens[at - 1].is("."));
                module.words.extend(token.word().filter(|_| !after));
                at += 1;
            }
        }
        module
    }

    /// Reads the tree of a `use` declaration.
    fn import(&mut self, tokens: &[Token], public: bool, inline: usize) {
        let mut prefixes: Vec<Vec<String>> = Vec::new();
        let mut path: Vec<String> = Vec::new();
        let mut alias = None;
        let mut line = 0;
        let mut at = 0;
        while at <= tokens.len() {
            let token = tokens.get(at);
            let mark = token.map_or(Some('}'), |token| match token.kind {
                Kind::Mark(mark) => Some(mark),
                _ => None,
            });
            match mark {
                Some('{') => prefixes.push(std::mem::take(&mut path)),
                Some(',' | '}') => {
                    if let Some(name) = alias.take().or_else(|| path.last().cloned()) {
                        let mut full: Vec<String> = prefixes.iter().flatten().cloned().collect();
                        full.extend(path.drain(..).filter(|part| part != "self"));
                        let name = if name == "self" { full.last().cloned().unwrap_or_default() } else { name };
                        self.imports.extend(self.absolute(&full, inline).map(|path| Import {
                            line,
                            name,
                            path,
                            public,
                        }));
                    }
                    if mark == Some('}') {
                        prefixes.pop();
                    }
                }
                Some('*') => path.push("*".to_owned()),
                _ => {}
            }
            if let Some(word) = token.and_then(Token::word) {
                line = tokens[at].line;
                if word == "as" {
                    at += 1;
                    alias = tokens.get(at).and_then(Token::word).map(str::to_owned);
                } else {
                    path.push(word.to_owned());
                }
            }
            at += 1;
        }
    }

    /// Reads the path that begins at `at`; returns the place of the first token after it.
    fn spell(&mut self, at: usize, inline: usize) -> usize {
        let tokens = self.file.tokens;
        let mut path: Vec<String> = tokens[at].word().map(str::to_owned).into_iter().collect();
        let mut next = at + 1;
        while begins(&tokens[next..], ": :")
            && let Some(word) = tokens.get(next + 2).and_then(Token::word)
        {
            path.push(word.to_owned());
            next += 3;
        }
        self.words.extend(tokens[at].word());
        self.spelled.extend(self.absolute(&path, inline).map(|path| Spelled { line: tokens[at].line, path }));
        next
    }

    /// The path from the crate's root; for a plain name, the path in this module. None beyond the crate's root. A path of another
    /// crate of the workspace stays as it is, and leads to no file of this one.
    fn absolute(&self, path: &[String], inline: usize) -> Option<Vec<String>> {
        let mut base: Vec<String> = self.file.module.iter().map(|part| (*part).to_owned()).collect();
        let supers = path.iter().take_while(|part| *part == "super").count();
        let rest = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            other if other.starts_with("photofinish_") => return Some(path.to_vec()),
            "self" => &path[1..],
            "super" if supers > inline => {
                base.truncate(base.len().checked_sub(supers - inline)?);
                &path[supers..]
            }
            "super" => return None,
            _ => path,
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }
}

impl<'a> Modules<'a> {
    /// The file that defines the item at this path from the crate's root. None if it is a module or of another crate.
    fn defined_in(&self, path: &[String], hops: usize) -> Option<&'a str> {
        let modules = if self.is_item(path) { 1..=path.len() - 1 } else { 1..=path.len() };
        let (split, module) = modules.rev().find_map(|length| Some((length, self.module(&path[..length])?)))?;
        let name = path.get(split)?;
        match module.imports.iter().find(|import| import.name == *name) {
            Some(import) if import.path == path => None,
            Some(import) => {
                let target = [&import.path, &path[split + 1..]].concat();
                self.defined_in(&target, hops.checked_sub(1)?)
            }
            None => Some(module.file.path),
        }
    }

    /// Whether the parent module re-exports an item of this name. There may be a module of the same name:
    /// `mod order; pub use order::order;`.
    fn is_item(&self, path: &[String]) -> bool {
        let Some((name, parent)) = path.split_last() else { return false };
        let is_it = |import: &Import| import.public && import.name == *name && import.path != path;
        self.module(parent).is_some_and(|parent| parent.imports.iter().any(is_it))
    }

    fn module(&self, path: &[String]) -> Option<&Module<'a>> {
        self.by_path.get(&path.join("::"))
    }

    /// User, used, and the line to show, for each use of another file.
    fn uses_of(&self, module: &Module<'a>) -> Vec<(&'a str, &'a str, String)> {
        let user = module.file.path;
        let mut found = BTreeMap::new();
        let imports = module.imports.iter().filter(|import| !import.public || module.words.contains(&*import.name));
        let imported = imports.map(|import| (import.line, &import.path));
        for (line, path) in imported.chain(module.spelled.iter().map(|spelled| (spelled.line, &spelled.path))) {
            for used in self.every(path, module) {
                found.entry(used).or_insert((line, path.last().cloned().unwrap_or_default()));
            }
        }
        let say = |(used, (line, name))| (user, used, format!("{user}:{line}: uses {name} of {used}"));
        found.into_iter().filter(|(used, _)| *used != user).map(say).collect()
    }

    /// The files that a path leads to: one, or for `*` all files that define a name in `user`.
    fn every(&self, path: &[String], user: &Module<'_>) -> Vec<&'a str> {
        const HOPS: usize = 8;
        match path.split_last() {
            Some((star, parent)) if star == "*" && self.module(parent).is_some() => {
                let named = |word: &&str| self.defined_in(&[parent, &[(*word).to_owned()]].concat(), HOPS);
                user.words.iter().filter_map(named).collect()
            }
            _ => self.defined_in(path, HOPS).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    /// The circles among these files, each as its files' names without `room/` and `.rs`.
    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let tokens: Vec<Vec<Token>> = sources.iter().map(|(_, source)| tokens(source)).collect();
        let files: Vec<File<'_>> = sources
            .iter()
            .zip(&tokens)
            .map(|((path, _), tokens)| File { module: module_path(path), path, tokens })
            .collect();
        let short = |file: &String| file.trim_start_matches("room/").trim_end_matches(".rs").to_owned();
        circles(&files).iter().map(|circle| circle.files.iter().map(short).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_file_has_a_module_path() {
        assert_eq!(module_path("config/raw.rs"), ["config", "raw"]);
        assert_eq!(module_path("config/mod.rs"), ["config"]);
        assert_eq!(module_path("recorder.rs"), ["recorder"]);
        assert!(module_path("lib.rs").is_empty());
    }

    #[test]
    fn a_circle_of_siblings_is_found_however_it_is_spelt() {
        for (one, other) in [
            ("use super::b::B;", "use super::a::A;"),
            ("use crate::room::b::B;", "fn f() { super::a::f() }"),
            ("use super::b; fn f() { b::g() }", "use crate::room::{a::{A, C}, z};"),
            ("use super::{x, b as c}; fn f() { c::g() }", "pub use super::a::A; fn g(a: A) {}"),
            ("use super::*; fn f(b: B) {}", "use super::A;"),
            ("mod inner { use super::super::b::B; }", "type A = crate::room::a::A;"),
        ] {
            let root = "mod a; mod b; pub use a::A; pub use b::B;";
            let circle = found(&[("room/mod.rs", root), ("room/a.rs", one), ("room/b.rs", other)]);
            assert_eq!(circle, ["a b"], "{one} | {other}");
        }
    }

    #[test]
    fn a_circle_over_an_item_with_the_name_of_its_module_is_found() {
        let circle = found(&[
            ("room/mod.rs", "mod a; mod b; mod c; pub use a::a; pub use b::b;"),
            ("room/a.rs", "use super::c; pub fn a() { c::f() }"),
            ("room/b.rs", "use super::a; pub fn b() { a() }"),
            ("room/c.rs", "use super::b; pub fn f() { b() }"),
        ]);
        assert_eq!(circle, ["a b c"]);
    }

    #[test]
    fn a_long_circle_is_one_circle() {
        let circle = found(&[
            ("room/a.rs", "use super::b::B;"),
            ("room/b/mod.rs", "mod deep; struct E; use super::c::C;"),
            ("room/b/deep.rs", "use super::super::a::A; use super::E;"),
            ("room/c.rs", "use super::b::deep::D;"),
            ("room/d.rs", "use super::a::A;"),
        ]);
        assert_eq!(circle, ["a b/deep b/mod c"]);
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
        let child = ("room/a.rs", "use super::Shared;");
        assert_eq!(found(&[("room/mod.rs", "mod a; struct Shared; fn f() { a::g() }"), child]), ["a mod"]);
        assert_eq!(found(&[("room/mod.rs", "mod a; pub use a::A; struct Shared; fn f(a: A) {}"), child]), ["a mod"]);
    }

    #[test]
    fn declaring_and_passing_on_is_no_use() {
        let root = "mod a; mod b; pub use a::a; pub use b::{B, self as c}; pub struct Shared; fn f() { x.a() }";
        for (one, other) in [
            ("use super::Shared;", "use super::{A, Shared};"),
            ("use super::B;", "pub(in crate::room) struct B; mod inner { struct D; use super::E; }"),
            ("use super::b; use crate::other::b::B; use std::a;", "fn f() { x::super_a() }"),
            ("use super::Word;", "use super::b::Own; fn f() { self::g(); Self::h() }"),
        ] {
            let files = [("room/mod.rs", root), ("room/a.rs", one), ("room/b.rs", other)];
            assert!(found(&files).is_empty(), "{one} | {other}: {:?}", found(&files));
        }
    }
}
