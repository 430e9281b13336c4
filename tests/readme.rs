//! What the README and the reference say of names, against the program itself: configs, keys, defaults, headers, codes,
//! options, the catalogue and the bounds. Not their prose, and not the outputs pasted into them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helper fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use photofinish::config::{Config, Policy, Server, Simulation, catalogue, parse};

const README: &str = include_str!("../README.md");
const REFERENCE: &str = include_str!("../docs/reference.md");
const PROVIDERS: &str = include_str!("../docs/providers.md");

#[test]
fn every_config_of_the_documents_is_valid() {
    let blocks: Vec<String> =
        [README, REFERENCE, PROVIDERS].into_iter().flat_map(|page| blocks(page, "toml")).collect();
    assert!(blocks.len() >= 2, "the README has lost its configs");
    for block in blocks {
        config(&block);
    }
}

#[test]
fn the_defaults_are_those_of_the_program() {
    let (documented, default) = (config(&blocks(README, "toml")[0]), config(""));
    // These two follow from the machine.
    let Server { memory, max_in_flight, .. } = default.server;
    assert_eq!(Server { memory, max_in_flight, ..documented.server }, default.server);
    assert_eq!(documented.store, default.store);
    assert_eq!(documented.race, default.race);
    let simulation = documented.providers["slow-demo"].simulate.clone().unwrap();
    assert_eq!(Simulation { seed: None, ..simulation }, Simulation::default());
}

#[test]
fn every_key_is_in_the_config_of_the_readme() {
    let block = &blocks(README, "toml")[0];
    let keys: BTreeSet<&str> = block.lines().flat_map(words).collect();
    for table in [
        "[server]\nzzz = 1",
        "[server]\ntls = { cert = \"x\", key = \"x\", zzz = 1 }",
        "[store]\nzzz = 1",
        "[race]\nzzz = 1",
        "[race]\ntimeouts = { zzz = 1 }",
        "[race]\ndrains = { zzz = 1 }",
        "[race]\nbreaker = { zzz = 1 }",
        "[race]\nslo = { zzz = 1 }",
        "[providers.a]\nzzz = 1",
        "[providers.a]\nsimulate = { zzz = 1 }",
        "[providers.a]\ntoken = { zzz = 1 }",
        "[providers.a]\naws = { zzz = 1 }",
        "[models.a]\nupstreams = [{ upstream = \"ollama/x\", zzz = 1 }]",
        "[models.a]\nzzz = 1",
        "[users.a]\nzzz = 1",
    ] {
        for known in known_keys(table) {
            assert!(keys.contains(known.as_str()), "{known} of {table:?} is not in the README");
        }
    }
}

#[test]
fn the_catalogue_is_in_its_page() {
    let entries: Vec<Vec<String>> = catalogue::entries()
        .map(|entry| {
            let speaks = entry.serves.iter().map(|served| {
                let url =
                    if served.base_url.is_empty() { "your own".to_owned() } else { format!("`{}`", served.base_url) };
                let unless = if served.only_if_named { " (if named)" } else { "" };
                format!("`{}` {url}{unless}", served.dialect.as_str())
            });
            vec![
                format!("`{}`", entry.name),
                speaks.collect::<Vec<_>>().join("; "),
                entry.key_variable.map_or("none".to_owned(), |name| format!("`{name}`")),
                entry.cancel_billing.value.as_str().to_owned(),
                entry.continues.value.text(),
                entry.note.value.to_owned(),
            ]
        })
        .collect();
    assert_eq!(rows(PROVIDERS, "Catalogue"), entries);
    for entry in catalogue::entries() {
        assert!(README.contains(entry.name), "{}", entry.name);
        let sources = entry.serves.iter().map(|served| served.source);
        for source in sources.chain([entry.cancel_billing.source, entry.continues.source, entry.warming.source]) {
            assert!(PROVIDERS.contains(source), "{}: {source} is not in docs/providers.md", entry.name);
        }
    }
}

#[test]
fn the_error_codes_are_in_the_reference() {
    let mut in_source = BTreeSet::new();
    for (_, text) in source() {
        let quoted = text.split('"').filter(|part| part.starts_with("photofinish_"));
        let plain = |code: &&str| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        in_source.extend(quoted.filter(plain).map(|code| format!("`{code}`")));
    }
    let documented: BTreeSet<String> = rows(REFERENCE, "Error codes").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(documented, in_source);
}

