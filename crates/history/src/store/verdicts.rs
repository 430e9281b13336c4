//! What `photofinish verify` found: writes and reads verdicts, and the answers of a sample until its second session. Not for what
//! they mean: see `photofinish_lab::verify`.

use crate::store::Store;
use crate::store::columns::DAY_US;
use crate::store::database::{AnswerRow, params};
use crate::store::reader::{ReadError, StoreReader};
use crate::store::write::WriteError;
use photofinish_facts::record::recorded::{QualityHistory, Recorded};

/// Days that verdicts of `verify` are kept.
const VERDICT_DAYS_MAX: i64 = 400;
/// Verdicts in one answer.
const VERDICTS_MAX: usize = 20_000;

/// The fact of a host that says how it begins its answers: hashes and shares in `detail`, the key of the hashes in `reference`.
pub const FIRST_TOKENS: &str = "first_tokens";

/// One fact of one host. Columns: `migrations/0001_initial.sql`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictRow {
    /// Microseconds since 1970, UTC.
    pub at: i64,
    pub model: String,
    pub host: String,
    pub fact: String,
    pub answer: String,
    pub reference: String,
    pub detail: String,
    pub wrong: bool,
}

/// One sampled answer, each letter as a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    pub at: i64,
    pub host: String,
    pub prompt: usize,
    pub number: usize,
    pub letters: Vec<u16>,
}

const SAVE: &str = "\
    INSERT INTO verdict (at, model, host, fact, answer, reference, detail, wrong) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
    ON CONFLICT (model, host, fact, at) DO UPDATE SET answer = excluded.answer, reference = excluded.reference, \
        detail = excluded.detail, wrong = excluded.wrong";

const SAVE_SAMPLE: &str =
    "INSERT INTO sample (at, model, host, prompt, number, letters) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

impl Store {
    /// Keeps these verdicts, and removes old ones.
    ///
    /// # Errors
    /// The database cannot be written now; then nothing is kept.
    pub fn save_verdicts(&self, rows: &[VerdictRow]) -> Result<(), WriteError> {
        let saved = self.change_all(|transaction| {
            let newest = rows.iter().map(|row| row.at).max().unwrap_or(0);
            transaction.execute("DELETE FROM verdict WHERE at < ?1", params![newest - VERDICT_DAYS_MAX * DAY_US])?;
            let mut insert = transaction.prepare(SAVE)?;
            for row in rows {
                let VerdictRow { at, model, host, fact, answer, reference, detail, wrong } = row;
                insert.execute(params![*at, model, host, fact, answer, reference, detail, *wrong])?;
            }
            Ok(None)
        });
        saved.map(drop)
    }

    /// Replaces the sampled answers of a model; none removes them.
    ///
    /// # Errors
    /// The database cannot be written now; then nothing is changed.
    pub fn save_sample(&self, model: &str, rows: &[SampleRow]) -> Result<(), WriteError> {
        let saved = self.change_all(|transaction| {
            transaction.execute("DELETE FROM sample WHERE model = ?1", params![model])?;
            let mut insert = transaction.prepare(SAVE_SAMPLE)?;
            for row in rows {
                let letters: Vec<u8> = row.letters.iter().flat_map(|letter| letter.to_le_bytes()).collect();
                insert.execute(params![row.at, model, &row.host, row.prompt, row.number, &letters])?;
            }
            Ok(None)
        });
        saved.map(drop)
    }
}

