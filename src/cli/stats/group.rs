//! What attempts are grouped by: the dimensions of `--by`, and what an attempt is under each of them.

use serde_json::{Value, json};

use crate::history::goodput;
use crate::store::AttemptSample;

/// One of the names that `--by` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dimension {
    /// Provider and its name for the model.
    Upstream,
    /// The model that the app asked for.
    Model,
    /// Hour of the day at which the race began, UTC.
    Hour,
    /// Day of the week, UTC.
    Weekday,
    /// Size of the request, in tokens estimated by its bytes.
    Input,
    /// Attempts running at the upstream when this one was started, itself included.
    Concurrency,
    /// The caller.
    User,
}

/// What an attempt is under one dimension. Sorts by number or by name; what is not known comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The race's own row is not written yet, or there are no users.
    Unknown,
    Name(String),
    Hour(i64),
    Weekday(i64),
    /// Place in [`INPUTS`].
    Input(usize),
    /// Place in [`CONCURRENCIES`].
    Concurrency(usize),
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Estimated tokens below which a request falls into the class, and its name.
const INPUTS: [(i64, &str); 5] =
    [(500, "0-500"), (2_000, "500-2k"), (8_000, "2k-8k"), (32_000, "8k-32k"), (i64::MAX, "32k+")];

/// The most attempts of the class, and its name.
const CONCURRENCIES: [(i64, &str); 8] =
    [(1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (i64::MAX, "65+")];

impl Dimension {
    /// As on the command line, in the table's head and in `--json`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Dimension::Upstream => "upstream",
            Dimension::Model => "model",
            Dimension::Hour => "hour",
            Dimension::Weekday => "weekday",
            Dimension::Input => "input",
            Dimension::Concurrency => "concurrency",
            Dimension::User => "user",
        }
    }

    pub(super) fn of(self, sample: &AttemptSample) -> Part {
        let request = sample.request.as_ref();
        let name = |name: Option<&String>| name.map_or(Part::Unknown, |name| Part::Name(name.clone()));
        match self {
            Dimension::Upstream => Part::Name(sample.upstream.clone()),
            Dimension::Model => name(request.map(|request| &request.model)),
            Dimension::User => name(request.and_then(|request| request.user.as_ref())),
            Dimension::Hour => Part::Hour(goodput::hour(sample.started_at)),
            Dimension::Weekday => Part::Weekday(goodput::weekday(sample.started_at)),
            Dimension::Input => request.map_or(Part::Unknown, |request| {
                let tokens = request.input_tokens_estimate;
                Part::Input(INPUTS.iter().position(|(below, _)| tokens < *below).unwrap_or(INPUTS.len() - 1))
            }),
            Dimension::Concurrency => {
                let running = sample.in_flight_upstream.saturating_add(1);
                let place = CONCURRENCIES.iter().position(|(most, _)| running <= *most);
                Part::Concurrency(place.unwrap_or(CONCURRENCIES.len() - 1))
            }
        }
    }

    /// How it is to be understood, where the name alone does not say it.
    pub(super) fn note(self) -> Option<&'static str> {
        match self {
            Dimension::Hour => Some("hour: of the day at which the race began, UTC."),
            Dimension::Weekday => Some("weekday: on which the race began, UTC."),
            Dimension::Input => Some(
                "input: tokens of the request, estimated as bytes / 4, since losers report no count of their own; a class \
                 ends below its second number.",
            ),
            Dimension::Concurrency => Some(
                "concurrency: attempts of this gateway running at the upstream at dispatch, itself included. Production \
                 traffic confounds it: busy hours are busy for others too.",
            ),
            Dimension::Upstream | Dimension::Model | Dimension::User => None,
        }
    }
}

impl Part {
    /// For people. A caller chooses the names of models: no character of theirs may steer a terminal.
    pub(super) fn text(&self) -> String {
        match self {
            Part::Name(name) => name.replace(char::is_control, "\u{fffd}"),
            Part::Unknown => "–".to_owned(),
            part => part.plain().unwrap_or_default(),
        }
    }

    /// For programs; none where it is not known.
    pub(super) fn plain(&self) -> Option<String> {
        let of = |names: &[(i64, &str)], place: usize| names.get(place).map(|(_, name)| (*name).to_owned());
        match self {
            Part::Unknown => None,
            Part::Name(name) => Some(name.clone()),
            Part::Hour(hour) => Some(hour.to_string()),
            Part::Weekday(day) => usize::try_from(*day).ok().and_then(|day| WEEKDAYS.get(day)).map(|&day| day.into()),
            Part::Input(place) => of(&INPUTS, *place),
            Part::Concurrency(place) => of(&CONCURRENCIES, *place),
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Part::Hour(hour) => json!(hour),
            part => json!(part.plain()),
        }
    }
}