#[test]
fn the_headers_are_in_the_readme() {
    for (path, text) in source() {
        for name in text.split('"').filter(|part| part.starts_with("x-photofinish-")) {
            let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            // A prefix alone is not a header.
            if is_name && name != "x-photofinish-" {
                assert!(README.contains(&format!("| `{name}")), "{name} of {} is not in the README", path.display());
            }
        }
    }
}

#[test]
fn commands_options_and_variables_are_in_the_readme() {
    for command in ["serve", "check", "providers", "stats", "history", "race", "replay", "routing", "simulate"] {
        assert!(README.contains(&format!("| `photofinish {command}` |")), "{command}");
        let help = help(&[command]);
        for option in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option = option.trim_end_matches([',', ';', '.']);
            assert!(README.contains(&format!("`{option}")), "{option} of {command} is not in the README");
        }
    }
    let listed = help(&[]);
    let (_, commands) = listed.split_once("Commands:").unwrap();
    let commands = commands
        .split("\n\n")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        assert!(README.contains(&format!("| `photofinish {command}` |")), "{command} is not in the README");
    }
    for variable in ["PHOTOFINISH_CONFIG", "PHOTOFINISH_TOKEN", photofinish::telemetry::LOG_VARIABLE] {
        assert!(README.contains(&format!("| `{variable}` |")), "{variable}");
    }
    for policy in Policy::ALL {
        assert!(README.contains(&format!("| `{}` |", policy.as_str())), "{}", policy.as_str());
    }
}

#[test]
fn the_bounds_are_in_the_reference() {
    let documented: BTreeSet<String> = rows(REFERENCE, "Bounds").into_iter().map(|row| row[2].clone()).collect();
    let mut in_source = BTreeSet::new();
    for (path, text) in source() {
        let path = path.to_str().unwrap().replace('\\', "/");
        if path.starts_with("simulate/") || path.contains("test") {
            continue;
        }
        for line in text.split("mod tests {").next().unwrap().lines() {
            let Some((_, rest)) = line.split_once("const ") else { continue };
            let name = rest.split(':').next().unwrap();
            if ["_MAX", "_FOR", "MAX_ATTEMPTS", "BACKLOG"].iter().any(|end| name.ends_with(end)) {
                in_source.insert(format!("`{path}` `{name}`"));
            }
        }
    }
    assert_eq!(documented, in_source);
}

#[test]
fn links_lead_somewhere() {
    for (page, directory) in [(README, ""), (REFERENCE, "docs"), (PROVIDERS, "docs")] {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(file);
            let licence = file.starts_with("LICENSE-");
            assert!(file.is_empty() || licence || path.is_file(), "{link} leads nowhere");
            if !anchor.is_empty() {
                let text = if file.is_empty() { page.to_owned() } else { std::fs::read_to_string(path).unwrap() };
                let heading = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                assert!(text.lines().any(|line| line.starts_with('#') && heading(line) == anchor), "{link}");
            }
        }
    }
}

fn config(text: &str) -> Config {
    parse(text, Path::new("README.md"), &|_| None).unwrap_or_else(|problems| panic!("{problems}\nin:\n{text}"))
}

/// What the reader proposes in place of `zzz`.
fn known_keys(text: &str) -> Vec<String> {
    let problems = parse(text, Path::new("x"), &|_| None).map(drop).unwrap_err();
    let problem = problems.list.iter().find(|problem| problem.message.contains("zzz")).unwrap();
    let expected = problem.expected.as_deref().unwrap();
    expected.trim_start_matches("one of ").split(", ").map(|key| key.trim_matches('"').to_owned()).collect()
}

/// The fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("\n```").next()).map(str::to_owned).collect()
}

/// What stands before an `=` in a line of TOML, its comment left out.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split(" #").next().unwrap_or_default();
    let before = code.split('=').filter_map(|part| part.trim().rsplit([' ', ',', '{']).next());
    // The second choice for a token stands in a comment.
    before.chain(line.split("# or ").nth(1).and_then(|rest| rest.split(' ').next()))
}

/// The cells of the first table under a heading, without its head.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let table = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    table.skip(2).map(cells).collect()
}

/// Every file under `src`, by its path there.
fn source() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut directories, mut files) = (vec![root.clone()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(&root).unwrap().to_owned(), text));
            }
        }
    }
    files
}

fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_photofinish")).args(command).arg("--help").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