impl StoreReader {
    /// The newest verdict about each fact of each host; of one model, or of all.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn verdicts(&self, model: Option<&str>) -> Result<Vec<VerdictRow>, ReadError> {
        let sql = "SELECT at, model, host, fact, answer, reference, detail, wrong FROM verdict AS one \
                   WHERE (CAST(?1 AS TEXT) IS NULL OR model = ?1) AND fact <> 'first_tokens' AND at = (SELECT max(at) FROM verdict AS other \
                     WHERE other.model = one.model AND other.host = one.host AND other.fact = one.fact) \
                   ORDER BY model, host, fact LIMIT ?2";
        self.ask(|connection| {
            let read = |row: AnswerRow<'_>| {
                Ok(VerdictRow {
                    at: row.get(0)?,
                    model: row.get(1)?,
                    host: row.get(2)?,
                    fact: row.get(3)?,
                    answer: row.get(4)?,
                    reference: row.get(5)?,
                    detail: row.get(6)?,
                    wrong: row.get(7)?,
                })
            };
            connection.all(sql, params![model, VERDICTS_MAX], read)
        })
    }

    /// What this host said first, day by day, oldest first: verdicts about the fact [`FIRST_TOKENS`], which no page shows.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn first_tokens(&self, host: &str) -> Result<Vec<(i64, String, String)>, ReadError> {
        let sql = "SELECT at, reference, detail FROM verdict WHERE host = ?1 AND fact = ?2 ORDER BY at LIMIT ?3";
        self.ask(|connection| {
            let read = |row: AnswerRow<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            connection.all(sql, params![host, FIRST_TOKENS, VERDICTS_MAX], read)
        })
    }

    /// The sampled answers of a model that wait for a second session.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn sample(&self, model: &str) -> Result<Vec<SampleRow>, ReadError> {
        self.ask(|connection| {
            let sql = "SELECT at, host, prompt, number, letters FROM sample WHERE model = ?1";
            let read = |row: AnswerRow<'_>| {
                let bytes: &[u8] = row.get(4)?;
                Ok(SampleRow {
                    at: row.get(0)?,
                    host: row.get(1)?,
                    prompt: row.get(2)?,
                    number: row.get(3)?,
                    letters: bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect(),
                })
            };
            connection.all(sql, params![model], read)
        })
    }
}

impl QualityHistory for StoreReader {
    type Error = ReadError;

    fn requests_of(
        &self,
        upstreams: &[String],
        newest: usize,
        each: &mut dyn FnMut(Recorded),
    ) -> Result<(), ReadError> {
        self.recorded_of(upstreams, newest, each)
    }

    fn wrong_facts(&self, since_us: i64) -> Result<Vec<(String, String)>, ReadError> {
        let mut verdicts = self.verdicts(None)?;
        verdicts.retain(|verdict| verdict.wrong && verdict.answer == "no" && verdict.at >= since_us);
        Ok(verdicts.into_iter().map(|verdict| (verdict.host, verdict.fact)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_verdict_of_each_fact_is_read_and_a_sample_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let store = Store::open(&path).unwrap();
        let row = |at, fact: &str, wrong| VerdictRow {
            at,
            model: "m".into(),
            host: "a/m".into(),
            fact: fact.into(),
            answer: "no".into(),
            reference: "yes".into(),
            detail: String::new(),
            wrong,
        };
        store.save_verdicts(&[row(1, "stop", true), row(1, "seed", true)]).unwrap();
        store.save_verdicts(&[row(2, "stop", false)]).unwrap();
        let reader = StoreReader::open(&path).unwrap();
        assert_eq!(reader.verdicts(Some("m")).unwrap(), [row(1, "seed", true), row(2, "stop", false)]);
        assert_eq!(reader.verdicts(Some("other")).unwrap(), []);
        store.save_verdicts(&[row(VERDICT_DAYS_MAX * DAY_US + 2, "n", false)]).unwrap();
        assert_eq!(reader.verdicts(None).unwrap().len(), 2, "the oldest are gone");

        let sampled = SampleRow { at: 5, host: "a/m".into(), prompt: 3, number: 1, letters: vec![7, 65_535] };
        store.save_sample("m", std::slice::from_ref(&sampled)).unwrap();
        store.save_sample("m", std::slice::from_ref(&sampled)).unwrap();
        assert_eq!(reader.sample("m").unwrap(), [sampled]);
        store.save_sample("m", &[]).unwrap();
        assert_eq!(reader.sample("m").unwrap(), []);
    }
}
