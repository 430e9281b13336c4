//! How verdicts are printed: a table of facts and hosts, and a line for each difference.

use std::io;

use serde_json::{Value, json};

use crate::cli::screen::ScreenSettings;
use crate::cli::text::{RED, write_columns, write_folded, write_shaded};
use photofinish_base::clock::wall_micros;
use photofinish_config::{HostFact, StoreAddress};
use photofinish_facts::estimate::cost::Cost;
use photofinish_history::report::verdicts::{age, verdict};
use photofinish_history::store::{StoreReader, VerdictRow};
use photofinish_lab::verify::Verification;

/// What is printed besides the rows.
pub(super) struct VerifiedModel<'a> {
    pub model: &'a str,
    pub done: &'a [Verification],
    /// Its place, and whether it is the vendor's own.
    pub reference: Option<(usize, bool)>,
    pub spent: Cost,
}

impl VerifiedModel<'_> {
    fn host(&self) -> Option<&str> {
        self.reference.and_then(|(place, _)| self.done.get(place)).map(|done| done.host.as_str())
    }
}

pub(super) fn write(
    shown: &VerifiedModel<'_>,
    rows: &[VerdictRow],
    as_json: bool,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if as_json {
        let hosts = shown.done.iter().map(|done| {
            let own = rows.iter().filter(|row| row.host == done.host).map(verdict);
            json!({ "host": done.host, "requests": done.requests, "given_up": done.given_up, "facts": own.collect::<Vec<_>>() })
        });
        let hosts: Vec<Value> = hosts.collect();
        let Cost { cost_usd_min, cost_usd_max } = shown.spent;
        let object = json!({
            "model": shown.model, "reference": shown.host(), "cost_usd_min": cost_usd_min, "cost_usd_max": cost_usd_max,
            "hosts": hosts,
        });
        return writeln!(out, "{object:#}");
    }
    let hosts: Vec<&str> = shown.done.iter().map(|done| done.host.as_str()).collect();
    let mut left = &hosts[..];
    while !left.is_empty() {
        let (some, others) = left.split_at(fitting(left, screen.columns()));
        left = others;
        let mut table = vec![[&["fact"][..], some].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()];
        for fact in HostFact::ALL.map(HostFact::as_str) {
            let cell = |host: &&str| {
                let row = rows.iter().find(|row| row.fact == fact && row.host == **host);
                row.map_or("–".to_owned(), |row| format!("{}{}", row.answer, if row.wrong { " !" } else { "" }))
            };
            table.push(std::iter::once(fact.to_owned()).chain(some.iter().map(cell)).collect());
        }
        write_columns("", &table, screen.columns(), out)?;
        writeln!(out)?;
    }
    write_differences(rows, screen, out)?;
    let against = match (shown.host(), shown.reference) {
        (Some(host), Some((_, true))) => format!("Compared with {host}, the vendor's own API."),
        (Some(host), _) => format!("Compared with {host}."),
        _ if hosts.len() == 1 => "One host only: yes and no are its own.".to_owned(),
        _ => "Compared with what most hosts say.".to_owned(),
    };
    let is_priced = shown.spent.cost_usd_min.is_some() && shown.spent != Cost::ZERO;
    let cost = if is_priced { format!(" It cost {}.", shown.spent) } else { String::new() };
    write_folded(&format!("{against}{cost} A difference is no judgement of quality."), screen.columns(), out)
}

/// Columns of the names of facts, and of the longest answer with its mark.
const FACT_WIDTH: usize = 17;
const ANSWER_WIDTH: usize = 9;

/// How many of these hosts fit side by side; at least one.
fn fitting(hosts: &[&str], width: usize) -> usize {
    let mut taken = FACT_WIDTH;
    let fits = |host: &&&str| {
        taken += host.len().max(ANSWER_WIDTH) + 2;
        taken <= width
    };
    hosts.iter().take_while(fits).count().max(1)
}

/// A line for each fact that differs from the reference.
fn write_differences(rows: &[VerdictRow], screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<()> {
    let wrong: Vec<_> = rows.iter().filter(|row| row.wrong).map(|row| (difference(row), Some(RED))).collect();
    if wrong.is_empty() {
        return write_folded("No host differs from the reference in what could be said.", screen.columns(), out);
    }
    write_shaded("", wrong, screen, out)
}

fn difference(row: &VerdictRow) -> Vec<String> {
    vec![row.host.clone(), row.fact.clone(), row.answer.clone(), row.detail.clone()]
}

/// What is known of a model from earlier calls, with its age. Nothing without a database.
pub fn write_known(
    store: &StoreAddress,
    model: &str,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let Ok(rows) = StoreReader::open(store).map_err(drop).and_then(|reader| reader.verdicts(Some(model)).map_err(drop))
    else {
        return Ok(());
    };
    let Some(newest) = rows.iter().map(|row| row.at).max() else { return Ok(()) };
    writeln!(out, "\nVerified {}", age(newest, wall_micros()))?;
    write_differences(&rows, screen, out)
}
