//! The narrow tables `race_row` and `attempt_row`, which the views `race` and `attempt` show as they are documented: how each cell is
//! stored in them, and the numbers of names.
//!
//! Their keys are texts as in the views: SQLite searches a column that a view passes on as it is, and nothing that a view computes.
//! Not for the columns of the views: see `record::tables`.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use foldhash::quality::RandomState;
use rusqlite::Connection;

use crate::store::columns::{Spells, stored};
use photofinish_facts::bill::COST_STEPS;
use photofinish_facts::record::table::{CellValue, Column, Subset, Table};
use photofinish_facts::record::{AttemptRecord, RaceRecord};

/// How a narrow table stores a column that is not stored as it is.
#[derive(Clone, Copy)]
enum Form {
    /// The number of a name, or the text.
    Name,
    /// As a name; null where it is that of the other column, 0 for null.
    NameAs(&'static str),
    /// Its place in this list, from 1, or the text.
    Code(&'static [&'static str]),
    /// Null where it has this value, −1 for null.
    Unless(CellValue<'static>),
    /// Null where the other column has the same, −1 for null.
    As(&'static str),
    /// Null where it is a quarter of `input_bytes`.
    Quarter,
    /// 1/p where that is a whole number.
    Odds,
    /// The negative number of [`COST_STEPS`] where that is a whole one.
    Cost,
    /// As a cost; null where the other column has the same, −1 for null.
    CostAs(&'static str),
}

use CellValue::{Integer, Null, Real, Text};
use Form::{As, Code, Cost, CostAs, Name, NameAs, Odds, Quarter, Unless};

const RACE: &[(&str, Form)] = &[
    ("user", Name),
    ("api", Name),
    ("model", Name),
    ("stream", Unless(Integer(1))),
    ("policy", Code(&["adaptive", "race", "hedge", "fallback", "weighted"])),
    ("optimise", Code(&["auto", "ttft", "completion", "goodput"])),
    ("has_tools", Unless(Integer(0))),
    ("input_tokens_estimate", Quarter),
    ("outcome", Code(&["ok", "error", "client_gone", "rejected", "shutdown"])),
    ("http_status", Unless(Integer(200))),
    ("gateway_version", Name),
    ("plan", Name),
    ("why", Name),
    ("left_out", Name),
    ("source", Unless(Text("client"))),
    ("workload", Name),
    ("p_look", Odds),
    ("team", Name),
    ("caller_key", Name),
];

const ATTEMPT: &[(&str, Form)] = &[
    ("provider", Name),
    ("model_sent", Name),
    ("model_reported", NameAs("model_sent")),
    ("dialect", Code(&["openai", "responses", "anthropic", "gemini", "bedrock", "ollama"])),
    ("key_id", Name),
    ("start_reason", Code(&["first", "hedge", "fallback", "retry", "rescue"])),
    ("p_include", Unless(Real(1.0))),
    ("p_audit", Odds),
    ("audited", Unless(Integer(0))),
    ("http_version", Code(&["1.1", "2"])),
    ("first_event_us", As("first_byte_us")),
    ("first_kind", Code(&["text", "reasoning", "tool", "refusal", "audio", "image", "whole"])),
    ("first_answer_us", As("first_token_us")),
    ("ttft_obs_us", As("first_token_us")),
    ("ttft_event", Unless(Integer(1))),
    ("censor_cause", Code(&["lost", "client_gone", "timeout", "shutdown"])),
    (
        "outcome",
        Code(&[
            "won",
            "lost",
            "drained",
            "failed",
            "failed_mid",
            "empty",
            "refused",
            "timeout",
            "client_gone",
            "shutdown",
            "shed",
        ]),
    ),
    ("http_status", Unless(Integer(200))),
    ("failure", Name),
    ("failure_phase", Name),
    ("payload_events", Unless(Integer(0))),
    ("reasoning_events", Unless(Integer(0))),
    ("chars_total", Unless(Integer(0))),
    ("chars_first", Unless(Integer(0))),
    ("keepalives", Unless(Integer(0))),
    ("client_stalled", Unless(Integer(0))),
    ("tok_src", Code(&["usage", "partial", "none", "tokenizer", "chars", "events"])),
    ("finish_reason", Name),
    ("definition_version", Unless(Integer(1))),
    ("cost_usd_min", Cost),
    ("cost_usd_max", CostAs("cost_usd_min")),
    ("price_source", Name),
    ("service_tier", Name),
    ("plain", Unless(Integer(0))),
    ("calls", Name),
    ("structured", Name),
];

/// The cells of a table in its narrow form.
pub(super) struct Narrow {
    wide: &'static str,
    table: &'static str,
    columns: &'static [Column],
    insert: String,
    /// The columns that are stored in another form, by place, each with the place of the column from which its form is computed. They are
    /// converted from the last to the first: each needs only a column before it, which is not converted yet.
    forms: Vec<(usize, Form, usize)>,
}

/// That of `race`, and that of `attempt`.
static TABLES: LazyLock<[Narrow; 2]> = LazyLock::new(|| {
    [Narrow::new::<RaceRecord>("race_row", RACE), Narrow::new::<AttemptRecord>("attempt_row", ATTEMPT)]
});

/// None: the table has one form only.
pub(super) fn of(table: &str) -> Option<&'static Narrow> {
    TABLES.iter().find(|narrow| narrow.wide == table)
}

impl Narrow {
    fn new<T: Table>(table: &'static str, forms: &[(&str, Form)]) -> Narrow {
        let place = |name: &str| T::COLUMNS.iter().position(|column| column.name == name).unwrap_or_default();
        let form = |at: usize, name: &str| {
            let form = forms.iter().find(|(of, _)| *of == name)?.1;
            let other = match form {
                NameAs(other) | As(other) | CostAs(other) => other,
                Quarter => "input_bytes",
                Name | Code(_) | Unless(_) | Odds | Cost => name,
            };
            Some((at, form, place(other)))
        };
        let names: Vec<&str> = T::COLUMNS.iter().map(|column| stored(column.name)).collect();
        let (names, values) = (names.join(","), vec!["?"; T::COLUMNS.len()].join(","));
        Narrow {
            wide: T::NAME,
            table,
            columns: T::COLUMNS,
            insert: format!("INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING"),
            forms: T::COLUMNS.iter().enumerate().rev().filter_map(|(at, column)| form(at, column.name)).collect(),
        }
    }

    pub fn table(&self) -> &'static str {
        self.table
    }

    pub fn insert(&self) -> &str {
        &self.insert
    }

    /// Puts each cell into its narrow form.
    pub fn narrow(
        &self,
        connection: &Connection,
        names: &mut Names,
        cells: &mut [CellValue<'_>],
    ) -> rusqlite::Result<()> {
        let same = |cell, usual, null| {
            if cell == usual {
                Null
            } else if cell == Null {
                null
            } else {
                cell
            }
        };
        for &(at, form, other) in &self.forms {
            let (Some(cell), Some(other)) = (cells.get(at).copied(), cells.get(other).copied()) else { continue };
            let narrow = match (form, cell) {
                (Name, Text(name)) => names.number(connection, name)?,
                (NameAs(_), cell) => match same(cell, other, Integer(0)) {
                    Text(name) => names.number(connection, name)?,
                    cell => cell,
                },
                (Code(list), Text(name)) => {
                    list.iter().position(|code| *code == name).map_or(cell, |place| Integer(place as i64 + 1))
                }
                (Unless(usual), _) => {
                    same(cell, usual, if matches!(usual, Real(_)) { Real(-1.0) } else { Integer(-1) })
                }
                (As(_), _) => same(cell, other, if matches!(other, Real(_)) { Real(-1.0) } else { Integer(-1) }),
                (Quarter, Integer(_)) if matches!(other, Integer(bytes) if cell == Integer(bytes / 4)) => Null,
                (Odds, Real(share)) => Real(odds(share)),
                (Cost, Real(usd)) => Real(cost_steps(usd)),
                (CostAs(_), cell) => match same(cell, other, Real(-1.0)) {
                    Real(usd) => Real(cost_steps(usd)),
                    cell => cell,
                },
                _ => cell,
            };
            if let Some(place) = cells.get_mut(at) {
                *place = narrow;
            }
        }
        Ok(())
    }
}

/// How the cells of a column are encoded.
#[derive(Clone, Copy)]
enum Spelling {
    Name,
    Code(&'static [&'static str]),
    /// Null means this.
    Usual(CellValue<'static>),
    /// The same, and −1 for null.
    UsualOrNone(CellValue<'static>),
    /// −1 means null.
    OrNone,
    Odds,
    /// −1 means null.
    Cost,
}

/// Some columns of a narrow table for SQL that reads many rows, as they are stored. What the views compute in SQL would take as long as all
/// the rest: [`Speller`] does it.
#[derive(Default)]
pub(super) struct NumberedColumns {
    pub columns: String,
    spellings: Vec<Option<Spelling>>,
}

impl NumberedColumns {
    /// These columns too. The table has the name that it has in `select`.
    pub fn with<S: Subset>(mut self) -> NumberedColumns {
        let table = <S::Record as Table>::NAME;
        let Some(narrow) = of(table) else { return self };
        for name in S::NAMES {
            let (column, spelling) = narrow.numbered(name, table);
            let comma = if self.columns.is_empty() { "" } else { ", " };
            self.columns = self.columns + comma + &column;
            self.spellings.push(spelling);
        }
        self
    }
}

impl Narrow {
    fn numbered(&self, name: &str, table: &str) -> (String, Option<Spelling>) {
        let column = self.columns.iter().position(|column| column.name == name).unwrap_or_default();
        let is_nullable = self.columns.get(column).is_some_and(|column| column.nullable);
        let cell = format!("{table}.{}", stored(name));
        let Some((_, form, _)) = self.forms.iter().find(|(at, ..)| *at == column) else { return (cell, None) };
        let or = |other: &str| format!("coalesce({cell}, {table}.{other})");
        match form {
            Name => (cell, Some(Spelling::Name)),
            NameAs(other) => (or(other), Some(Spelling::Name)),
            Code(list) => (cell, Some(Spelling::Code(list))),
            As(other) => (or(other), Some(Spelling::OrNone)),
            Quarter => (or("input_bytes / 4"), None),
            Odds => (cell, Some(Spelling::Odds)),
            Cost => (cell, Some(Spelling::Cost)),
            CostAs(other) => (or(other), Some(Spelling::Cost)),
            Unless(usual) if is_nullable => (cell, Some(Spelling::UsualOrNone(*usual))),
            Unless(usual) => (cell, Some(Spelling::Usual(*usual))),
        }
    }
}

/// Decodes the cells of some columns.
pub(super) struct Speller<'n> {
    numbered: &'n NumberedColumns,
    names: &'n [Box<str>],
}

impl<'n> Speller<'n> {
    pub fn new(numbered: &'n NumberedColumns, names: &'n [Box<str>]) -> Speller<'n> {
        Speller { numbered, names }
    }
}

impl Spells for Speller<'_> {
    fn spell<'c>(&'c self, at: usize, cell: CellValue<'c>) -> CellValue<'c> {
        let Some(spelling) = self.numbered.spellings.get(at).copied().flatten() else { return cell };
        let place = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        match (spelling, cell) {
            (Spelling::Name, Integer(number)) => {
                self.names.get(place(number)).filter(|_| number > 0).map_or(Null, |name| Text(name))
            }
            (Spelling::Code(list), Integer(number)) => {
                list.get(place(number).wrapping_sub(1)).map_or(Null, |code| Text(code))
            }
            (Spelling::Usual(usual) | Spelling::UsualOrNone(usual), Null) => usual,
            (Spelling::UsualOrNone(_) | Spelling::OrNone | Spelling::Cost, Integer(-1) | Real(-1.0)) => Null,
            (Spelling::Odds, Real(odds)) if odds > 1.0 => Real(1.0 / odds),
            (Spelling::Cost, Real(steps)) if steps < -1.0 => Real(steps / -COST_STEPS),
            (_, cell) => cell,
        }
    }
}

