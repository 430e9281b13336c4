//! Compares the names in the README and in `docs/` with the program: configurations, keys, defaults, headers, error
//! codes, options, the catalogue, bounds and links. Not for their prose, nor for the outputs pasted into them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helper fails by panicking")]

#[path = "readme/bounds.rs"]
mod bounds;
#[path = "readme/contract.rs"]
mod contract;
#[path = "readme/generated.rs"]
mod generated;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use photofinish_base::telemetry::LOG_VARIABLE;
use photofinish_config::offerings::{ModelCatalogue, Offering};
use photofinish_config::{Config, Policy, Server, Simulation, parse};

const ARCHITECTURE: &str = include_str!("../docs/architecture.md");
const CONFIG: &str = include_str!("../config.toml");
const BOUNDS: &str = include_str!("../docs/bounds.md");
/// Constants that only the program notices: a file and its constants on each line.
const INTERNAL_BOUNDS: &str = include_str!("internal_bounds.txt");
const COMMANDS: &str = include_str!("../docs/cli.md");
const CONFIGURATION: &str = include_str!("../docs/configuration.md");
const HTTP: &str = include_str!("../docs/http.md");
const README: &str = include_str!("../README.md");

#[test]
fn every_config_of_the_documents_is_valid() {
    let mut configs = 0;
    for page in pages() {
        for block in blocks(&page.text, "toml") {
            config(&block);
            configs += 1;
        }
    }
    assert!(configs >= 4, "the documents have lost their configurations");
}

#[test]
fn the_defaults_are_those_of_the_program() {
    let (documented, default) = (config(&every_key()), config(""));
    // These two depend on the machine.
    let Server { memory, max_in_flight, .. } = default.server;
    assert_eq!(Server { memory, max_in_flight, ..documented.server }, default.server);
    assert_eq!(documented.store, default.store);
    assert_eq!(documented.race, default.race);
    let simulation = documented.providers["slow-demo"].simulate.clone().unwrap();
    assert_eq!(Simulation { seed: None, stall: None, bad_calls: None, ..simulation }, Simulation::default());
}

#[test]
fn every_key_is_in_the_documented_config() {
    let block = every_key();
    let keys: BTreeSet<&str> = block.lines().flat_map(words).collect();
    for table in [
        "[server]\nzzz = 1",
        "[server]\ntls = { cert = \"x\", key = \"x\", zzz = 1 }",
        "[store]\nzzz = 1",
        "[otlp]\nzzz = 1",
        "[catalogue]\nzzz = 1",
        "[race]\nzzz = 1",
        "[race]\ntimeouts = { zzz = 1 }",
        "[race]\ndrains = { zzz = 1 }",
        "[race]\nbreaker = { zzz = 1 }",
        "[race]\nslo = { zzz = 1 }",
        "[providers.a]\nzzz = 1",
        "[providers.a]\nrequest = { zzz = 1 }",
        "[providers.a]\nsimulate = { zzz = 1 }",
        "[providers.a]\ntoken = { zzz = 1 }",
        "[providers.a]\naws = { zzz = 1 }",
        "[models.a]\nupstreams = [{ upstream = \"ollama/x\", zzz = 1 }]",
        "[models.a]\nzzz = 1",
        "[users.a]\nzzz = 1",
        "[limits]\nzzz = 1",
        "[limits]\nrpm = { zzz = 1 }",
        "[limits]\nbudget = { zzz = 1 }",
        "[probes]\nzzz = 1",
        "[workloads.a]\nzzz = 1",
    ] {
        for known in known_keys(table) {
            assert!(keys.contains(known.as_str()), "{known} of {table:?} is not in docs/configuration.md");
        }
    }
}

/// A word of a document or a text of the program that is a model that is not served any more.
fn dead_models(text: &str) -> Vec<&str> {
    let catalogue = ModelCatalogue::built_in();
    let lives = |offering: &Offering| !offering.is_retired(catalogue.date());
    let of_id =
        |id: &str| catalogue.offerings().filter(move |offering| offering.id == id).map(|found| lives(found)).collect();
    let is_dead = |word: &&str| {
        let mut found: Vec<bool> = of_id(word);
        found.extend(catalogue.model(word).into_iter().flat_map(|model| &model.hosts).map(|host| lives(host)));
        let upstream = word.split_once('/').and_then(|(provider, id)| catalogue.offering(provider, id));
        found.extend(upstream.map(|offering| lives(offering)));
        !found.is_empty() && found.iter().all(|lives| !lives)
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_matches(['.', ':', '-', '/']));
    words.filter(|word| word.contains(['-', '/'])).collect::<BTreeSet<_>>().into_iter().filter(is_dead).collect()
}

