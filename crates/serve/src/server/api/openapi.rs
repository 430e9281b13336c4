//! The OpenAPI document of the gateway: `openapi.json`, completed with the parts that follow from declarations. A test
//! compares its paths with the router.
//!
//! In the file, `use` names what an operation shares with others: the `fragments`. An answer that is a string is an error. An
//! operation without `default` gets the default answer of `server::routes::edge`. Parameters follow from the command line's
//! arguments, schemas from field lists. A test writes those of types, `routing.json`: code that makes them would be a hundred kilobytes.

use std::any::TypeId;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::extract::State;

use clap::builder::PossibleValue;
use clap::{Arg, Args, Command};
use http::Response;
use serde_json::{Map, Value, json};

use super::accounts::AuditQuestion;
use super::config;
use super::questions::{ReloadQuestion, RoutingQuestion};
use crate::dashboard::unpacked;
use crate::server::reads::json as json_answer;
use crate::server::served_paths::ServedPaths;
use photofinish_facts::record::table::Table as _;
use photofinish_facts::record::{AttemptRecord, IncidentRecord, LeftOutReason, RaceRecord, RunRecord};
use photofinish_gateway::proxy::{self, Client};
use photofinish_history::report::figures::{FIGURES, KEYS};
use photofinish_history::report::incidents::{self, IncidentsQuestion};
use photofinish_history::report::members::{MemberField, MemberKind, of_columns};
use photofinish_history::report::{compare, costs, distribution, races, runs, series, stats, usage};
use photofinish_lab::replay::ReplayQuestion;

/// The refusals that every path can send before it reads the request.
const REFUSED: &str = "403 for a foreign Origin or a client on another machine, 421 for a foreign Host, 429 for a wrong \
                       token after ten from this address, 503 while the gateway has no room: each with a code that begins with photofinish_";

/// `openapi.json` in gzip.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// `routing.json` in gzip: the schemas of what `/api/routing` answers, by name.
const ROUTING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/routing.json.gz"));

/// Built at the first request.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| openapi().to_string().into());

pub async fn document(State(site): State<ServedPaths>, client: Client) -> Response<Body> {
    match proxy::admin(&site.gateway, &client) {
        Ok(()) => json_answer(DOCUMENT.clone()),
        Err(rejection) => rejection.into_response(),
    }
}

