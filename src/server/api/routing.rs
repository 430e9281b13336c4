//! `/api/routing`: how every upstream stands now, and how that is described. Read from memory, not from the history.

use axum::body::Body;
use axum::extract::State;
use clap::Args;
use http::{HeaderMap, Response, Uri};
use serde_json::{Value, json};

use super::json;
use super::query::question;
use super::schema::object;
use crate::health::routing_status::{CODES, MODEL, PREDICTED, REASON, UPSTREAM};
use crate::proxy::{self, Rejection};
use crate::server::routes::ServedPaths;

/// What is asked.
#[derive(Args, Clone, Debug)]
pub struct RoutingQuestion {
    /// Only this model: a name, an alias, or upstreams as PROVIDER/MODEL with commas between.
    #[arg(long)]
    pub model: Option<String>,
}

pub async fn routing(State(site): State<ServedPaths>, headers: HeaderMap, uri: Uri) -> Response<Body> {
    let answer = || {
        proxy::admin(&site.gateway, &headers)?;
        let (question, _) = question::<RoutingQuestion>(&uri, |_, _| None)?;
        let told = site.gateway.routing(question.model.as_deref())?;
        let mut text =
            serde_json::to_string_pretty(&told).map_err(|error| Rejection::history(error.to_string(), false))?;
        text.push('\n');
        Ok(json(text))
    };
    answer().unwrap_or_else(Rejection::into_response)
}

/// The answer's own schemas, by name.
pub(super) fn schemas() -> [(&'static str, Value); 5] {
    let list = |schema: &str| json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{schema}") } });
    let names = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    let mut upstream = object("How an upstream stands now.", &[&UPSTREAM]);
    add(&mut upstream, "models", names("those of the answer that list it; none where callers named it themselves"));
    add(&mut upstream, "predicted", list("Predicted"));
    upstream["properties"]["breaker"]["enum"] = json!(["closed", "open", "due"]);
    let mut model = object("How a model's races are decided now.", &[&MODEL]);
    add(&mut model, "order", names("upstreams that can be asked now, best first for a prompt of 500 tokens"));
    add(&mut model, "why", list("Reason"));
    model["properties"]["unit"]["enum"] = json!(["usd", "tokens"]);
    let mut reason = object("Why an upstream stands where it does.", &[&REASON]);
    reason["properties"]["code"]["enum"] = json!(CODES);
    let mut whole = object("How routing stands now.", &[]);
    add(&mut whole, "now_us", json!({ "type": "integer", "description": "since 1970, UTC", "x-unit": "µs" }));
    add(&mut whole, "upstreams", list("UpstreamNow"));
    add(&mut whole, "models", list("ModelNow"));
    add(
        &mut whole,
        "left_out",
        json!({ "type": "integer", "description": "upstreams and models beyond 1000 of each" }),
    );
    [
        ("Routing", whole),
        ("UpstreamNow", upstream),
        ("Predicted", object("What is expected of an attempt sent now.", &[&PREDICTED])),
        ("ModelNow", model),
        ("Reason", reason),
    ]
}

/// A required member that is no plain value.
fn add(schema: &mut Value, name: &str, member: Value) {
    schema["properties"][name] = member;
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(json!(name));
    }
}