#[test]
fn documents_help_and_error_texts_name_living_models_only() {
    assert_eq!(
        dead_models("ask for groq/llama-3.3-70b-versatile or claude-3-opus-20240229."),
        ["claude-3-opus-20240229", "groq/llama-3.3-70b-versatile"]
    );
    let is_history =
        |path: &Path| path.ends_with("CHANGELOG.md") || path.components().any(|part| part.as_os_str() == "records");
    let pages = pages().into_iter().filter(|page| !is_history(&page.path)).map(|page| (page.path, page.text));
    // The rules of models are no texts.
    let is_test = |path: &Path| {
        path.extension().is_some_and(|end| end == "toml")
            || path.ends_with("tests.rs")
            || path.ends_with("sample.rs")
            || path.components().any(|part| part.as_os_str() == "tests")
    };
    let texts = source().into_iter().filter(|(path, _)| !is_test(path)).map(|(path, text)| {
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        (path, program.to_owned())
    });
    for (path, text) in pages.chain(texts).chain([("config.toml".into(), CONFIG.to_owned())]) {
        assert_eq!(dead_models(&text), Vec::<&str>::new(), "{}", path.display());
    }
}

#[test]
fn the_error_codes_are_in_the_http_page() {
    let mut in_source = BTreeSet::new();
    for (_, text) in source() {
        // Two codes have names that clients know.
        let known = ["model_not_found", "previous_response_not_found"];
        let is_code = |part: &&str| part.starts_with("photofinish_") || known.contains(part);
        let quoted = text.split('"').filter(is_code);
        let plain = |code: &&str| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        in_source.extend(quoted.filter(plain).map(|code| format!("`{code}`")));
    }
    let documented: BTreeSet<String> = rows(HTTP, "Error codes").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(documented, in_source);
}

#[test]
fn the_headers_are_in_the_http_page() {
    for (path, text) in source() {
        for name in text.split('"').filter(|part| part.starts_with("x-photofinish-")) {
            let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            // A prefix alone is not a header.
            if is_name && name != "x-photofinish-" {
                assert!(HTTP.contains(&format!("| `{name}")), "{name} of {} is not in docs/http.md", path.display());
            }
        }
    }
}

#[test]
fn commands_options_and_variables_are_in_the_cli_page() {
    let listed = help(&[]);
    let (_, commands) = listed.split_once("\nRun:\n").unwrap();
    let (commands, _) = commands.split_once("\nOptions:").unwrap();
    let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        assert!(COMMANDS.contains(&format!("| `photofinish {command}` |")), "{command} is not in docs/cli.md");
        for option in help(&[command]).split_whitespace().filter(|word| word.starts_with("--")) {
            let option = option.trim_end_matches([',', ';', '.', ':']);
            assert!(COMMANDS.contains(&format!("`{option}")), "{option} of {command} is not in docs/cli.md");
        }
    }
    for variable in ["PHOTOFINISH_CONFIG", "PHOTOFINISH_LISTEN", "PHOTOFINISH_TOKEN", LOG_VARIABLE] {
        assert!(COMMANDS.contains(&format!("| `{variable}` |")), "{variable}");
    }
    for policy in Policy::ALL.map(Policy::as_str) {
        assert!(README.contains(&format!("| `{policy}`")), "README.md has no row `{policy}` in its table of policies");
    }
}

