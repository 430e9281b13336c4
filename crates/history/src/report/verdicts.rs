//! What `photofinish verify` found, for the pages that show it. Not for how it is found: see `photofinish_lab::verify`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::members::members;
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

members! {
    /// A fact in which a host differs from the reference.
    pub VERDICT: verdict(row: &VerdictRow) {
        fact: Text = row.fact;
        /// `no` or `differs`
        answer: Text = row.answer;
        /// what the reference says
        reference: Text = row.reference;
        /// figures
        detail: Text = row.detail;
        /// it differs from the reference
        wrong: Boolean = row.wrong;
    }
}

members! {
    /// One host of a model.
    pub HOST_VERDICTS: host_verdicts(of: &HostVerdicts, now_us: i64) {
        model: Text = of.model;
        /// `PROVIDER/MODEL`
        upstream: Text = of.host;
        /// the newest verdict, since 1970, UTC
        at_ms: Integer ["ms"] = of.at / 1_000;
        /// the same in words
        age: Text = age(of.at, now_us);
        /// facts about which something could be said
        said: Integer = of.said;
        /// facts that differ from the reference
        wrong: List("Verdict", usize::MAX) = of.wrong.iter().map(verdict).collect::<Vec<_>>();
    }
}

members! {
    /// Hosts that were verified, by model.
    pub VERDICTS: verdicts(hosts: &[HostVerdicts], now_us: i64) {
        verdicts: List("HostVerdicts", usize::MAX) =
            hosts.iter().map(|host| host_verdicts(host, now_us)).collect::<Vec<Map<String, Value>>>();
    }
}

/// For `/api` and the dashboard.
pub fn json(hosts: &[HostVerdicts], now_us: i64) -> Value {
    verdicts(hosts, now_us).into()
}
