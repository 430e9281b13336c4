//! What attempts are grouped by, and what an attempt is under each dimension.

use serde_json::{Value, json};

use crate::history::class::{Concurrency, Input};

/// One of the names that `by` takes.
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

/// One of the names that `strata` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StrataDimension {
    /// Size of the request.
    Input,
    /// Whether the client asked to stream.
    Stream,
    /// Hour of the day, UTC.
    Hour,
}

/// What an attempt is under one dimension. Sorts by number or by name; what is not known comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupValue {
    /// The race's own row is not written yet, or there are no users.
    Unknown,
    Name(String),
    /// 0 to 23.
    Hour(i64),
    /// 0 for Monday.
    Weekday(i64),
    Input(Input),
    Concurrency(Concurrency),
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// As on the command line, in the table's head and in JSON.
    pub fn name(self) -> &'static str {
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

    /// How it is to be understood, where the name alone does not say it.
    pub fn note(self) -> Option<&'static str> {
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

impl GroupValue {
    /// For people. A caller chooses the names of models: no character of theirs may steer a terminal.
    pub fn text(&self) -> String {
        match self {
            GroupValue::Name(name) => name.replace(char::is_control, "\u{fffd}"),
            GroupValue::Unknown => "–".to_owned(),
            part => part.plain().unwrap_or_default(),
        }
    }

    /// For programs; none where it is not known.
    pub fn plain(&self) -> Option<String> {
        match self {
            GroupValue::Unknown => None,
            GroupValue::Name(name) => Some(name.clone()),
            GroupValue::Hour(hour) => Some(hour.to_string()),
            GroupValue::Weekday(day) => {
                usize::try_from(*day).ok().and_then(|day| WEEKDAYS.get(day)).map(|&day| day.into())
            }
            GroupValue::Input(class) => Some(class.name().to_owned()),
            GroupValue::Concurrency(class) => Some(class.name().to_owned()),
        }
    }

    pub fn json(&self) -> Value {
        match self {
            GroupValue::Hour(hour) => json!(hour),
            part => json!(part.plain()),
        }
    }
}
