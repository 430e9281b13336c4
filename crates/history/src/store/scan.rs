//! Scans a period: passes the facts of each attempt to a `Gather`, race by race.
//!
//! It joins two scans in the order of the primary keys. A join in SQL would look up the race for each attempt. TPOT is
//! computed in Rust, by the definition of the view `attempt_speed`.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::store::columns::{RowReader, Spells, began_at, first_race_id, select};
use crate::store::database::{AnswerRows, Connection, Id, Result, params};
use crate::store::narrow::{self, NumberedColumns, Speller};
use crate::store::selection::{AttemptFilter, Gather, SourceFilter};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::facts::{self, AttemptRow, MeasuredAttempt, RequestRow};
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::AttemptOutcome;

/// By `race_id`: searches the primary key, so it reads nothing before or after the period. Of every source: a join would
/// look up the race for each attempt.
pub(super) static ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM attempt WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id", attempt_columns())
});

pub(super) static RACES: LazyLock<String> = LazyLock::new(|| {
    let columns = select::<RequestRow>();
    format!("SELECT {columns} FROM race WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id")
});

fn attempt_columns() -> String {
    [select::<AttemptRow>(), select::<Cost>(), select::<Decoding>()].join(", ")
}

/// The same of narrow tables, and their columns.
static NARROW: LazyLock<[(String, NumberedColumns); 2]> = LazyLock::new(|| {
    let of = |name: &str, columns: NumberedColumns| {
        let from = format!("FROM {name}_row AS {name} WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id");
        (format!("SELECT {} {from}", columns.columns), columns)
    };
    let attempt = NumberedColumns::default().with::<AttemptRow>().with::<Cost>();
    [of("race", NumberedColumns::default().with::<RequestRow>()), of("attempt", attempt.with::<Decoding>())]
});

pub(super) fn narrow_statements() -> [&'static str; 2] {
    NARROW.each_ref().map(|(sql, _)| sql.as_str())
}

/// The statements for the races and the attempts of this source.
pub(super) fn statements(source: SourceFilter) -> [Cow<'static, str>; 2] {
    if !source.is_apart() {
        return [RACES.as_str().into(), ATTEMPTS.as_str().into()];
    }
    let (attempts, condition) = source.attempts();
    let of = |columns: &str, from: &str| {
        format!(
            "SELECT {columns} FROM {from} WHERE {condition} AND race.race_id >= ?1 AND race.race_id < ?2 \
             ORDER BY race.race_id"
        )
    };
    [of(&select::<RequestRow>(), "race").into(), of(&attempt_columns(), attempts).into()]
}

/// Passes to `gather` every attempt that the filter wants, of races that began from `from_us` on and before `until_us`, and every request
/// without an attempt. `first_race`: the number of the first race.
pub(super) fn scan(
    connection: &Connection<'_>,
    (from_us, until_us): (i64, i64),
    filter: &AttemptFilter,
    first_race: u64,
    gather: &mut impl Gather,
) -> Result<()> {
    let (from, until) = (first_race_id(from_us), first_race_id(until_us));
    let range = params![Id(&from), Id(&until)];
    let file = match connection {
        Connection::Sqlite(file) if !filter.source.is_apart() => Some(file),
        _ => None,
    };
    let is_narrow = file.is_some();
    let names = file.map_or(Ok(Vec::new()), |file| narrow::names(file))?;
    let spellers = NARROW.each_ref().map(|(_, columns)| Speller::new(columns, &names));
    let [of_race, of_attempt] = spellers.each_ref().map(|speller| is_narrow.then_some(speller as &dyn Spells));
    let [races, attempts] = if is_narrow { narrow_statements().map(Cow::Borrowed) } else { statements(filter.source) };
    let (mut races, mut attempts) = (connection.prepare(&races)?, connection.prepare(&attempts)?);
    let mut races = races.query(range)?;
    let mut attempts = Attempts::new(attempts.query(range)?, of_attempt)?;
    let mut race = RequestRow::default();
    let mut is_race = next_race(&mut races, of_race, &mut race)?;
    let mut id = String::new();
    for number in first_race + 1.. {
        // Both lists are in the order of the ids; the smaller id is next.
        let coming = attempts.coming.as_ref().map(|coming| coming.row.race_id.as_str());
        let has_row = is_race && coming.is_none_or(|coming| race.race_id.as_str() <= coming);
        let Some(smallest) = (if has_row { Some(race.race_id.as_str()) } else { coming }) else { break };
        id.clear();
        id.push_str(smallest);
        attempts.take(&id)?;
        hand_over((number, began_at(&id)), has_row.then_some(&race), &attempts.of_race, filter, gather);
        if has_row {
            is_race = next_race(&mut races, of_race, &mut race)?;
        }
    }
    Ok(())
}

