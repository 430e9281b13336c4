//! The OpenAPI document of the gateway: `openapi.json`, completed with the parts that follow from declarations. A test
//! compares its paths with the router.
//!
//! In the file, `use` names what an operation shares with others: the `fragments`. An answer that is a string is an error. An
//! operation without `default` gets the default answer of `server::routes::edge`. `errors` names the shape of its errors, `any` stands for
//! each method, and the schema of a stream of events for what their data is. Parameters follow from the command line's
//! arguments, schemas from field lists. A test writes those of types, `routing.json`: code that makes them would be a hundred kilobytes.

mod accounts;
mod schemas;

use std::any::TypeId;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};

use clap::builder::PossibleValue;
use clap::{Arg, Args, Command};
use http::Response;
use serde_json::{Map, Value, json};

use self::schemas::{of_schema, schemas};
use super::accounts::AuditQuestion;
use super::questions::{ReloadQuestion, RoutingQuestion};
use crate::dashboard::unpacked;
use crate::server::reads::json as json_answer;
use photofinish_history::report::incidents::IncidentsQuestion;
use photofinish_history::report::{costs, distribution, races, runs, series, stats, usage};
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

pub async fn document() -> Response<Body> {
    json_answer(DOCUMENT.clone())
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
    let routing: Map<String, Value> = serde_json::from_slice(&unpacked(ROUTING)).unwrap_or_default();
    document["paths"].as_object_mut().into_iter().for_each(|paths| paths.extend(accounts::paths()));
    for (name, schema) in schemas().into_iter().chain(accounts::schemas()).chain(routing) {
        document["components"]["schemas"][name] = schema;
    }
    // An upstream may send another one.
    let code = &mut document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"];
    code["anyOf"] = json!([of_schema("ErrorCode"), { "type": ["string", "null"] }]);
    let fragments = document.as_object_mut().and_then(|document| document.remove("fragments")).unwrap_or_default();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operations in paths.filter_map(Value::as_object_mut) {
        for_each_method(operations);
        for operation in operations.values_mut() {
            *operation = completed(operation, &fragments);
            answer(operation);
        }
    }
    document
}

/// An operation `any` is one of each method that may be passed on.
fn for_each_method(operations: &mut Map<String, Value>) {
    let Some(any) = operations.remove("any") else { return };
    for method in ["get", "post", "put", "patch", "delete"] {
        let mut operation = any.clone();
        let name = any["operationId"].as_str().unwrap_or_default();
        operation["operationId"] = format!("{name}_{method}").into();
        if !matches!(method, "get" | "delete") {
            operation["requestBody"] =
                json!({ "content": { "*/*": { "schema": { "type": "string", "format": "binary" } } } });
        }
        operations.insert(method.to_owned(), operation);
    }
}

/// Writes the answers of an operation out: errors, and events.
fn answer(operation: &mut Value) {
    let shape = operation.as_object_mut().and_then(|members| members.remove("errors"));
    let shape = of_schema(shape.as_ref().and_then(Value::as_str).unwrap_or("Error"));
    let Some(answers) = operation["responses"].as_object_mut() else { return };
    answers.entry("default").or_insert_with(|| REFUSED.into());
    for answer in answers.values_mut() {
        if let Some(about) = answer.as_str() {
            *answer = json!({ "description": about, "content": { "application/json": { "schema": shape } } });
        }
        if let Some(schema) = answer.pointer_mut("/content/text~1event-stream/schema") {
            let mut data = json!({ "type": "string" });
            if schema.get("$ref").is_some() {
                data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": schema });
            }
            let text = json!({ "type": "string" });
            *schema =
                json!({ "type": "object", "description": "one event", "properties": { "event": text, "data": data } });
        }
    }
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

/// The arguments of a question as query parameters.
fn parameters<Q: Args>() -> Vec<Value> {
    let command = Q::augment_args(Command::new("query").disable_help_flag(true));
    command.get_arguments().filter_map(parameter).collect()
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
