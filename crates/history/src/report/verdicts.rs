//! What `photofinish verify` found, for the pages that show it. Not for how it is found: see `photofinish_lab::verify`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::store::{ReadError, StoreReader, VerdictRow};

const MINUTE_US: i64 = 60_000_000;

/// How long ago, in words.
pub fn age(at_us: i64, now_us: i64) -> String {
    let minutes = (now_us - at_us).max(0) / MINUTE_US;
    match minutes {
        0..120 => format!("{minutes} min ago"),
        120..2_880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1_440),
    }
}

/// The differences of one host of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct HostVerdicts {
    pub model: String,
    pub host: String,
    /// The newest; microseconds since 1970, UTC.
    pub at: i64,
    /// Facts about which something could be said.
    pub said: usize,
    pub wrong: Vec<VerdictRow>,
}

/// All hosts that were verified, by model; for each the newest verdict of each fact.
///
/// # Errors
/// The file cannot be read.
pub fn ask(reader: &StoreReader) -> Result<Vec<HostVerdicts>, ReadError> {
    let mut hosts: BTreeMap<(String, String), HostVerdicts> = BTreeMap::new();
    for row in reader.verdicts(None)? {
        let (model, host) = (row.model.clone(), row.host.clone());
        let fresh = HostVerdicts { model: model.clone(), host: host.clone(), at: row.at, said: 0, wrong: Vec::new() };
        let of = hosts.entry((model, host)).or_insert(fresh);
        of.at = of.at.max(row.at);
        of.said += usize::from(row.answer != "not said");
        if row.wrong {
            of.wrong.push(row);
        }
    }
    Ok(hosts.into_values().collect())
}

/// The members of one verdict.
pub fn members(row: &VerdictRow) -> Value {
    json!({ "fact": row.fact, "answer": row.answer, "reference": row.reference, "detail": row.detail, "wrong": row.wrong })
}

/// For `/api` and the dashboard.
pub fn json(hosts: &[HostVerdicts], now_us: i64) -> Value {
    let host = |host: &HostVerdicts| {
        json!({
            "model": host.model, "upstream": host.host, "at_ms": host.at / 1_000, "age": age(host.at, now_us), "said": host.said,
            "wrong": host.wrong.iter().map(members).collect::<Vec<_>>(),
        })
    };
    json!({ "verdicts": hosts.iter().map(host).collect::<Vec<_>>() })
}