/// False after the last race.
fn next_race(rows: &mut AnswerRows<'_>, speller: Option<&dyn Spells>, race: &mut RequestRow) -> Result<bool> {
    let Some(row) = rows.next()? else { return Ok(false) };
    RowReader::spelled(row, speller).fill(race)?;
    Ok(true)
}

fn hand_over(
    (number, started_at): (u64, i64),
    race: Option<&RequestRow>,
    attempts: &[MeasuredAttempt],
    filter: &AttemptFilter,
    gather: &mut impl Gather,
) {
    if !filter.source.wants(race.map(|race| race.source)) {
        return;
    }
    let (user, team) = (race.and_then(|race| race.user.as_deref()), race.and_then(|race| race.team.as_deref()));
    if !filter.wants_request(race.map(|race| race.model.as_str()), user, team) {
        return;
    }
    if let Some(race) = race.filter(|race| race.attempts == 0 && filter.provider.is_none()) {
        gather.without_attempts(started_at, &race.facts(None));
    }
    facts::of_race((number, started_at), race, attempts, |facts| {
        if filter.wants_provider(facts.provider) {
            gather.attempt(facts);
        }
    });
}

/// The attempts of one race, and the first attempt of the next race.
struct Attempts<'r> {
    rows: AnswerRows<'r>,
    speller: Option<&'r dyn Spells>,
    coming: Option<MeasuredAttempt>,
    of_race: Vec<MeasuredAttempt>,
    /// Used entries: their strings keep their memory for reuse.
    spare: Vec<MeasuredAttempt>,
}

impl<'r> Attempts<'r> {
    fn new(rows: AnswerRows<'r>, speller: Option<&'r dyn Spells>) -> Result<Attempts<'r>> {
        let mut attempts = Attempts { rows, speller, coming: None, of_race: Vec::new(), spare: Vec::new() };
        attempts.read_next()?;
        Ok(attempts)
    }

    /// Moves the attempts of this race to `of_race`.
    fn take(&mut self, race_id: &str) -> Result<()> {
        self.spare.append(&mut self.of_race);
        while let Some(attempt) = self.coming.take_if(|coming| coming.row.race_id == race_id) {
            self.of_race.push(attempt);
            self.read_next()?;
        }
        Ok(())
    }

    fn read_next(&mut self) -> Result<()> {
        let Some(row) = self.rows.next()? else { return Ok(()) };
        let mut attempt = self.spare.pop().unwrap_or_default();
        let mut cells = RowReader::spelled(row, self.speller);
        cells.fill(&mut attempt.row)?;
        cells.fill(&mut attempt.cost)?;
        fill_decoding(&mut attempt, &mut cells)?;
        self.coming = Some(attempt);
        Ok(())
    }
}

/// Most attempts lose before their first token: the columns that are null in that case are not read.
pub(super) fn fill_decoding(attempt: &mut MeasuredAttempt, cells: &mut RowReader<'_>) -> Result<()> {
    if attempt.row.outcome == AttemptOutcome::Lost && attempt.row.ttft_event != Some(1) {
        attempt.decoding = Decoding::default();
        return Ok(());
    }
    cells.fill(&mut attempt.decoding)
}
