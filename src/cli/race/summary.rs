//! The race of the command once it is over, and reports on it: with its attempts, or for programs.
//!
//! The definitions are those of `stats`; the figures are made of the rows as they were recorded.

use std::io;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::board::{DrawnState, how, upstream_of};
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{clean, millis, or_dash, write_paragraph};
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::facts;
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::table::{self, Subset as _};
use photofinish_facts::record::{AttemptRecord, RaceOutcome, RaceRecord, Record};
use photofinish_history::report::races::timeline;

/// A race that is over, with all its attempts in the order of their starts.
pub struct FinishedRace {
    pub race: RaceRecord,
    pub attempts: Vec<AttemptRecord>,
    /// What was answered; kept for programs only.
    pub answer: String,
}

const OF_ONE: [&str; 8] = ["attempt", "outcome", "started", "TTFT", "tok/s", "in", "out", "cost"];

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

/// The race once it is over, and its answer while it still runs.
#[derive(Default)]
pub struct RowsOfRace {
    answer: Option<(String, String)>,
    pub done: Option<FinishedRace>,
}

impl RowsOfRace {
    /// All rows of the race, if its own is among them.
    pub fn take(&mut self, rows: &[Record]) {
        let (mut of_race, mut attempts) = (None, Vec::new());
        for row in rows {
            match row {
                Record::Race(race) => of_race = Some((**race).clone()),
                Record::Attempt(attempt) => attempts.push((**attempt).clone()),
                Record::Run(_) | Record::Incident(_) => {}
            }
        }
        let Some(race) = of_race else { return };
        attempts.sort_by_key(|attempt| attempt.ordinal);
        let of_it = |(race_id, answer): (String, String)| (race_id == race.race_id).then_some(answer);
        let answer = self.answer.take().and_then(of_it).unwrap_or_default();
        self.done = Some(FinishedRace { race, attempts, answer });
    }

    /// What it was answered; its rows are not written yet.
    pub fn answered(&mut self, race_id: &str, answer: String) {
        self.answer = Some((race_id.to_owned(), answer));
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
        let mut rows = RowsOfRace::default();
        let (won, lost) = (Record::Attempt(Box::new(sample::won(1))), Record::Attempt(Box::new(sample::lost(1, 5))));
        rows.answered(&sample::race_id(1), "hello".to_owned());
        rows.take(std::slice::from_ref(&won));
        assert!(rows.done.is_none(), "its own row is not there yet");
        rows.take(&[lost, won, Record::Race(Box::new(sample::race(1)))]);
        let done = rows.done.unwrap();
        assert_eq!(done.attempts.iter().map(|row| row.ordinal).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(done.answer, "hello");
    }
}
