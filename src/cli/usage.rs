//! `photofinish usage`: what each user, team, key or model used and cost; and `photofinish audit`: who changed what. Both read the
//! database only.

use std::collections::BTreeSet;
use std::io;

use serde_json::Value;

use super::screen::ScreenSettings;
use super::sheet::{Sheet, SheetCell};
use super::stats::notes::ahead;
use super::text::{counted, write_paragraph, write_paragraphs};
use photofinish_base::clock::wall_micros;
use photofinish_base::printable::printable;
use photofinish_config::{Config, StoreAddress};
use photofinish_history::report::members::write_rows;
use photofinish_history::report::question::time;
use photofinish_history::report::usage::{AttemptUse, UsageDimension, UsageQuestion, ask};
use photofinish_history::store::{AuditLine, StoreReader};
use photofinish_serve::server::{AuditQuestion, audit_line};

/// What `usage` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct UsageOptions {
    #[command(flatten)]
    pub question: UsageQuestion,
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
    /// One line for each group, for a spreadsheet.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// What `audit` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct AuditOptions {
    #[command(flatten)]
    pub question: AuditQuestion,
    /// A list of objects, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Reads the database of this configuration and writes a table or JSON to `out`.
pub fn usage(
    config: &Config,
    options: &UsageOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let answer = ask(&StoreReader::open(&config.store.address)?, &options.question, wall_micros())?;
    if options.json {
        return Ok(writeln!(out, "{}", answer.json(config))?);
    }
    if options.csv {
        return Ok(write_rows(&answer.columns(), &answer.objects(), out)?);
    }
    let names = answer.by.iter().map(|by| by.as_str().to_owned());
    let heads = ["answers", "attempts", "tokens in", "tokens out", "cost", "racing"].map(str::to_owned);
    let row = |names: Vec<String>, used: &AttemptUse| {
        let figures = [
            used.answers.to_string(),
            used.attempts.to_string(),
            used.input_tokens.to_string(),
            used.output_tokens.to_string(),
            used.cost.to_string(),
            used.extra.to_string(),
        ];
        names.into_iter().chain(figures).map(SheetCell::from).collect()
    };
    let shown = |by: &UsageDimension, keys: &[Option<String>], key: &Option<String>| match (key, by) {
        (None, _) => "-".to_owned(),
        (Some(id), UsageDimension::Key) => {
            printable(&answer.key_name(keys).map_or_else(|| id.clone(), |name| format!("{name} ({id})")))
        }
        (Some(name), _) => printable(name),
    };
    let words = |keys: &[Option<String>]| answer.by.iter().zip(keys).map(|(by, key)| shown(by, keys, key)).collect();
    let mut rows: Vec<Vec<SheetCell>> = answer.groups.iter().map(|(keys, used)| row(words(keys), used)).collect();
    let mut total = vec![String::new(); answer.by.len()];
    total[0] = "all".to_owned();
    rows.push(row(total, &answer.total));
    Sheet { heads: names.chain(heads).collect(), names: answer.by.len(), rows }.write(screen.terminal(), out)?;
    let unpriced = (answer.total.cost.unpriced() > 0).then(|| {
        let attempts = counted(answer.total.cost.unpriced(), "attempt");
        format!("In no sum: {attempts} without a price. `photofinish models` says which.")
    });
    let about_range = answer.cancelled.about_range(&answer.total.cost, config);
    Ok(write_paragraphs(
        [unpriced, about_range, ahead(&answer.coverage)].into_iter().flatten(),
        screen.terminal(),
        out,
    )?)
}

/// Reads the database and writes paragraphs or JSON to `out`, newest first.
pub fn audit(
    store: &StoreAddress,
    options: &AuditOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let lines = options.question.ask(&StoreReader::open(store)?)?;
    if options.json {
        let lines: Vec<_> = lines.iter().map(audit_line).collect();
        return Ok(writeln!(out, "{:#}", serde_json::Value::from(lines))?);
    }
    for AuditLine { at, by, subject, before, after, .. } in &lines {
        let what = match (before, after) {
            (None, _) => "made: ",
            (_, None) => "removed: ",
            _ => "",
        };
        let line = format!("{} {} ({}) {subject}: {what}{}", time(*at), by.who, by.origin, difference(before, after));
        write_paragraph(&printable(&line), width, out)?;
    }
    if lines.is_empty() {
        writeln!(out, "Nothing was changed.")?;
    }
    Ok(())
}

/// The settings that are not the same.
fn difference(before: &Option<Value>, after: &Option<Value>) -> String {
    let of = |settings: &Option<Value>| settings.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (of(before), of(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let text = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let changes = changed.map(|name| match (before.get(name), after.get(name)) {
        (None, value) | (value, None) if before.is_empty() || after.is_empty() => format!("{name} {}", text(value)),
        (old, new) => format!("{name} {} → {}", text(old), text(new)),
    });
    changes.collect::<Vec<_>>().join(", ")
}