#[test]
fn what_counts_in_memory_is_in_the_table() {
    let table = BOUNDS.split("## What is held").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut counting = BTreeSet::new();
    for (path, text) in source() {
        let path = path.to_str().unwrap().replace('\\', "/");
        let code = text.split("mod tests {").next().unwrap();
        let counts = [".lease()", "ClientLease::new("].iter().any(|counts| code.contains(counts));
        if counts && path != "memory.rs" && !path.starts_with("simulate/") {
            counting.insert(path);
        }
    }
    let named: BTreeSet<String> = table.split('`').filter(|word| word.ends_with(".rs")).map(str::to_owned).collect();
    let without = named.difference(&counting).filter(|path| *path != "proxy/request/message.rs");
    assert_eq!((counting.difference(&named).count(), without.count()), (0, 0), "{counting:?} and {named:?}");
}

#[test]
fn links_lead_somewhere_and_stay_in_the_book() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").canonicalize().unwrap();
    for page in pages() {
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            assert!(target.exists(), "{link} of {} leads nowhere", page.path.display());
            if page.path.canonicalize().unwrap().starts_with(&book) {
                let inside = target.canonicalize().unwrap().starts_with(&book);
                assert!(inside, "{link} of {} leaves the book", page.path.display());
            }
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(target).unwrap();
                assert!(text.lines().any(|line| heading(line).as_deref() == Some(anchor)), "{link}");
            }
        }
    }
}

#[test]
fn the_readme_stays_short() {
    assert!(README.lines().count() <= 250, "{} lines", README.lines().count());
    assert!(README.len() <= 14 * 1024, "{} bytes", README.len());
}

#[test]
fn every_page_is_in_the_index_and_in_the_summary() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for page in pages().iter().filter(|page| page.path.starts_with(&docs)) {
        let name = page.path.strip_prefix(&docs).unwrap().to_str().unwrap().replace('\\', "/");
        if ["README.md", "SUMMARY.md"].contains(&name.as_str()) {
            continue;
        }
        assert!(summary.contains(&format!("]({name})")), "{name} is not in docs/SUMMARY.md");
        match name.split_once('/') {
            Some((folder, file)) if file != "README.md" => {
                let index = std::fs::read_to_string(docs.join(folder).join("README.md")).unwrap();
                assert!(index.contains(&format!("]({file})")), "{file} is not in docs/{folder}/README.md");
            }
            _ => assert!(index.contains(&format!("]({name})")), "{name} is not in docs/README.md"),
        }
    }
}

#[test]
fn every_file_named_in_the_documents_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in pages().iter().filter(|page| !page.path.ends_with("CHANGELOG.md")) {
        let words = page.text.split(|c: char| !(c.is_ascii_alphanumeric() || "/_.-*".contains(c)));
        for word in words.map(|word| word.trim_end_matches(['.', ','])) {
            let top = ["src/", "crates/", "tests/", "examples/", "benches/", "scripts/", "migrations/"];
            let is_path = top.iter().any(|top| word.starts_with(top) && word.len() > top.len());
            if is_path && !word.contains('*') && !word.contains("NAME") {
                let exists = root.join(word).exists() || root.join(format!("{word}.rs")).exists();
                assert!(exists, "{word}, named in {}, does not exist", page.path.display());
            }
        }
    }
}

#[test]
fn every_room_is_in_the_layers() {
    let listed = rows(ARCHITECTURE, "Layers").into_iter().map(|row| row[1].clone()).collect::<Vec<_>>().join(", ");
    let is_root = |path: &Path| path == Path::new("lib.rs") || path == Path::new("main.rs");
    let roots: String = source().into_iter().filter(|(path, _)| is_root(path)).map(|(_, text)| text).collect();
    let roots = roots.replace("#[cfg(test)]\nmod ", "");
    let declared = roots.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "));
    let rooms: Vec<&str> = declared.map(|line| line.trim_end_matches(';')).collect();
    for room in &rooms {
        assert!(listed.contains(&format!("`{room}`")), "{room} is not in the layers of docs/architecture.md");
    }
    assert_eq!(listed.split(", ").count(), rooms.len(), "docs/architecture.md has rooms that no crate has: {listed}");
}

