//! `docs/bounds.md`: each constant that bounds something, with its comment and its value. `tests/internal_bounds.txt` names those that
//! only the program notices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::generated::is_as_declared;
use super::{INTERNAL_BOUNDS, homes, source_of};

/// Headings for users, in their order, and the crates whose bounds they have. A crate that is not here has a heading of its name.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Clients", &["serve"]),
    ("Requests, races and attempts", &["gateway"]),
    ("Health, learning and limits of callers", &["routing", "limits"]),
    ("Connections to providers", &["transport"]),
    ("Translation and parsing", &["wire", "dialects"]),
    ("The history", &["facts", "history"]),
    ("Configuration", &["config"]),
    ("Files, memory and the log", &["base"]),
    ("Benchmarks, probes and commands", &["lab", "photofinish"]),
];

/// A constant of the program.
struct Bound {
    owner: String,
    /// Below the `src` of its crate.
    file: String,
    name: String,
    about: String,
    value: String,
}

#[test]
fn bounds_are_in_their_page() {
    let all = bounds();
    let internal = INTERNAL_BOUNDS.lines().filter_map(|line| line.split_once(' '));
    let internal: BTreeSet<(&str, &str)> =
        internal.flat_map(|(file, names)| names.split(' ').map(move |name| (file, name))).collect();
    let known: BTreeSet<(&str, &str)> = all.iter().map(|bound| (bound.file.as_str(), bound.name.as_str())).collect();
    let gone: Vec<_> = internal.difference(&known).collect();
    assert!(gone.is_empty(), "tests/internal_bounds.txt names what is not in the source: {gone:?}");
    let shown: Vec<&Bound> =
        all.iter().filter(|bound| !internal.contains(&(bound.file.as_str(), bound.name.as_str()))).collect();
    for Bound { file, name, about, .. } in &shown {
        assert!(about.ends_with('.'), "{file}: {name} needs a comment of one sentence for docs/bounds.md: {about:?}");
    }
    is_as_declared("docs/bounds.md", |page| {
        let (written, _) = page.split_once("\n## Each bound\n").unwrap();
        format!("{written}\n## Each bound\n{}", tables(&shown))
    });
}

fn tables(shown: &[&Bound]) -> String {
    let listed = |owner: &str| GROUPS.iter().any(|(_, owners)| owners.contains(&owner));
    let others: BTreeSet<&str> =
        shown.iter().map(|bound| bound.owner.as_str()).filter(|owner| !listed(owner)).collect();
    let groups = GROUPS.iter().map(|(heading, owners)| (*heading, owners.to_vec()));
    let mut text = String::new();
    for (heading, owners) in groups.chain(others.into_iter().map(|owner| (owner, vec![owner]))) {
        let own = shown.iter().filter(|bound| owners.contains(&bound.owner.as_str()));
        let rows: String = own
            .map(|Bound { file, name, about, value, .. }| format!("| {about} | {value} | `{file}` `{name}` |\n"))
            .collect();
        if !rows.is_empty() {
            write!(text, "\n### {heading}\n\n| what | bound | constant |\n| --- | --- | --- |\n{rows}").unwrap();
        }
    }
    text
}

/// All of them, by crate and file, each file's in their order there.
fn bounds() -> Vec<Bound> {
    // By name: the crate, the file and the value of each constant.
    let mut values: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    let mut found = Vec::new();
    for home in homes() {
        let is_program = home == Path::new(env!("CARGO_MANIFEST_DIR"));
        let owner = if is_program { "photofinish" } else { home.file_name().unwrap().to_str().unwrap() };
        let mut files = source_of(&home);
        files.sort();
        for (path, text) in files {
            let file = path.to_str().unwrap().replace('\\', "/");
            if file.starts_with("simulate/") || file.contains("test") {
                continue;
            }
            for (name, value, about) in constants(&text) {
                let place = [owner.to_owned(), file.clone(), value.clone()];
                values.entry(name.clone()).or_default().push(place);
                if ["_MAX", "_FOR", "MAX_ATTEMPTS", "BACKLOG"].iter().any(|end| name.ends_with(end)) {
                    found.push(Bound { owner: owner.to_owned(), file: file.clone(), name, about, value });
                }
            }
        }
    }
    for bound in &mut found {
        // That of the file, of the crate, or of the program.
        let known = |name: &str| {
            let all = values.get(name)?;
            let near = |is_near: &dyn Fn(&&[String; 3]) -> bool| {
                let found: BTreeSet<&str> = all.iter().filter(is_near).map(|place| place[2].as_str()).collect();
                found.first().copied().filter(|_| found.len() == 1)
            };
            near(&|place| place[1] == bound.file)
                .or_else(|| near(&|place| place[0] == bound.owner))
                .or_else(|| near(&|_| true))
        };
        let is_time = bound.name.contains("_US_");
        let micros = number_of(&bound.value, &known).filter(|_| is_time);
        bound.value = micros.map_or_else(|| shown(&bound.value, &bound.about, &known), time);
    }
    found
}

