//! The OpenAPI document of the gateway: its paths and their answers. A test compares the paths with the router.
//!
//! Not for parameters and schemas that follow from declarations: see `schema`.

use serde_json::{Map, Value, json};

use super::routing::RoutingQuestion;
use super::schema::{derived, object, parameters};
use crate::health::routing_status::RoutingReport;
use crate::history::table::Table as _;
use crate::history::{AttemptRecord, RaceRecord};
use crate::protocol::Surface;
use crate::report::fields::{EVENT, FIGURES, KEYS, OF_ATTEMPT, OF_RACE, POINT, REGRESSION, of_columns};
use crate::report::{races, report_question as stats, series, timeline};

/// OpenAPI 3.1, as JSON.
pub fn openapi() -> Value {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "photofinish",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A racing LLM gateway: /v1 has OpenAI's surfaces and Anthropic's, /api the history and the state of routing. \
                            docs/measurement.md defines the figures.",
        },
        "security": [{ "bearer": [] }, { "key": [] }, {}],
        "paths": {
            "/v1/models": { "get": named("listModels", models()) },
            "/v1/models/{id}": { "get": named("getModel", model()) },
            "/api/stats": { "get": named("stats", stats()) },
            "/api/history": { "get": named("history", history()) },
            "/api/races": { "get": named("listRaces", races()) },
            "/api/races/{race_id}": { "get": named("getRace", race()) },
            "/api/routing": { "get": named("routing", routing()) },
            "/api/openapi.json": { "get": named("openapi", document()) },
            "/healthz": { "get": named("alive", health("200 while the process is alive.", false)) },
            "/health": { "get": named("health", health("The same as /healthz.", false)) },
            "/readyz": {
                "get": named(
                    "ready",
                    health("200 while the database accepts rows, a provider is on and no shutdown has begun.", true),
                ),
            },
            "/metrics": { "get": named("metrics", metrics()) },
        },
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "a user's token; not needed without users" },
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "the same" },
            },
            "schemas": schemas(),
        },
    });
    for surface in Surface::ALL {
        document["paths"][surface.path()] = json!({ "post": named(surface.as_str(), called(surface)) });
    }
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let refused = &mut operation["responses"]["default"];
        if refused.is_null() {
            *refused = error(REFUSED);
        }
    }
    document
}

/// How every path can refuse a request before it is read.
const REFUSED: &str = "403 for a foreign Origin or a client on another machine, 421 for a foreign Host, 503 while the gateway has no \
                       room: each with a code that begins with photofinish_";

/// Adds the name that generated clients use.
fn named(operation: &str, mut path: Value) -> Value {
    path["operationId"] = json!(operation);
    path
}

fn schemas() -> Value {
    let mut event = object("Something that happened in a race.", &[&EVENT]);
    let events: Vec<&str> =
        [timeline::BEGIN].into_iter().chain(timeline::OF_ATTEMPT).chain(timeline::OF_RACE).collect();
    event["properties"]["event"]["enum"] = json!(events);
    let mut schemas = json!({
        "Group": object("The figures of a group of attempts, and the keys of the group.", &[&KEYS, &FIGURES]),
        "Regression": object("A figure of an upstream that is worse than in the same hours before.", &[&REGRESSION]),
        "Point": object("A figure of one step or class; its member has the name of `metric`.", &[&POINT]),
        "Race": object("A client's request: the row and its figures.", &[&of_columns(RaceRecord::COLUMNS), &OF_RACE]),
        "Attempt": object(
            "An attempt at a provider: the row and its figures. Times are since its own dispatch unless the member says otherwise.",
            &[&of_columns(AttemptRecord::COLUMNS), &OF_ATTEMPT],
        ),
        "Event": event,
        "RacePage": members("Races, newest first.", &json!({
            "races": list("Race"),
            "next": { "type": ["string", "null"], "description": "the value of `before` for the next page; null on the last page" },
        })),
        "RaceWhole": members("One race.", &json!({
            "race_id": { "type": "string" },
            "race": {
                "oneOf": [reference("Race"), { "type": "null" }],
                "description": "null until its row is written, which may be after the rows of its attempts",
            },
            "attempts": list("Attempt"),
            "timeline": list("Event"),
        })),
        "Error": members("What went wrong.", &json!({ "error": {
            "type": "object",
            "properties": {
                "message": { "type": "string", "description": "for people" },
                "type": { "type": "string" },
                "param": { "type": ["string", "null"], "description": "the parameter or member at fault" },
                "code": { "type": "string", "description": "for programs; the gateway's own begin with photofinish_" },
                "attempts": { "type": "array", "items": { "type": "object" }, "description": "the attempts, if upstreams failed" },
            },
            "required": ["message", "type", "param", "code"],
        } })),
    });
    for (name, schema) in derived::<RoutingReport>() {
        schemas[name] = schema;
    }
    schemas
}

