//! The dimensions of groups, the value of an attempt in each, and the index of names that gatherers use.
//!
//! Not for grouping: that is `groups`.

use std::collections::HashMap;

use serde_json::{Value, json};

use photofinish_config::names::names;
use photofinish_facts::estimate::class::{Concurrency, Input};

names! {
    /// A name that `by` takes.
    pub enum Dimension {
        /// Provider and its name for the model.
        Upstream = "upstream",
        /// The model that the app asked for.
        Model = "model",
        /// Hour of the day at which the race began, UTC.
        Hour = "hour",
        /// Day of the week, UTC.
        Weekday = "weekday",
        /// Size of the request, in tokens estimated by its bytes.
        Input = "input",
        /// Attempts running at the upstream when this one was started, itself included.
        Concurrency = "concurrency",
        /// The caller.
        User = "user",
    }
}

/// The value of an attempt in one dimension. Sorts by number or name; unknown values come first.
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
    /// An explanation, where the name is not enough.
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
    /// For people. Clients choose the names of models, so control characters are removed.
    pub fn text(&self) -> String {
        match self {
            GroupValue::Name(name) => name.replace(char::is_control, "\u{fffd}"),
            GroupValue::Unknown => "–".to_owned(),
            part => part.plain().unwrap_or_default(),
        }
    }

    /// For programs; none if unknown.
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

/// Each name once.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    places: HashMap<String, usize>,
    names: Vec<String>,
    /// The upstream that was looked up last; it keeps its memory.
    upstream: String,
}

impl NameIndex {
    pub fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    /// The place of `PROVIDER/MODEL`.
    pub fn upstream(&mut self, (provider, model_sent): (&str, &str)) -> usize {
        let mut name = std::mem::take(&mut self.upstream);
        name.clear();
        [provider, "/", model_sent].iter().for_each(|part| name.push_str(part));
        let place = self.place(&name);
        self.upstream = name;
        place
    }

    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
