//! Writes the parts of the documents that follow from declarations, and compares them: with `PHOTOFINISH_BLESS=1` each test writes its
//! page.

use std::path::Path;

use photofinish_config::names::NamedChoice;
use photofinish_config::{self as config, Objective, Policy, catalogue};
use photofinish_facts::reason::DecisionReason;
use photofinish_facts::record::table::{Column, Table as _};
use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, CensorCause, LeftOutReason, RaceOutcome, RaceRecord, RaceSource, StartReason,
};
use photofinish_gateway::proxy::{CODES, ErrorCode};

// With the types of all quirks.
use photofinish_wire::conversation::Effort;
use photofinish_wire::quirks::*;
use photofinish_wire::{Dialect, each_form, each_quirk};
use serde_json::Value;

use super::{README, rows};

/// If set, the pages are written.
pub const BLESS: &str = "PHOTOFINISH_BLESS";

/// Compares a page with what follows from it and the declarations.
pub fn is_as_declared(name: &str, should: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let should = should(&page);
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &should).unwrap();
        return;
    }
    let differs = page.lines().zip(should.lines()).find(|(is, should)| is != should);
    assert!(page == should, "{name} differs from what is declared; set {BLESS}=1 once: {differs:#?}");
}

/// A page with these rows in the first table behind a line that begins so.
fn with_rows(page: &str, behind: &str, rows: &str) -> String {
    let (before, rest) = page.split_once(&format!("\n{behind}")).unwrap();
    let (head, table) = rest.split_once("| --- |\n").unwrap();
    let after: String = table.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
    format!("{before}\n{behind}{head}| --- |\n{rows}{after}")
}

/// A row for each name, with what it says.
fn choices<T: NamedChoice>() -> String {
    let row = |choice: &T| {
        let about: Vec<&str> = choice.about().split_whitespace().collect();
        format!("| `{}` | {} |\n", choice.name(), about.join(" "))
    };
    T::VARIANTS.iter().map(row).collect()
}

#[test]
fn policies_dialects_and_reasons_are_in_their_pages() {
    is_as_declared("docs/routing.md", |page| {
        let page = with_rows(page, "## Policies\n", &choices::<Policy>());
        with_rows(&page, "`why` has codes", &choices::<DecisionReason>())
    });
    let dialects = Dialect::ALL.map(Dialect::as_str).join(" | ");
    let comments = [
        (format!("policy = \"{}\" ", Policy::Adaptive.as_str()), Policy::ALL.map(Policy::as_str).join(" | ")),
        ("dialect = ".to_owned(), format!("or a list: {dialects}; default: the catalogue's")),
    ];
    let with_names = |page: &str| {
        let line = |line: &str| match (line.split_once(" # "), comments.iter().find(|(key, _)| line.starts_with(key))) {
            (Some((before, _)), Some((_, names))) => format!("{before} # {names}\n"),
            _ => format!("{line}\n"),
        };
        page.lines().map(line).collect()
    };
    is_as_declared("docs/configuration.md", with_names);
    is_as_declared("config.toml", with_names);
}

/// A value in the configuration.
trait TomlValue {
    fn toml(&self) -> String;
}

macro_rules! toml_values {
    ($($name:ident),+) => { $(impl TomlValue for $name {
        fn toml(&self) -> String {
            format!("{:?}", self.as_str())
        }
    })+ };
}

each_form!(toml_values);

impl TomlValue for bool {
    fn toml(&self) -> String {
        self.to_string()
    }
}

impl TomlValue for ThinkingLevels {
    fn toml(&self) -> String {
        format!("{:?}", self.efforts().map(Effort::as_str).collect::<Vec<_>>())
    }
}