/// The constants of a file: their names, values and comments.
fn constants(text: &str) -> Vec<(String, String, String)> {
    let lines: Vec<&str> = text.split("mod tests {").next().unwrap().lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let named = line.split_once("const ").and_then(|(_, rest)| rest.split_once(": "));
        let Some((name, _)) = named else { continue };
        let declared: String = lines[at..].iter().take(20).flat_map(|line| [line.trim(), " "]).collect();
        if let Some((_, value)) = declared.split(';').next().unwrap().split_once(" = ") {
            found.push((name.to_owned(), value.trim().to_owned(), comment(&lines[..at])));
        }
    }
    found
}

/// The first sentence of the comment above.
fn comment(above: &[&str]) -> String {
    let above = above.iter().rev().skip_while(|line| line.trim().starts_with("#["));
    let mut lines: Vec<&str> = above.map_while(|line| line.trim().strip_prefix("///")).map(str::trim).collect();
    lines.reverse();
    let text = lines.join(" ").replace("[`", "`").replace("`]", "`");
    text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
}

type Known<'k> = dyn Fn(&str) -> Option<&'k str> + 'k;

/// A value for people, with its unit.
fn shown(value: &str, about: &str, known: &Known<'_>) -> String {
    if let Some((low, high)) = value.split_once("..=") {
        return format!("{} to {}", shown(low, about, known), shown(high, about, known));
    }
    if let Some(value) = known(value) {
        return shown(value, about, known);
    }
    if let Some((unit, number)) = value.strip_prefix("Duration::from_").and_then(|rest| rest.split_once('(')) {
        let scale = match unit {
            "secs" => 1e6,
            "millis" => 1e3,
            _ => 1.0,
        };
        return number_of(number.trim_end_matches(')'), known).map_or(value.to_owned(), |number| time(number * scale));
    }
    match number_of(value, known) {
        Some(number) if about.to_lowercase().contains("byte") && number >= 1024.0 && number % 1024.0 == 0.0 => {
            size(number)
        }
        Some(number) => grouped(number),
        None => format!("`{value}`"),
    }
}

/// Of a text such as `64 << 10` or `24 * 3_600`.
fn number_of(text: &str, known: &Known<'_>) -> Option<f64> {
    let text = text.trim();
    for (sign, apply) in [
        (" << ", (|a, b: f64| a * b.exp2()) as fn(f64, f64) -> f64),
        (" + ", |a, b| a + b),
        (" - ", |a, b| a - b),
        (" * ", |a, b| a * b),
    ] {
        let outside = |place: &usize| text[..*place].matches('(').count() == text[..*place].matches(')').count();
        if let Some(place) = text.match_indices(sign).map(|(place, _)| place).filter(outside).last() {
            return Some(apply(number_of(&text[..place], known)?, number_of(&text[place + sign.len()..], known)?));
        }
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        return number_of(inner, known);
    }
    known(text).map_or_else(|| text.replace('_', "").parse().ok(), |value| number_of(value, known))
}

fn time(us: f64) -> String {
    let units = [(86_400e6, "days"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms")];
    let whole = units.iter().find(|(unit, name)| us >= *unit && us % unit == 0.0 && (*name != "days" || us > *unit));
    let (unit, name) = whole.copied().unwrap_or(if us >= 1e6 { (1e6, "s") } else { (1.0, "µs") });
    format!("{} {name}", grouped(us / unit))
}

fn size(bytes: f64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit as f64).unwrap();
    format!("{} {name}", grouped(bytes / unit as f64))
}

/// With a comma at each thousand.
fn grouped(number: f64) -> String {
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if part.is_empty() { grouped } else { format!("{grouped}.{part}") }
}
