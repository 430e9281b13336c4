//! Whose rows a question means, and the conditions for them.
//!
//! The index `race_apart` has the races of probes and benchmarks only. A condition must name both of its terms to be
//! served by it.

use crate::history::RaceSource;

/// Whose rows. Roll-ups have those of clients only, so the others are read as rows, as far back as these are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceFilter {
    #[default]
    Client,
    Probe,
    Bench,
    All,
}

impl SourceFilter {
    /// In the order of their declaration.
    pub const ALL: [SourceFilter; 4] =
        [SourceFilter::Client, SourceFilter::Probe, SourceFilter::Bench, SourceFilter::All];

    /// The name in options and parameters.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceFilter::Client => "client",
            SourceFilter::Probe => "probe",
            SourceFilter::Bench => "bench",
            SourceFilter::All => "all",
        }
    }

    pub fn from_name(name: &str) -> Option<SourceFilter> {
        SourceFilter::ALL.into_iter().find(|filter| filter.as_str() == name)
    }

    /// Whether rows of this source are meant. None: the row of the race is missing; then it counts as a client's.
    pub(super) fn wants(self, source: Option<RaceSource>) -> bool {
        match (self, source.unwrap_or_default()) {
            (SourceFilter::All, _)
            | (SourceFilter::Client, RaceSource::Client)
            | (SourceFilter::Probe, RaceSource::Probe)
            | (SourceFilter::Bench, RaceSource::Bench) => true,
            (SourceFilter::Client | SourceFilter::Probe | SourceFilter::Bench, _) => false,
        }
    }

    /// Whether the index finds its rows: they are few among those of clients.
    pub(super) fn is_apart(self) -> bool {
        matches!(self, SourceFilter::Probe | SourceFilter::Bench)
    }

    /// The condition for a row of `race`.
    pub(super) fn condition(self) -> &'static str {
        match self {
            SourceFilter::Client => "race.source = 'client'",
            SourceFilter::Probe => "race.source <> 'client' AND race.source = 'probe'",
            SourceFilter::Bench => "race.source <> 'client' AND race.source = 'bench'",
            SourceFilter::All => "true",
        }
    }

    /// Attempts with their races, and the condition for them. Only those of clients may lack their race.
    pub(super) fn attempts(self) -> (&'static str, &'static str) {
        match self {
            SourceFilter::Client | SourceFilter::All => {
                let condition =
                    if self == SourceFilter::All { "true" } else { "coalesce(race.source, 'client') = 'client'" };
                ("attempt LEFT JOIN race ON race.race_id = attempt.race_id", condition)
            }
            SourceFilter::Probe | SourceFilter::Bench => {
                ("race CROSS JOIN attempt ON attempt.race_id = race.race_id", self.condition())
            }
        }
    }
}

impl From<RaceSource> for SourceFilter {
    fn from(source: RaceSource) -> SourceFilter {
        match source {
            RaceSource::Client => SourceFilter::Client,
            RaceSource::Probe => SourceFilter::Probe,
            RaceSource::Bench => SourceFilter::Bench,
        }
    }
}
