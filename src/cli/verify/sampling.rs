//! `photofinish verify --sample`: two sessions hours apart, and what they show. Not for the statistics: see
//! `photofinish_lab::verify`.

use std::collections::BTreeMap;
use std::io;

use crate::cli::outcome::{CommandOutcome, WrongUse};
use crate::cli::screen::ScreenSettings;
use crate::cli::text::write_folded;
use photofinish_config::StoreAddress;
use photofinish_history::report::verdicts::age;
use photofinish_history::store::{OpenError, SampleRow, Store, StoreReader, VerdictRow};
use photofinish_lab::verify::{SampleVerdict, SampledAnswer, compare_samples};

/// The second session begins so long after the first at least, and at most.
const BETWEEN_US: std::ops::Range<i64> = 3_600_000_000..7 * 86_400_000_000;

/// The answers of the first session, if this is the second one.
///
/// # Errors
/// `WrongUse`: the first session was less than an hour ago. The database cannot be read.
pub(super) fn first_session(
    store: &StoreAddress,
    model: &str,
    hosts: &[String],
    now_us: i64,
) -> anyhow::Result<Vec<SampleRow>> {
    let reader = match StoreReader::open(store) {
        Err(OpenError::Absent { .. }) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut rows = reader.sample(model)?;
    let began = rows.iter().map(|row| row.at).min().unwrap_or(0);
    let same = hosts.iter().all(|host| rows.iter().any(|row| row.host == *host));
    if now_us - began >= BETWEEN_US.end || !same {
        rows.clear();
    } else if now_us - began < BETWEEN_US.start {
        let text =
            format!("the first session was {}: the second begins an hour later at the earliest", age(began, now_us));
        return Err(WrongUse(text).into());
    }
    Ok(rows)
}

/// Keeps a first session, or compares both and says what they show.
pub(super) fn finish(
    store: &StoreAddress,
    (model, at): (&str, i64),
    first: Vec<SampleRow>,
    sampled: Vec<(String, Vec<SampledAnswer>)>,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<CommandOutcome> {
    if sampled.iter().any(|(_, answers)| answers.is_empty()) {
        anyhow::bail!("a host gave no answer: nothing is kept");
    }
    let store = Store::open(store)?;
    if first.is_empty() {
        let rows = sampled.iter().flat_map(|(host, answers)| {
            let row = move |(number, answer): (usize, &SampledAnswer)| SampleRow {
                at,
                host: host.clone(),
                prompt: answer.prompt,
                number,
                letters: answer.letters.clone(),
            };
            answers.iter().enumerate().map(row)
        });
        store.save_sample(model, &rows.collect::<Vec<_>>())?;
        let text = "The first session is kept. Say the same again some hours later, within a week: a host must be compared with itself.";
        write_folded(text, screen.columns(), out)?;
        return Ok(CommandOutcome::Done);
    }
    let mut hosts: BTreeMap<String, Vec<SampledAnswer>> = BTreeMap::new();
    for row in first {
        hosts.entry(row.host).or_default().push(SampledAnswer { prompt: row.prompt, session: 0, letters: row.letters });
    }
    for (host, answers) in sampled {
        hosts.entry(host).or_default().extend(answers);
    }
    let hosts: Vec<(String, Vec<SampledAnswer>)> = hosts.into_iter().collect();
    let verdicts = compare_samples(&hosts, at.unsigned_abs());
    for verdict in &verdicts {
        write_folded(&format!("{}: {}", verdict.host, words(verdict)), screen.columns(), out)?;
    }
    write_folded("A difference is no judgement of quality.", screen.columns(), out)?;
    let row = |verdict: &SampleVerdict| VerdictRow {
        at,
        model: model.to_owned(),
        host: verdict.host.clone(),
        fact: "sample".to_owned(),
        answer: if verdict.differs { "differs" } else { "not said" }.to_owned(),
        reference: String::new(),
        detail: words(verdict),
        wrong: verdict.differs,
    };
    store.save_verdicts(&verdicts.iter().map(row).collect::<Vec<_>>())?;
    store.save_sample(model, &[])?;
    let differs = verdicts.iter().any(|verdict| verdict.differs);
    Ok(if differs { CommandOutcome::Missed } else { CommandOutcome::Done })
}

fn words(verdict: &SampleVerdict) -> String {
    let SampleVerdict { distance, interval: (low, high), p, yardstick, detectable, differs, .. } = verdict;
    if *differs {
        return format!(
            "differs by {distance:.4} ({low:.4} to {high:.4}; p {p:.3}), beyond what an hour or a day changes at the same host ({yardstick:.4})"
        );
    }
    format!("no difference found; one of {detectable:.4} would have been found four times in five (p {p:.3})")
}