#[test]
fn every_type_of_the_glossary_exists_once() {
    let source = source();
    let defined = |name: &str| {
        let kinds = ["struct ", "enum ", "trait "].map(|kind| format!("{kind}{name}"));
        let lines = source.iter().flat_map(|(_, text)| text.lines());
        let begins = |line: &&str| {
            let item = line.trim_start().trim_start_matches("pub").trim_start_matches("(super)");
            let item = item.trim_start_matches("(crate)").trim_start();
            kinds.iter().any(|kind| {
                item.strip_prefix(kind.as_str()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            })
        };
        lines.filter(begins).count()
    };
    for row in rows(ARCHITECTURE, "Glossary") {
        let name = row[1].trim_matches('`');
        assert_eq!(defined(name), 1, "{name}, in the glossary of docs/architecture.md");
    }
}

/// Words of no public name: the glossary has a term for what they meant.
const AVOIDED: [&str; 7] = ["accounts", "beside", "fate", "ledger", "standing", "stands", "told"];
/// Public names that still have such a word.
const STILL: [&str; 5] = ["LedgerPurpose", "SimulatedFate", "accounts", "fate", "standing"];

#[test]
fn public_names_have_the_words_of_the_glossary() {
    let source = source();
    for (path, text) in &source {
        for name in text.lines().filter_map(public_name).filter(|name| !STILL.contains(&name.as_str())) {
            assert!(
                !words_of(&name).iter().any(|word| AVOIDED.contains(&word.as_str())),
                "{name} in {}",
                path.display()
            );
        }
    }
}

/// The name of the public item or field that the line begins.
fn public_name(line: &str) -> Option<String> {
    const KINDS: [&str; 9] = ["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type"];
    let item = line.trim_start().strip_prefix("pub")?;
    let item = item.strip_prefix('(').and_then(|scoped| Some(scoped.split_once(')')?.1)).unwrap_or(item);
    let name = item.strip_prefix(' ')?.split(' ').find(|word| !KINDS.contains(word))?;
    Some(name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
}

/// `CostBudget`, `cost_budget` and `COST_BUDGET`: cost, budget.
fn words_of(name: &str) -> Vec<String> {
    if name.contains('_') || !name.contains(|c: char| c.is_lowercase()) {
        return name.split('_').map(str::to_lowercase).collect();
    }
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut().unwrap().extend(c.to_lowercase());
    }
    words
}

fn config(text: &str) -> Config {
    let secret =
        |name: &str| ["ROOT_TOKEN", "OIDC_SECRET"].contains(&name).then(|| "a-secret-of-a-document".to_owned());
    parse(text, Path::new("config.toml"), &secret).unwrap_or_else(|problems| panic!("{problems}\nin:\n{text}"))
}

/// A Markdown file of the repository.
struct Page {
    path: PathBuf,
    text: String,
}

/// The pages at the root and all under `docs/`.
fn pages() -> Vec<Page> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (mut directories, mut pages) = (vec![root.join("docs")], Vec::new());
    let mut take = |path: PathBuf| {
        if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            pages.push(Page { path, text });
        }
    };
    for entry in std::fs::read_dir(root).unwrap() {
        take(entry.unwrap().path());
    }
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { take(path) }
        }
    }
    pages
}

/// The anchor of a heading, as GitHub and mdbook generate it.
fn heading(line: &str) -> Option<String> {
    let text = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

/// The configuration that names every key.
fn every_key() -> String {
    blocks(CONFIGURATION, "toml").into_iter().find(|block| block.starts_with("[server]")).unwrap()
}

/// The keys that the reader proposes instead of `zzz`.
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

/// The part before the `=` in a line of TOML, without its comment; the second choice for a token is in one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split(" #").next().unwrap_or_default();
    let before = code.split(['=', '.', ']']).filter_map(|part| part.trim().rsplit([' ', ',', '{', '[']).next());
    before.chain(line.split("# or ").nth(1).and_then(|rest| rest.split(' ').next()))
}

/// The cells of the first table under a heading, without its head.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(&format!("# {heading}\n")).unwrap();
    let table = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    table.skip(2).map(cells).collect()
}

/// The folders of the crates, the program's last.
fn homes() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    crates.chain([root.to_owned()]).collect()
}

/// Every file under the `src` of a crate, by its path there.
fn source() -> Vec<(PathBuf, String)> {
    homes().iter().flat_map(|home| source_of(home)).collect()
}

fn source_of(home: &Path) -> Vec<(PathBuf, String)> {
    let mut directories = vec![home.join("src")];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.to_str().unwrap().rsplit_once("/src/").unwrap().1.into(), text));
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
