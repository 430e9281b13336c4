//! The gateways of a database, for `photofinish replicas` and `/api/replicas`. Not for how they are numbered: see `store::replicas`.

use serde_json::{Map, Value};

use super::members::members;
use crate::store::{MISSED_AFTER_US, ReadError, ReplicaRow, StoreReader};

/// Those that reported within a day, newest first.
#[derive(Debug)]
pub struct ReplicaList {
    replicas: Vec<ReplicaRow>,
    /// By the clock of the database, microseconds since 1970.
    now_us: i64,
    /// The configuration of the newest that lives.
    configuration: Option<String>,
}

/// # Errors
/// The database cannot be read.
pub fn ask(reader: &StoreReader) -> Result<ReplicaList, ReadError> {
    let (replicas, now_us) = reader.replicas()?;
    let lives = |of: &&ReplicaRow| now_us - of.beat_at < MISSED_AFTER_US;
    let configuration = replicas.iter().find(lives).map(|newest| newest.report.configuration.clone());
    Ok(ReplicaList { replicas, now_us, configuration })
}

impl ReplicaList {
    fn state(&self, of: &ReplicaRow) -> &'static str {
        match self.now_us - of.beat_at < MISSED_AFTER_US {
            true if of.report.draining => "draining",
            true => "alive",
            false => "gone",
        }
    }

    fn differs(&self, of: &ReplicaRow) -> bool {
        self.configuration.as_ref().is_some_and(|newest| *newest != of.report.configuration)
    }

    /// Lines of a table, its head first.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let head =
            ["name", "number", "state", "version", "up since", "last heard", "running", "clock", "configuration"];
        let row = |of: &ReplicaRow| {
            let report = &of.report;
            let same = if self.differs(of) { " (differs)" } else { "" };
            vec![
                report.name.clone(),
                of.number.to_string(),
                self.state(of).to_owned(),
                report.version.clone(),
                super::verdicts::age(of.started_at, self.now_us),
                format!("{:.1} s ago", (self.now_us - of.beat_at).max(0) as f64 / 1e6),
                report.running.to_string(),
                format!("{:+.1} s", report.clock_us as f64 / 1e6),
                format!("{}{same}", report.configuration),
            ]
        };
        std::iter::once(head.map(str::to_owned).to_vec()).chain(self.replicas.iter().map(row)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.replicas.is_empty()
    }

    /// For `/api` and programs.
    pub fn json(&self) -> Value {
        replicas(self).into()
    }
}

members! {
    /// Gateways, newest first.
    pub REPLICAS: replicas(of: &ReplicaList) {
        replicas: List("Replica", usize::MAX) =
            of.replicas.iter().map(|one| replica(of, one)).collect::<Vec<Map<String, Value>>>();
    }
}

members! {
    /// One gateway, from its start on.
    pub REPLICA: replica(list: &ReplicaList, of: &ReplicaRow) {
        /// of its machine or container
        name: Text = of.report.name;
        /// another one after each start
        number: Integer = of.number;
        /// `alive`, `draining` or `gone`
        state: Text = list.state(of);
        version: Text = of.report.version;
        /// since 1970, UTC, by the clock of the database
        started_at_ms: Integer ["ms"] = of.started_at / 1_000;
        /// since its last report
        heard_ms_ago: Integer ["ms"] = (list.now_us - of.beat_at).max(0) / 1_000;
        /// requests
        running: Integer = of.report.running;
        /// how far its clock is ahead of the database's
        clock_ms: Integer ["ms"] = of.report.clock_us / 1_000;
        /// a digest of its providers, models and users
        configuration: Text = of.report.configuration;
        /// from that of the newest that lives
        configuration_differs: Boolean = list.differs(of);
    }
}
