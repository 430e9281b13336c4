//! Tests of the architecture: circles, operations that only one room may perform, names, lengths, and a first line that
//! states the purpose of a file; and the order of the crates. It reads the sources as text. Not for behaviour: all other tests cover that.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's helper fails by panicking")]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/lexer.rs"]
mod lexer;
#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/types.rs"]
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use lexer::Token;

/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;

/// Files and directories whose code may wait for a disk, and why no request waits for it there.
const MAY_WAIT_FOR_FILES: &[(&str, &str)] = &[
    ("crates/base/src/files.rs", "each call has a thread and a time limit"),
    ("crates/history/src/store/", "it runs on threads for blocking work"),
    ("crates/base/src/machine", "files of the kernel under /proc, which are no disk's"),
    ("src/cli/", "commands, which serve no client"),
    ("crates/lab/src/bench/trust.rs", "a file of the kernel under /proc"),
    ("crates/transport/src/refresh/replace.rs", "it runs on a thread for blocking work"),
    ("crates/lab/src/simulate/tally.rs", "a file of the command `simulate`, written on a thread for blocking work"),
    ("crates/serve/src/server/listener.rs", "socket files: before the first connection and after the last"),
    ("crates/base/src/telemetry.rs", "the metadata of a line of the log"),
    ("crates/dialects/src/bedrock/request.rs", "the metadata of a request"),
    ("crates/config/build.rs", "it builds the program"),
    ("crates/serve/build.rs", "it builds the program"),
];

struct Source {
    /// From the root of the repository, with slashes.
    path: String,
    text: String,
    tokens: Vec<Token>,
}

impl Source {
    /// The directory of the crate's root file, and the path below it: `crates/wire/src` and `stream/sse.rs`.
    fn place(&self) -> (&str, &str) {
        match self.path.split_once("/src/") {
            Some((before, inner)) => (&self.path[..before.len() + "/src".len()], inner),
            None => self.path.split_once('/').unwrap_or(("", &self.path)),
        }
    }

    /// For a file of a crate the module at the top of the crate, under `tests` the directory below it. The crates that
    /// know wire formats are one room.
    fn room(&self) -> &str {
        if ["crates/wire/src", "crates/dialects/src", "crates/translation/src"].contains(&self.place().0) {
            return "wire";
        }
        self.place().1.split(['/', '.']).next().unwrap_or("")
    }

    fn as_module(&self) -> circles::File<'_> {
        circles::File { module: circles::module_path(self.place().1), path: &self.path, tokens: &self.tokens }
    }

    fn complaints(&self, problems: Vec<String>) -> impl Iterator<Item = String> {
        problems.into_iter().map(|problem| format!("{}:{problem}", self.path))
    }
}

#[test]
fn the_files_of_a_crate_import_each_other_without_a_circle() {
    let code = product_code();
    let crates: BTreeSet<&str> = code.iter().map(|source| source.place().0).collect();
    let circles = crates.into_iter().flat_map(|home| {
        let files: Vec<circles::File<'_>> =
            code.iter().filter(|source| source.place().0 == home).map(Source::as_module).collect();
        circles::circles(&files)
    });
    none(&circles.flat_map(|circle| circle.uses).collect::<Vec<_>>());
}

#[test]
fn the_rooms_of_a_crate_import_each_other_without_a_circle() {
    let code = product_code();
    let crates: BTreeSet<&str> = code.iter().map(|source| source.place().0).collect();
    let circles = crates.into_iter().flat_map(|home| {
        let files: Vec<circles::File<'_>> =
            code.iter().filter(|source| source.place().0 == home).map(Source::as_module).collect();
        [1, 2].into_iter().flat_map(move |depth| circles::room_circles(&files, home, depth)).collect::<Vec<_>>()
    });
    none(&circles.flat_map(|circle| circle.uses).collect::<Vec<_>>());
}

#[test]
fn a_crate_depends_on_crates_above_it_in_the_layers_alone() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let page = read("docs/architecture.md");
    let layers = page.split("## Layers").nth(1).unwrap().split("\n## ").next().unwrap();
    let named = layers.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name));
    let order: Vec<&str> = named.collect();
    let mut problems = Vec::new();
    for (at, name) in order.iter().enumerate() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap();
        let own = section.lines().filter_map(|line| line.strip_prefix("photofinish-")?.split(['.', ' ']).next());
        problems.extend(
            own.filter(|needed| !order[..at].contains(needed)).map(|needed| format!("{name} depends on {needed}")),
        );
    }
    none(&problems);
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap().count();
    assert_eq!(order.len(), crates, "the layers of docs/architecture.md name each crate once");
}

/// Lines of code of a crate, without comments, blank lines and tests.
const CRATE_MAX: usize = 12_000;

