//! The OpenAPI document of the gateway: `openapi.json`, completed with the parts that follow from declarations. A test
//! compares its paths with the router.
//!
//! In the file, an answer that is a string is an error. An operation without `default` gets the default answer of
//! `server::routes::edge`. Not for parameters and schemas: see `schema`.

use serde_json::{Map, Value, json};

use super::reload::ReloadQuestion;
use super::routing::RoutingQuestion;
use super::schema::{derived, object, parameters};
use photofinish_history::history::table::Table as _;
use photofinish_history::history::{AttemptRecord, LeftOutReason, RaceRecord, RunRecord};
use photofinish_history::report::fields::{
    EVENT, FIGURES, KEYS, OF_ATTEMPT, OF_RACE, OF_RUN, POINT, REGRESSION, of_columns,
};
use photofinish_history::report::{costs, distribution, races, report_question as stats, runs, series, timeline};
use photofinish_lab::replay::ReplayQuestion;
use photofinish_routing::health::routing_status::RoutingReport;

/// The refusals that every path can send before it reads the request.
const REFUSED: &str = "403 for a foreign Origin or a client on another machine, 421 for a foreign Host, 429 for a wrong \
                       token after ten from this address, 503 while the gateway has no room: each with a code that begins with photofinish_";

/// OpenAPI 3.1, as JSON.
pub fn openapi() -> Value {
    // A test reads the file.
    let mut document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for (path, parameters) in [
        ("/api/stats", parameters::<stats::ReportQuestion>()),
        ("/api/history", parameters::<series::SeriesQuestion>()),
        ("/api/races", parameters::<races::RacesQuestion>()),
        ("/api/runs", parameters::<runs::RunsQuestion>()),
        ("/api/distribution", parameters::<distribution::DistributionQuestion>()),
        ("/api/costs", parameters::<costs::CostsQuestion>()),
        ("/api/replay", parameters::<ReplayQuestion>()),
        ("/api/routing", parameters::<RoutingQuestion>()),
    ] {
        document["paths"][path]["get"]["parameters"] = parameters.into();
    }
    document["paths"]["/api/reload"]["post"]["parameters"] = parameters::<ReloadQuestion>().into();
    for (name, schema) in schemas() {
        document["components"]["schemas"][name] = schema;
    }
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let Some(answers) = operation["responses"].as_object_mut() else { continue };
        answers.entry("default").or_insert_with(|| REFUSED.into());
        for answer in answers.values_mut() {
            if let Some(about) = answer.as_str() {
                let schema = json!({ "$ref": "#/components/schemas/Error" });
                *answer = json!({ "description": about, "content": { "application/json": { "schema": schema } } });
            }
        }
    }
    document
}

/// One of `left_out`, which is text in the database.
fn left_out_upstream() -> Value {
    let reasons: Vec<&str> = LeftOutReason::ALL.iter().map(|reason| reason.as_str()).collect();
    json!({
        "type": "object",
        "properties": {
            "upstream": { "type": "string", "description": "`provider` / `model_sent`" },
            "reason": { "type": "string", "enum": reasons },
        },
        "required": ["upstream", "reason"],
        "additionalProperties": false,
    })
}

/// A run: `spec` and `result` are text in the database, and objects here.
fn run() -> Value {
    let mut run = object("A run of a benchmark.", &[&of_columns(RunRecord::COLUMNS), &OF_RUN]);
    for (name, kind) in [("spec", json!("object")), ("result", json!(["object", "null"]))] {
        run["properties"][name]["type"] = kind;
        // Each command writes its own.
        run["properties"][name]["additionalProperties"] = json!(true);
    }
    if let Some(required) = run["required"].as_array_mut() {
        required.retain(|name| name != "result");
    }
    run
}

/// The schemas that follow from declarations, by name.
fn schemas() -> Map<String, Value> {
    let mut event = object("Something that happened in a race.", &[&EVENT]);
    let events: Vec<&str> =
        [timeline::BEGIN].into_iter().chain(timeline::OF_ATTEMPT).chain(timeline::OF_RACE).collect();
    event["properties"]["event"]["enum"] = json!(events);
    let mut race =
        object("A client's request: the row and its figures.", &[&of_columns(RaceRecord::COLUMNS), &OF_RACE]);
    let left_out = &mut race["properties"]["left_out"];
    left_out["type"] = json!(["array", "null"]);
    left_out["items"] = left_out_upstream();
    let fields = [
        ("Group", object("The figures of a group of attempts, and the keys of the group.", &[&KEYS, &FIGURES])),
        ("Regression", object("A figure of an upstream that is worse than in the same hours before.", &[&REGRESSION])),
        ("Point", object("A figure of one step or class; its member has the name of `metric`.", &[&POINT])),
        ("Race", race),
        (
            "Attempt",
            object(
                "An attempt at a provider: the row and its figures. Times are since its own dispatch unless the member says otherwise.",
                &[&of_columns(AttemptRecord::COLUMNS), &OF_ATTEMPT],
            ),
        ),
        ("Event", event),
        ("Run", run()),
    ];
    let fields = fields.map(|(name, schema)| (name.to_owned(), schema)).into_iter();
    fields.chain(derived::<RoutingReport>()).chain(distribution::schema()).chain(costs::schema()).collect()
}