/// The names of a file by their numbers; those without are empty.
pub(super) fn names(connection: &Connection) -> rusqlite::Result<Vec<Box<str>>> {
    let mut names: Vec<Box<str>> = Vec::new();
    let mut statement = connection.prepare_cached("SELECT id, text FROM name WHERE id BETWEEN 0 AND ?1")?;
    let mut rows = statement.query([NAMES_MAX as i64 * 2])?;
    while let Some(row) = rows.next()? {
        let id: usize = row.get(0)?;
        names.resize(names.len().max(id + 1), "".into());
        if let Some(place) = names.get_mut(id) {
            *place = row.get_ref(1)?.as_str()?.into();
        }
    }
    Ok(names)
}

/// 1/p if it is a small whole number from which p comes out exactly: it takes two bytes at most, and p eight. Else p.
fn odds(share: f64) -> f64 {
    let odds = (1.0 / share).round();
    if odds > 1.0 && odds <= f64::from(i16::MAX) && (1.0 / odds).to_bits() == share.to_bits() { odds } else { share }
}

/// The cost in steps if it comes out of them exactly: it takes three or four bytes, and dollars eight. Negative, so that it is no cost in dollars.
fn cost_steps(usd: f64) -> f64 {
    let steps = (usd * COST_STEPS).round();
    if steps > 1.0 && (steps / COST_STEPS).to_bits() == usd.to_bits() { -steps } else { usd }
}