/// OpenAPI 3.1, as JSON.
pub fn openapi() -> Value {
    // A test reads the file.
    let mut document: Value = serde_json::from_slice(&unpacked(PACKED)).unwrap_or_default();
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for (path, parameters) in [
        ("/api/stats", parameters::<stats::ReportQuestion>()),
        ("/api/history", parameters::<series::SeriesQuestion>()),
        ("/api/races", parameters::<races::RacesQuestion>()),
        ("/api/runs", parameters::<runs::RunsQuestion>()),
        ("/api/distribution", parameters::<distribution::DistributionQuestion>()),
        ("/api/costs", parameters::<costs::CostsQuestion>()),
        ("/api/incidents", parameters::<IncidentsQuestion>()),
        ("/api/replay", parameters::<ReplayQuestion>()),
        ("/api/routing", parameters::<RoutingQuestion>()),
        ("/api/usage", parameters::<usage::UsageQuestion>()),
        ("/api/audit", parameters::<AuditQuestion>()),
    ] {
        document["paths"][path]["get"]["parameters"] = parameters.into();
    }
    document["paths"]["/api/reload"]["post"]["parameters"] = parameters::<ReloadQuestion>().into();
    for (name, schema) in schemas() {
        document["components"]["schemas"][name] = schema;
    }
    let fragments = document.as_object_mut().and_then(|document| document.remove("fragments")).unwrap_or_default();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        *operation = completed(operation, &fragments);
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

/// An operation with the fragments that it uses. Its own members count where both have one; of a text, its own comes first.
fn completed(operation: &mut Value, fragments: &Value) -> Value {
    let own = operation.take();
    let mut whole = json!({});
    for name in own["use"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        merge(&mut whole, &fragments[name]);
    }
    merge(&mut whole, &own);
    if let Some(members) = whole.as_object_mut() {
        members.remove("use");
    }
    whole
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
        }
        (Value::String(into), Value::String(from)) => into.insert_str(0, from),
        (into, from) => *into = from.clone(),
    }
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
    let mut run = object("A run of a benchmark.", &[&of_columns(RunRecord::COLUMNS), &runs::OF_RUN]);
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
    let mut event = object("Something that happened in a race.", &[&races::EVENT]);
    let events: Vec<&str> = [races::BEGIN].into_iter().chain(races::ATTEMPT_EVENTS).chain(races::RACE_EVENTS).collect();
    event["properties"]["event"]["enum"] = json!(events);
    let mut race =
        object("A client's request: the row and its figures.", &[&of_columns(RaceRecord::COLUMNS), &races::OF_RACE]);
    let left_out = &mut race["properties"]["left_out"];
    left_out["type"] = json!(["array", "null"]);
    left_out["items"] = left_out_upstream();
    let figures: Vec<MemberField> = FIGURES.iter().map(|figure| figure.field).collect();
    let fields = [
        ("Group", object("The figures of a group of attempts, and the keys of the group.", &[&KEYS, &figures])),
        ("ModelComparison", object("A model's upstreams compared by looks.", &[compare::MODEL_COMPARISON])),
        ("UpstreamComparison", object("How long an upstream alone would have taken.", &[compare::UPSTREAM_COMPARISON])),
        ("Point", object("A figure of one step or class; its member has the name of `metric`.", &[&series::POINT])),
        ("Race", race),
        (
            "Attempt",
            object(
                "An attempt at a provider: the row and its figures. Times are since its own dispatch unless the member says otherwise.",
                &[&of_columns(AttemptRecord::COLUMNS), &races::OF_ATTEMPT],
            ),
        ),
        ("Event", event),
        (
            "Incident",
            object(
                "A stretch of time in which an upstream failed or was slow.",
                &[&of_columns(IncidentRecord::COLUMNS), &incidents::OF_INCIDENT],
            ),
        ),
        ("Run", run()),
        (
            "Configuration",
            object(
                "The configuration in force: names, numbers and states, without keys, tokens, hashes and the paths of addresses.",
                &[config::CONFIGURATION],
            ),
        ),
        ("ConfiguredServer", object("The table `[server]`.", &[config::SERVER])),
        ("ConfiguredProvider", object("A provider.", &[config::PROVIDER])),
        ("ConfiguredModel", object("A model.", &[config::MODEL])),
        ("ConfiguredUpstream", object("An upstream of a model.", &[config::UPSTREAM])),
        ("ConfiguredPrice", object("A price.", &[config::PRICE])),
        ("ConfiguredUser", object("A user.", &[config::USER])),
        ("CurvePoint", object("A point of a curve.", &[distribution::CURVE_POINT])),
        ("PointAlone", object("A point of the curve of the first tokens alone.", &[distribution::POINT_ALONE])),
        ("Curve", object("The distribution of one upstream's time to first token.", &[distribution::CURVE])),
        ("CostSum", object("A sum of costs, exact or between bounds.", &[costs::COST_SUM])),
        (
            "CostParts",
            object(
                "What attempts cost, by what they were for. A group has the member that `by` names.",
                &[&costs::COST_KEYS, costs::COST_PARTS],
            ),
        ),
    ];
    let fields = fields.map(|(name, schema)| (name.to_owned(), schema)).into_iter();
    let routing: Map<String, Value> = serde_json::from_slice(&unpacked(ROUTING)).unwrap_or_default();
    fields.chain(usage_schemas()).chain(routing).collect()
}