#[test]
fn no_crate_is_large() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for source in product_code() {
        let used: BTreeSet<usize> = source.tokens.iter().map(|token| token.line).collect();
        *lines.entry(source.place().0.to_owned()).or_default() += used.len();
    }
    let large = lines.iter().filter(|(_, lines)| **lines > CRATE_MAX);
    none(
        &large
            .map(|(name, lines)| format!("{name} has {lines} lines of code, more than {CRATE_MAX}"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn only_one_room_does_each_thing() {
    none(&product_code().iter().flat_map(|source| broken(rules::ONE_ROOM, source)).collect::<Vec<_>>());
}

#[test]
fn no_request_waits_for_a_disk() {
    let code = product_code();
    let allowed = |source: &Source, of: &str| source.path.starts_with(of);
    let strict = code.iter().filter(|source| !MAY_WAIT_FOR_FILES.iter().any(|(of, _)| allowed(source, of)));
    let mut problems: Vec<String> = strict.flat_map(|source| broken(rules::NO_FILES, source)).collect();
    for (of, _) in MAY_WAIT_FOR_FILES {
        let calls = code.iter().filter(|source| allowed(source, of)).flat_map(|source| broken(rules::NO_FILES, source));
        if calls.count() == 0 {
            problems.push(format!("{of}: makes no call to the file system; strike it from the list"));
        }
    }
    none(&problems);
}

#[test]
fn forbidden_code_is_nowhere() {
    let everywhere = sources(&["src", "crates", "tests", "benches"]);
    let mut problems: Vec<String> = everywhere.iter().flat_map(|source| broken(rules::NOBODY, source)).collect();
    problems.extend(sources(&["tests"]).iter().flat_map(|source| broken(rules::IN_TESTS, source)));
    none(&problems);
}

#[test]
fn a_type_name_has_one_meaning() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in product_code() {
        for (line, name) in types::defined(&source.tokens) {
            places.entry(name).or_default().push(format!("{}:{line}", source.path));
        }
    }
    let problems: Vec<String> = places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name} is defined at {}: give each a name of its own", places.join(" and ")))
        .collect();
    none(&problems);
}

#[test]
fn functions_are_short() {
    let mut problems = Vec::new();
    for source in sources(&["src", "crates", "tests", "benches"]) {
        problems.extend(source.complaints(rules::long_functions(&source.tokens, FUNCTION_MAX)));
    }
    none(&problems);
}

#[test]
fn a_loop_over_a_provider_s_bytes_gives_other_tasks_a_turn() {
    let rooms = ["attempt", "proxy", "relay", "upstream"];
    let readers: Vec<Source> = product_code().into_iter().filter(|source| rooms.contains(&source.room())).collect();
    assert!(readers.iter().any(|source| source.text.contains("poll_chunk")), "they are where this test looks for them");
    let problems = readers.iter().flat_map(|source| source.complaints(rules::loops_without_a_turn(&source.tokens)));
    none(&problems.collect::<Vec<_>>());
}

/// The targets for cargo-fuzz have a lock file of their own, because no build of the program includes them.
#[test]
fn the_fuzz_targets_have_locked_what_the_crates_need() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let lock = read("fuzz/Cargo.lock");
    let mut crates = 0;
    for package in lock.split("[[package]]") {
        let Some((_, named)) = package.split_once("name = \"photofinish-") else { continue };
        let Some(name) = named.split('"').next().filter(|name| *name != "fuzz") else { continue };
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap();
        let always = section.lines().filter(|line| !line.contains("optional = true"));
        let needed = always.filter_map(|line| Some(line.split_once(['.', '=', ' '])?.0));
        for needed in needed.filter(|name| !name.is_empty() && !name.starts_with('#')) {
            let advice = "run `cargo check --manifest-path fuzz/Cargo.toml`, and commit its lock file";
            // A version follows the name of a package that is locked in several.
            let is_locked = ['"', ' '].iter().any(|end| package.contains(&format!("\n \"{needed}{end}")));
            assert!(is_locked, "photofinish-{name} needs {needed}: {advice}");
        }
        crates += 1;
    }
    assert!(crates >= 3, "they are where this test looks for them");
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    let silent =
        sources(&["src", "crates", "tests", "benches"]).into_iter().filter(|source| !source.text.starts_with("//! "));
    none(
        &silent
            .map(|source| format!("{}:1: open with `//!`: what it is for, and what not", source.path))
            .collect::<Vec<_>>(),
    );
}

fn broken(rules: &[rules::Rule], source: &Source) -> Vec<String> {
    source.complaints(rules::broken(rules, source.room(), &source.tokens)).collect()
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "{} against the architecture:\n{}", problems.len(), problems.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The code of all crates, without tests: neither `#[cfg(test)]` items nor the files that only such a `mod` names.
fn product_code() -> Vec<Source> {
    let mut all = sources(&["src", "crates"]);
    let mut test_modules = BTreeSet::new();
    for source in &mut all {
        let (kept, modules) = lexer::without_tests(&source.tokens);
        source.tokens = kept;
        let (home, inner) = source.place();
        let below = circles::module_path(inner).join("/");
        test_modules.extend(modules.into_iter().map(|module| format!("{home}/{below}/{module}").replace("//", "/")));
    }
    let of = |source: &Source, module: &String| {
        source.path.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['/', '.']))
    };
    all.retain(|source| !test_modules.iter().any(|module| of(source, module)));
    let roots = ["src/main.rs", "crates/base/src/lib.rs"];
    let are_there = roots.iter().all(|root| all.iter().any(|source| source.path == *root));
    assert!(are_there, "the sources are where this test looks for them");
    all
}

/// Every Rust file below these directories.
fn sources(directories: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for directory in directories.iter().filter(|directory| root().join(directory).is_dir()) {
        collect(directory, &mut found);
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn collect(directory: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{directory}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
        if entry.file_type().unwrap().is_dir() {
            collect(&path, found);
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            let tokens = lexer::tokens(&text);
            found.push(Source { path, text, tokens });
        }
    }
}