/// Most names of a file. Further ones are stored in their rows.
const NAMES_MAX: usize = 20_000;

/// Texts that were seen once and are remembered. Clients choose the names of models, and a plan may have times in it: what comes once
/// gets no number.
const ONCE_MAX: usize = 4_096;

/// The numbers of names that a connection knows.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, i64, RandomState>,
    /// Hashes.
    once: HashSet<u64>,
    hasher: RandomState,
    is_loaded: bool,
}

impl Names {
    /// The number of a name, or the text itself where it has none.
    fn number<'t>(&mut self, connection: &Connection, text: &'t str) -> rusqlite::Result<CellValue<'t>> {
        if !self.is_loaded {
            self.load(connection)?;
        }
        if let Some(number) = self.numbers.get(text) {
            return Ok(Integer(*number));
        }
        if self.numbers.len() >= NAMES_MAX {
            return Ok(Text(text));
        }
        if self.once.len() >= ONCE_MAX {
            self.once.clear();
        }
        if self.once.insert(self.hasher.hash_one(text)) {
            return Ok(Text(text));
        }
        connection.prepare_cached("INSERT INTO name (text) VALUES (?1) ON CONFLICT DO NOTHING")?.execute([text])?;
        let mut id = connection.prepare_cached("SELECT id FROM name WHERE text = ?1")?;
        let number = id.query_row([text], |row| row.get(0))?;
        self.numbers.insert(text.into(), number);
        Ok(Integer(number))
    }

    /// Forgets the numbers of a transaction that was rolled back.
    pub fn forget(&mut self) {
        (self.is_loaded, self.numbers) = Default::default();
    }

    fn load(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached("SELECT text, id FROM name")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.numbers.insert(row.get_ref(0)?.as_str()?.into(), row.get(1)?);
        }
        self.is_loaded = true;
        Ok(())
    }
}
