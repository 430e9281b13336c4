//! Figures from the rows of a time span: attempts, cost, the first upstream of each race, and the reason.

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

/// The price of every upstream, USD per million tokens. With equal prices, the extra cost shows the extra attempts and
/// not the choice of upstreams.
pub const INPUT_PRICE: f64 = 0.6;
pub const OUTPUT_PRICE: f64 = 2.4;

/// One row for each race. The winner's count of the prompt is used for all attempts: a loser is cut before it reports a
/// count, and its prompt is billed in full.
const ASK: &str = "SELECT race.started_at, race.attempts, coalesce(race.why, '') AS why, \
     coalesce(won.input_tokens, race.input_tokens_estimate) AS prompt, coalesce(won.output_tokens, 0) AS answer, \
     coalesce(opened.provider, '') AS opened \
     FROM race \
     LEFT JOIN attempt won ON won.race_id = race.race_id AND won.ordinal = race.winner \
     LEFT JOIN attempt opened ON opened.race_id = race.race_id AND opened.ordinal = 0 \
     WHERE race.started_at >= ? AND race.started_at < ? ORDER BY race.started_at";

/// A span of wall-clock time, microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_us: i64,
    pub until_us: i64,
}

/// The totals over the races of a span.
#[derive(Default)]
pub struct Ledger {
    pub races: i64,
    pub attempts: i64,
    /// The cost of one attempt per race: its prompt and its answer.
    single: f64,
    /// The prompts of all attempts except the one that served. A loser is cut at the latest at the winner's first
    /// token, before its own: it has generated nothing.
    extra: f64,
    /// When each race began and its first upstream, in order.
    pub opened: Vec<(i64, String)>,
    /// Number of races for each list of reasons.
    pub why: BTreeMap<String, u64>,
}

/// The columns of [`ASK`]: start, attempts, why, prompt tokens, answer tokens, first upstream.
type Row = (i64, i64, String, i64, i64, String);

impl Ledger {
    /// Adds the races of this span.
    pub async fn read(&mut self, database: &Path, span: Span) -> anyhow::Result<()> {
        let mut connection = SqliteConnectOptions::new().filename(database).read_only(true).connect().await?;
        let rows: Vec<Row> =
            sqlx::query_as(ASK).bind(span.from_us).bind(span.until_us).fetch_all(&mut connection).await?;
        connection.close().await?;
        for (began_us, attempts, why, prompt, answer, opened) in rows {
            let prompt = prompt as f64 * INPUT_PRICE;
            self.races += 1;
            self.attempts += attempts;
            self.single += prompt + answer as f64 * OUTPUT_PRICE;
            self.extra += prompt * (attempts - 1).max(0) as f64;
            self.opened.push((began_us, opened));
            *self.why.entry(why).or_default() += 1;
        }
        Ok(())
    }

    pub fn attempts_per_race(&self) -> f64 {
        self.attempts as f64 / self.races as f64
    }

    /// In % of the cost of single attempts.
    pub fn extra_percent(&self) -> f64 {
        self.extra / self.single * 100.0
    }
}