macro_rules! usual_values {
    ($($(#[doc = $about:literal])* $quirk:ident: $type:ty $(= $usual:expr)?;)+) => {
        /// Each quirk and its usual value, if one is usual.
        fn usual_values() -> Vec<(&'static str, Option<String>)> {
            vec![$((stringify!($quirk), usual_values!(@toml $($usual)?)),)+]
        }
    };
    (@toml) => { None };
    (@toml $usual:expr) => { Some($usual.toml()) };
}

each_quirk!(usual_values);

#[test]
fn quirks_are_in_their_pages() {
    let schema: Value = serde_json::from_str(&config::schema()).unwrap();
    let keys = &schema["definitions"]["RequestKeys"]["properties"];
    let names = |of: &Value| {
        let names = of["anyOf"].as_array().into_iter().flatten().filter_map(|one| one["const"].as_str());
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let row = |(name, _): (&'static str, Option<String>)| {
        let key = &keys[name];
        let values = match key["type"].as_str() {
            Some("boolean") => "`true`, `false`".to_owned(),
            Some("integer") => "a number".to_owned(),
            Some("array") => format!("a list of {}", names(&key["items"])),
            _ => names(key),
        };
        let about: Vec<&str> = key["description"].as_str().unwrap().split_whitespace().collect();
        format!("| `{name}` | {values} | {} |\n", about.join(" "))
    };
    is_as_declared("docs/providers.md", |page| {
        let rows: String = usual_values().into_iter().map(row).collect();
        with_rows(page, "Each of these is known of the catalogue", &rows)
    });
    is_as_declared("docs/configuration.md", |page| {
        let begin = format!("\n{} = ", usual_values()[0].0);
        let (before, rest) = page.split_at(page.find(&begin).unwrap() + 1);
        let (own, after) = rest.split_once("\n\n").unwrap();
        let line = |(name, usual): (&str, Option<String>)| {
            let starts = format!("{name} = {}", usual.as_deref().unwrap_or_default());
            let known = own.lines().find(|line| line.starts_with(&starts)).map(str::to_owned);
            known.unwrap_or_else(|| {
                if usual.is_some() { starts } else { format!("# {name} = …   # unknown by default") }
            })
        };
        let lines: Vec<String> = usual_values().into_iter().map(line).collect();
        format!("{before}{}\n\n{after}", lines.join("\n"))
    });
}

/// The names in `columns` of tables are in their comments, and those of dialects also in the pages that list them.
#[test]
fn names_are_where_they_are_listed() {
    let (race, attempt) = (RaceRecord::COLUMNS, AttemptRecord::COLUMNS);
    let [providers, translation] = ["providers", "translation"]
        .map(|page| std::fs::read_to_string(format!("{}/docs/{page}.md", env!("CARGO_MANIFEST_DIR"))).unwrap());
    let dialects = Dialect::ALL.map(Dialect::as_str);
    let about = |columns: &[Column], name: &str| columns.iter().find(|column| column.name == name).unwrap().about;
    let line = |page: &str, begins: &str| page.lines().find(|line| line.starts_with(begins)).unwrap().replace('`', "");
    for (place, text, names) in [
        (
            "attempt.start_reason",
            about(attempt, "start_reason").to_owned(),
            &StartReason::ALL.map(StartReason::as_str)[..],
        ),
        ("attempt.censor_cause", about(attempt, "censor_cause").to_owned(), &CensorCause::ALL.map(CensorCause::as_str)),
        ("attempt.outcome", about(attempt, "outcome").to_owned(), &AttemptOutcome::ALL.map(AttemptOutcome::as_str)),
        ("race.outcome", about(race, "outcome").to_owned(), &RaceOutcome::ALL.map(RaceOutcome::as_str)),
        ("race.optimise", about(race, "optimise").to_owned(), &Objective::ALL.map(Objective::as_str)),
        ("race.left_out", about(race, "left_out").to_owned(), &LeftOutReason::ALL.map(LeftOutReason::as_str)),
        ("race.source", about(race, "source").to_owned(), &RaceSource::ALL.map(RaceSource::as_str)),
        ("docs/translation.md", line(&translation, "| | `openai`"), &dialects),
        (
            "docs/providers.md",
            rows(&providers, "Dialects").into_iter().map(|mut row| row.remove(0)).collect(),
            &dialects,
        ),
    ] {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words: Vec<&str> = text.split(|c| !is_word(c)).collect();
        let missing: Vec<&&str> = names.iter().filter(|name| !words.contains(*name)).collect();
        assert!(missing.is_empty(), "{place} lacks {missing:?}");
    }
}

#[test]
fn error_codes_are_in_the_http_page() {
    is_as_declared("docs/http.md", |page| {
        let mut rows: Vec<(&ErrorCode, Vec<&str>)> = Vec::new();
        for code in CODES {
            match rows.iter_mut().find(|(known, _)| known.code == code.code) {
                Some((_, statuses)) => statuses.push(code.status.as_str()),
                None => rows.push((code, vec![code.status.as_str()])),
            }
        }
        let row = |(code, statuses): &(&ErrorCode, Vec<&str>)| {
            let remedy = if code.remedy.is_empty() { String::new() } else { format!("{} ", code.remedy) };
            format!("| `{}` | {} | {} | {remedy}|\n", code.code, statuses.join(", "), code.about)
        };
        with_rows(page, "## Error codes\n", &rows.iter().map(row).collect::<String>())
    });
}

#[test]
fn the_catalogue_is_in_its_pages() {
    is_as_declared("docs/providers.md", with_catalogue);
    is_as_declared("docs/records/sources.md", with_sources);
    let count = format!("the catalogue of {} providers", catalogue::entries().count());
    assert!(README.contains(&count), "README.md must say \"{count}\"");
}

/// The page of providers with the table of the catalogue, which is the end of the page.
fn with_catalogue(page: &str) -> String {
    let rows: String = catalogue::entries()
        .map(|entry| {
            let speaks = entry.serves.iter().map(|served| {
                let url =
                    if served.base_url.is_empty() { "your own".to_owned() } else { format!("`{}`", served.base_url) };
                let unless = if served.only_if_named { " (if named)" } else { "" };
                format!("`{}` {url}{unless}", served.dialect.as_str())
            });
            let cells = [
                format!("`{}`", entry.name),
                speaks.collect::<Vec<_>>().join("; "),
                entry.key_variable.as_ref().map_or("none".to_owned(), |name| format!("`{name}`")),
                entry.cancel_billing.value.as_str().to_owned(),
                catalogue::continues(entry),
                entry.note.value.clone(),
            ];
            format!("| {} |\n", cells.join(" | "))
        })
        .collect();
    let (before, catalogue) = page.split_once("\n## Catalogue\n").unwrap();
    let rule = "| --- | --- | --- | --- | --- | --- |\n";
    let (head, _) = catalogue.split_once(rule).unwrap();
    format!("{before}\n## Catalogue\n{head}{rule}{rows}")
}

/// The page of sources: its introduction, and each source of an address, of a hang-up, of continuing and of a warm
/// connection with the facts that it is for.
fn with_sources(page: &str) -> String {
    let (introduction, _) = page.split_once("\n\n- ").unwrap();
    format!("{introduction}\n\n{}", sources())
}

fn sources() -> String {
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for entry in catalogue::entries() {
        let served = entry.serves.iter().map(|served| (served.dialect.as_str(), &served.source));
        let facts = [
            ("hang-up", &entry.cancel_billing.source),
            ("goes on", &entry.continues.source),
            ("warm", &entry.warming.source),
        ];
        for (fact, source) in served.chain(facts) {
            let fact = format!("`{}` {fact}", entry.name);
            match sources.iter_mut().find(|(known, _)| known == source) {
                Some((_, facts)) => facts.push(fact),
                None => sources.push((source, vec![fact])),
            }
        }
    }
    sources.into_iter().map(|(source, facts)| format!("- {source}: {}\n", facts.join(", "))).collect()
}
