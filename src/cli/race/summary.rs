//! The races of the command that are over, and reports on them: one with its attempts, many by upstream, or one for programs.
//!
//! The definitions are those of `stats`; the figures are made of the rows as they were recorded.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::board::{DrawnState, how, upstream_of};
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{clean, mark, millis, or_dash, write_paragraph};
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::facts::{self, MeasuredAttempt, RequestRow};
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::estimate::survival::{Estimate, Survival};
use photofinish_facts::record::table::{self, Subset as _};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, Record};
use photofinish_history::report::races::timeline;

/// A race that is over, with all its attempts in the order of their starts.
pub struct FinishedRace {
    pub race: RaceRecord,
    pub attempts: Vec<AttemptRecord>,
    /// What was answered; kept for programs only.
    pub answer: String,
}

const OF_ONE: [&str; 8] = ["attempt", "outcome", "started", "TTFT", "tok/s", "in", "out", "cost"];
const OF_MANY: [&str; 9] = ["upstream", "started", "won", "failed", "TTFT p50", "p95", "tok/s", "cost", "racing"];
const SHARES: [f64; 2] = [0.50, 0.95];

/// One race, in lines of `width` where there is one.
pub fn write_one(done: &FinishedRace, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let FinishedRace { race, attempts, .. } = done;
    if !attempts.is_empty() {
        let rows: Vec<TextRow> = attempts.iter().map(|row| row_of(race, row)).collect();
        write_rows(&OF_ONE, 2, &rows, width, out)?;
    }
    let after = |us: Option<i64>| or_dash(us, millis);
    let done = after(race.done_us);
    let client = match race.outcome {
        RaceOutcome::Ok => format!("first token after {}, all of it after {done}", after(race.first_token_sent_us)),
        RaceOutcome::ClientGone | RaceOutcome::Shutdown => format!("cancelled after {done}"),
        RaceOutcome::Error if race.first_token_sent_us.is_some() => format!("broke off after {done}"),
        RaceOutcome::Error | RaceOutcome::Rejected => format!("no answer after {done}"),
    };
    let client = format!("client: {client}");
    write_paragraph(&client, width, out)?;
    let (mut all, mut extra) = (CostSum::default(), CostSum::default());
    for (row, racing) in attempts.iter().zip(facts::racing(race, attempts.iter())) {
        all.add(&Cost::of(row));
        if racing.is_some() {
            extra.add(&Cost::of(row));
        }
    }
    if !attempts.is_empty() {
        write_paragraph(&costs(&all, &extra), width, out)?;
    }
    let policy = race.policy.unwrap_or("none");
    write_paragraph(&format!("race {}: {}, policy {policy}", race.race_id, race.model), width, out)
}

fn row_of(race: &RaceRecord, row: &AttemptRecord) -> TextRow {
    let ttft = match (row.ttft_obs_us, row.ttft_event) {
        (Some(us), Some(1)) => millis(us),
        (Some(us), _) => format!("> {}", millis(us)),
        (None, _) => "–".to_owned(),
    };
    let decoding = Decoding::of(row);
    let outcome = match how(row) {
        DrawnState::Done => "won".to_owned(),
        how if race.winner == Some(row.ordinal) => format!("won; {}", how.words()),
        how => how.words(),
    };
    let cells = vec![
        outcome,
        millis(row.dispatch_us),
        ttft,
        or_dash(decoding.tpot_us(race.n_choices), |tpot_us| format!("{:.1}", 1e6 / tpot_us)),
        or_dash(row.input_tokens, |tokens| tokens.to_string()),
        or_dash(decoding.tokens_out(), |tokens| tokens.to_string()),
        Cost::of(row).to_string(),
    ];
    (upstream_of(row), cells)
}

/// Many races, by upstream and as their clients saw them.
pub fn write_many(done: &[FinishedRace], width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let (mut upstreams, mut all) = (BTreeMap::<String, Summary>::new(), Summary::default());
    for (number, FinishedRace { race, attempts, .. }) in (0..).zip(done) {
        let (request, attempts) = (RequestRow::of(race), attempts.iter().map(MeasuredAttempt::of).collect::<Vec<_>>());
        facts::of_race((number, race.started_at), Some(&request), &attempts, |facts| {
            upstreams.entry(format!("{}/{}", facts.provider, facts.model_sent)).or_default().add(facts, 1.0, false);
            all.add(facts, 1.0, false);
        });
    }
    let mut upstreams: Vec<(String, Summary)> = upstreams.into_iter().collect();
    upstreams.sort_by_key(|(_, summary)| Reverse(summary.outcome(AttemptOutcome::Won)));
    let rows: Vec<TextRow> = upstreams.into_iter().map(|(name, summary)| (name, cells(&summary))).collect();
    if !rows.is_empty() {
        write_rows(&OF_MANY, 1, &rows, width, out)?;
        writeln!(out)?;
    }
    let answered = done.iter().filter(|done| done.race.outcome == RaceOutcome::Ok).count();
    let client = all.client_ttft.quantiles(SHARES).map(|us| or_dash(us, millis));
    let [p50, p95] = SHARES.map(|share| mark(all.client_ttft.effective(), share));
    write_paragraph(
        &format!(
            "{} races, {answered} answered; the client's TTFT: p50 {p50}{}, p95 {p95}{}",
            done.len(),
            client[0],
            client[1]
        ),
        width,
        out,
    )?;
    write_paragraph(&costs(&all.cost, &all.extra_cost()), width, out)?;
    write_paragraph(NOTES, width, out)
}