fn stats() -> Value {
    let about = "What `photofinish stats --json` prints: the figures of each group of attempts. With `regressions`, the regressions \
                 instead; then `by`, `slo`, `min-samples`, `half-life`, `strata` and `exact` are not allowed.";
    let mut path = asked("Figures by upstream, or by other groups", about, parameters::<stats::ReportQuestion>());
    path["responses"]["200"] =
        in_json("one object per group or per regression", &json!({ "anyOf": [list("Group"), list("Regression")] }));
    path["responses"]["200"]["headers"] = rolled_until();
    path
}

fn history() -> Value {
    let about = "What `photofinish history --json` prints: one point per series and step with attempts.";
    let mut path = asked("A figure over time, or over concurrency", about, parameters::<series::SeriesQuestion>());
    path["responses"]["200"] = in_json("one object per point", &list("Point"));
    path["responses"]["200"]["headers"] = rolled_until();
    path
}

fn rolled_until() -> Value {
    json!({ "x-photofinish-rolled-until": {
        "description": "older figures come from rolled-up hours, with times exact to 1.6 %; absent if everything is exact",
        "schema": { "type": "string", "format": "date-time" },
    } })
}

fn races() -> Value {
    let about = "Newest first; `provider` and `upstream` select races with an attempt there. New races do not shift the pages. A \
                 race appears when it has ended.";
    let mut path = asked("Races, page by page", about, parameters::<races::RacesQuestion>());
    path["responses"]["200"] = in_json("a page", &reference("RacePage"));
    path
}

fn race() -> Value {
    let parameter = json!({
        "name": "race_id", "in": "path", "required": true,
        "description": "as in the response header x-photofinish-race",
        "schema": { "type": "string", "format": "uuid" },
    });
    let about = "The stored rows, and all events on one clock.";
    let mut path = asked("One race with its attempts and a timeline", about, vec![parameter]);
    path["responses"]["200"] = in_json("the race", &reference("RaceWhole"));
    path["responses"]["404"] = error("there is no row of this race");
    path
}

fn routing() -> Value {
    let about = "What `photofinish routing --json` prints: what was learned about each upstream, each model's budget, and why an \
                 upstream is chosen or not. Read from memory: the current state.";
    let mut path = asked("The state of every upstream, and why", about, parameters::<RoutingQuestion>());
    path["tags"] = json!(["operation"]);
    path["responses"] = json!({
        "200": in_json("the state", &reference("Routing")),
        "400": error("a parameter is invalid; the message names it and what is valid"),
        "401": error("no valid token"),
        "403": error("not an admin's token"),
        "404": error("no such model"),
    });
    path
}

fn document() -> Value {
    let mut path = asked("This document", "OpenAPI 3.1.", Vec::new());
    path["responses"] = json!({
        "200": in_json("this", &json!({ "type": "object" })),
        "401": error("no valid token"),
        "403": error("not an admin's token"),
    });
    path
}