fn usage_schemas() -> impl Iterator<Item = (String, Value)> {
    let group = [&usage::USAGE_KEYS, usage::USED];
    let schemas = [
        ("UsedAmounts", object("What attempts used.", &[usage::USED])),
        ("UsageGroup", object("What the attempts of a group used, and the members that `by` names.", &group)),
    ];
    schemas.map(|(name, schema)| (name.to_owned(), schema)).into_iter()
}

/// The arguments of a question as query parameters.
fn parameters<Q: Args>() -> Vec<Value> {
    let command = Q::augment_args(Command::new("query").disable_help_flag(true));
    command.get_arguments().filter_map(parameter).collect()
}

/// An object with these members and no others.
fn object(about: &str, fields: &[&[MemberField]]) -> Value {
    let fields = || fields.iter().copied().flatten();
    let properties: Map<String, Value> = fields().map(|field| (field.name.to_owned(), member(field))).collect();
    let required: Vec<&str> = fields().filter(|field| !field.optional).map(|field| field.name).collect();
    json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn member(field: &MemberField) -> Value {
    let of_schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut schema = match field.kind {
        MemberKind::Integer => json!({ "type": "integer" }),
        MemberKind::Number => json!({ "type": "number" }),
        MemberKind::Text => json!({ "type": "string" }),
        MemberKind::Boolean => json!({ "type": "boolean" }),
        MemberKind::Counts => json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
        MemberKind::Object(name) if field.nullable => json!({ "oneOf": [of_schema(name), { "type": "null" }] }),
        MemberKind::Object(name) => of_schema(name),
        MemberKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        MemberKind::TextOrTexts => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
        MemberKind::List(name, usize::MAX) => json!({ "type": "array", "items": of_schema(name) }),
        MemberKind::List(name, most) => json!({ "type": "array", "items": of_schema(name), "maxItems": most }),
    };
    if let Some(kind) = schema.get("type").filter(|_| field.nullable).cloned() {
        schema["type"] = json!([kind, "null"]);
    }
    for (name, text) in [("description", field.about), ("x-unit", field.unit)] {
        if !text.is_empty() {
            schema[name] = json!(text);
        }
    }
    schema
}

fn parameter(argument: &Arg) -> Option<Value> {
    let name = argument.get_long()?;
    // Options have dashes; parameters do not.
    let about = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let about = about.replace("since --since", "`since`").replace(" --", " ");
    let mut one = kind(argument);
    let mut defaults: Vec<Value> =
        argument.get_default_values().iter().map(|value| default(&one, &value.to_string_lossy())).collect();
    let list = argument.get_value_delimiter().is_some();
    if list {
        one = json!({ "type": "array", "items": one });
    }
    if !defaults.is_empty() {
        one["default"] = if list { json!(defaults) } else { defaults.remove(0) };
    }
    let mut parameter = json!({ "name": name, "in": "query", "description": about, "schema": one });
    if argument.is_required_set() {
        parameter["required"] = json!(true);
    }
    if list {
        // Separated by commas.
        parameter["style"] = json!("form");
        parameter["explode"] = json!(false);
    }
    Some(parameter)
}

/// The schema of one value.
fn kind(argument: &Arg) -> Value {
    if !argument.get_action().takes_values() {
        return json!({ "type": "boolean", "default": false });
    }
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        return json!({ "type": "string", "enum": possible.iter().map(PossibleValue::get_name).collect::<Vec<_>>() });
    }
    let parsed = argument.get_value_parser().type_id();
    let is = |types: &[TypeId]| types.iter().any(|known| parsed == *known);
    if is(&[TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>(), TypeId::of::<usize>()]) {
        return json!({ "type": "integer", "minimum": 0 });
    }
    json!({ "type": if is(&[TypeId::of::<f64>()]) { "number" } else { "string" } })
}

fn default(schema: &Value, typed: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => serde_json::from_str(typed).unwrap_or(Value::Null),
        Some("boolean") => json!(typed == "true"),
        _ => json!(typed),
    }
}