const NOTES: &str =
    "~ few samples, > cut before it came, – not known; racing: cost of attempts that were not the answer";

fn cells(summary: &Summary) -> Vec<String> {
    let survival: Survival = summary.ttft.survival();
    let ttft = SHARES.map(|share| match survival.quantile(share) {
        None => "–".to_owned(),
        Some(Estimate::Reached(us)) => format!("{}{}", mark(summary.ttft.effective(), share), millis(us)),
        Some(Estimate::NotReached { over_us }) => format!("> {}", millis(over_us)),
    });
    let [p50, p95] = ttft;
    let [tok_s] = summary.tpot.quantiles_from_above([0.5]);
    let few = mark(summary.tpot.effective(), 0.5);
    vec![
        summary.attempts.to_string(),
        summary.outcome(AttemptOutcome::Won).to_string(),
        (summary.failed() + summary.outcome(AttemptOutcome::Empty)).to_string(),
        p50,
        p95,
        or_dash(tok_s, |ns| format!("{few}{:.1}", 1e9 / ns as f64)),
        summary.cost.to_string(),
        summary.extra_cost().to_string(),
    ]
}

/// For programs: what `/api/races/{race_id}` has of it, without the figures of the views, and the answer.
pub fn object(done: &FinishedRace) -> Value {
    let mut race = table::object(&done.race);
    let started = Timestamp::from_microsecond(done.race.started_at).ok();
    race.insert("started".to_owned(), json!(started.map(|started| format!("{started:.6}"))));
    let attempts: Vec<_> = done.attempts.iter().map(table::object).collect();
    let timeline = timeline(Some(&race), &attempts);
    json!({
        "race_id": done.race.race_id,
        "race": race,
        "attempts": attempts,
        "timeline": timeline,
        "answer": done.answer,
    })
}

/// A name and its cells, one for each head.
type TextRow = (String, Vec<String>);

/// A line for each row below the heads. The first `left` columns are words, the others figures.
fn write_rows(
    heads: &[&str],
    left: usize,
    rows: &[TextRow],
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let cells = |(name, cells): &TextRow| {
        [name].into_iter().chain(cells).map(|cell| SheetCell::from(clean(cell))).collect::<Vec<_>>()
    };
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    Sheet { heads, names: left, rows: rows.iter().map(cells).collect() }.write(width, out)
}

/// What all attempts cost, and what of it was racing.
fn costs(all: &CostSum, racing: &CostSum) -> String {
    if all.min_usd().is_none() {
        return "cost: not known: no price in the configuration or the catalogue, and none from an upstream".to_owned();
    }
    let racing = if racing.is_empty() { "nothing".to_owned() } else { racing.to_string() };
    format!("cost: {all} in all; of it racing: {racing}")
}

/// Races that are over, and the answers of races that still run.
#[derive(Default)]
pub struct FinishedRaces {
    answers: BTreeMap<String, String>,
    pub done: Vec<FinishedRace>,
}

impl FinishedRaces {
    /// All rows of one race. None if the race's own row is not among them.
    pub fn take(&mut self, rows: &[Record]) -> Option<&FinishedRace> {
        let (mut of_race, mut attempts) = (None, Vec::new());
        for row in rows {
            match row {
                Record::Race(race) => of_race = Some((**race).clone()),
                Record::Attempt(attempt) => attempts.push((**attempt).clone()),
                Record::Run(_) | Record::Incident(_) => {}
            }
        }
        let race = of_race?;
        attempts.sort_by_key(|attempt| attempt.ordinal);
        let answer = self.answers.remove(&race.race_id).unwrap_or_default();
        self.done.push(FinishedRace { race, attempts, answer });
        self.done.last()
    }

    /// What that race was answered; it is not over yet.
    pub fn answered(&mut self, race_id: &str, answer: String) {
        self.answers.insert(race_id.to_owned(), answer);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod finished_tests {
    use super::*;
    use photofinish_facts::record::sample;

    #[test]
    fn a_race_is_done_with_its_attempts_in_order() {
        let mut rows = FinishedRaces::default();
        let (won, lost) = (Record::Attempt(Box::new(sample::won(1))), Record::Attempt(Box::new(sample::lost(1, 5))));
        rows.answered(&sample::race_id(1), "hello".to_owned());
        let done = rows.take(&[lost, won.clone(), Record::Race(Box::new(sample::race(1)))]).unwrap();
        assert_eq!(done.attempts.iter().map(|row| row.ordinal).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(done.answer, "hello");
        assert!(rows.take(&[won]).is_none() && rows.done.len() == 1);
    }
}