fn metrics() -> Value {
    json!({
        "summary": "Metrics for Prometheus",
        "description": "For admins; without users, for everyone.",
        "tags": ["operation"],
        "responses": {
            "200": { "description": "text format 0.0.4", "content": { "text/plain": { "schema": { "type": "string" } } } },
            "401": error("no valid token"),
            "403": error("not an admin's token"),
        },
    })
}

fn health(about: &str, may_fail: bool) -> Value {
    let mut path = json!({
        "summary": about,
        "tags": ["operation"],
        "security": [],
        "responses": { "200": in_json("it is healthy", &json!({ "type": "object" })) },
    });
    if may_fail {
        path["responses"]["503"] = in_json("it is not healthy, and why", &json!({ "type": "object" }));
    }
    path
}

/// A surface: what its request needs, and its answer.
fn called(surface: Surface) -> Value {
    let (summary, required): (&str, &[&str]) = match surface {
        Surface::Chat => ("OpenAI chat completions, raced", &["model", "messages"]),
        Surface::Completions => ("OpenAI completions, raced", &["model", "prompt"]),
        Surface::Embeddings => ("OpenAI embeddings, raced to the first whole answer", &["model", "input"]),
        Surface::Responses => ("OpenAI responses, raced", &["model", "input"]),
        Surface::Messages => ("Anthropic messages, raced", &["model", "max_tokens", "messages"]),
        Surface::CountTokens => {
            ("Anthropic token counts; not raced, estimated if no upstream can count", &["model", "messages"])
        }
    };
    let mut properties = json!({
        "model": { "type": "string", "description": "a configured model, an alias, or PROVIDER/MODEL" },
    });
    for name in &required[1..] {
        properties[*name] = match *name {
            "messages" => json!({ "type": "array", "items": { "type": "object" } }),
            "max_tokens" => json!({ "type": "integer" }),
            _ => json!({ "description": "a string, or a list" }),
        };
    }
    let mut content = json!({ "application/json": { "schema": { "type": "object" } } });
    if surface.streams() {
        properties["stream"] = json!({ "type": "boolean", "default": false });
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    json!({
        "summary": summary,
        "description": "Members that are not listed are sent unchanged to upstreams of this dialect, and translated for others. \
                        The response headers x-photofinish-race and x-photofinish-upstream name the race and its winner; \
                        x-photofinish-dropped names what a translation left out.",
        "tags": ["models"],
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object",
            "properties": properties,
            "required": required,
        } } } },
        "responses": {
            "200": { "description": "the winner's answer", "content": content },
            "default": error("no upstream answered, or the request was refused"),
        },
    })
}

fn models() -> Value {
    json!({
        "summary": "The models and aliases that this caller may use",
        "tags": ["models"],
        "responses": { "200": in_json("a list", &json!({ "type": "object" })), "401": error("no valid token") },
    })
}

fn model() -> Value {
    json!({
        "summary": "One of the models",
        "tags": ["models"],
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
        "responses": {
            "200": in_json("the model", &json!({ "type": "object" })),
            "401": error("no valid token"),
            "404": error("no such model for this caller"),
        },
    })
}

/// A path of `/api` without its answer.
fn asked(summary: &str, about: &str, parameters: Vec<Value>) -> Value {
    json!({
        "summary": summary,
        "description": format!("{about} For admins; without users, for everyone."),
        "tags": ["history"],
        "parameters": parameters,
        "responses": {
            "400": error("a parameter is invalid; the message names it and what is valid"),
            "401": error("no valid token"),
            "403": error("not an admin's token"),
            "500": error("the history cannot be read"),
            "503": error("the history cannot be read now: too many requests, too slow, or the file is missing"),
        },
    })
}

fn members(about: &str, properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|members| members.keys()).collect();
    json!({ "type": "object", "description": about, "properties": properties, "required": required })
}

fn in_json(about: &str, schema: &Value) -> Value {
    json!({ "description": about, "content": { "application/json": { "schema": schema } } })
}

fn error(about: &str) -> Value {
    in_json(about, &reference("Error"))
}

fn list(schema: &str) -> Value {
    json!({ "type": "array", "items": reference(schema) })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}
