//! The OpenAPI document of the gateway. Parameters and answers are made of what there is, see `schema`; what is written here
//! is held against the router by a test.

use serde_json::{Value, json};

use super::routing as standing;
use super::schema::{object, parameters};
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
            "description": "A racing LLM gateway: /v1 speaks OpenAI's surfaces and Anthropic's, /api tells the history and how routing stands. A number \
                            is only as good as its definition: see docs/measurement.md.",
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
                    health("200 when the database takes rows, a provider is on and no shutdown has begun.", true),
                ),
            },
            "/metrics": { "get": named("metrics", metrics()) },
        },
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "a user's token; none without users" },
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "the same" },
            },
            "schemas": schemas(),
        },
    });
    for surface in Surface::ALL {
        document["paths"][surface.path()] = json!({ "post": named(surface.as_str(), called(surface)) });
    }
    for operation in
        document["paths"].as_object_mut().into_iter().flatten().flat_map(|(_, path)| path.as_object_mut()).flatten()
    {
        let responses = &mut operation.1["responses"];
        if responses["default"].is_null() {
            responses["default"] = error(
                "403 for a foreign Origin or a client on another machine, 421 for a foreign Host, 503 while the gateway has no room: each with a code that begins with photofinish_",
            );
        }
    }
    document
}

/// With the name that generated clients give it.
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
        "Group": object("The figures of a group of attempts, with the keys it is grouped by.", &[&KEYS, &FIGURES]),
        "Regression": object("A figure of an upstream that is worse than in the same hours before.", &[&REGRESSION]),
        "Point": object("A figure of one step or class: of `metric`, the member that is called after it.", &[&POINT]),
        "Race": object("A request of a client: the row, and figures of it.", &[&of_columns(RaceRecord::COLUMNS), &OF_RACE]),
        "Attempt": object(
            "A try at a provider: the row, and figures of it. Times are since its own dispatch, where nothing else is said.",
            &[&of_columns(AttemptRecord::COLUMNS), &OF_ATTEMPT],
        ),
        "Event": event,
        "RacePage": members("Races, newest first.", &json!({
            "races": list("Race"),
            "next": { "type": ["string", "null"], "description": "for `before`, to get the page after this; null on the last" },
        })),
        "RaceWhole": members("One race.", &json!({
            "race_id": { "type": "string" },
            "race": {
                "oneOf": [reference("Race"), { "type": "null" }],
                "description": "null while its own row is not written, which may come after those of its attempts",
            },
            "attempts": list("Attempt"),
            "timeline": list("Event"),
        })),
        "Error": members("What went wrong.", &json!({ "error": {
            "type": "object",
            "properties": {
                "message": { "type": "string", "description": "for people" },
                "type": { "type": "string" },
                "param": { "type": ["string", "null"], "description": "the parameter or member that is meant" },
                "code": { "type": "string", "description": "for programs; the gateway's own begin with photofinish_" },
                "attempts": { "type": "array", "items": { "type": "object" }, "description": "where upstreams failed" },
            },
            "required": ["message", "type", "param", "code"],
        } })),
    });
    for (name, schema) in standing::schemas() {
        schemas[name] = schema;
    }
    schemas
}

fn stats() -> Value {
    let about = "What `photofinish stats --json` prints: the figures of each group of attempts; with `regressions`, what is worse, and \
                 then `by`, `slo`, `min-samples`, `half-life`, `strata` and `exact` cannot be given.";
    let mut path = asked("Figures by upstream, or by other groups", about, parameters::<stats::ReportQuestion>());
    path["responses"]["200"] = in_json(
        "one object for each group, or for each regression",
        &json!({ "anyOf": [list("Group"), list("Regression")] }),
    );
    path["responses"]["200"]["headers"] = rolled_until();
    path
}

fn history() -> Value {
    let about = "What `photofinish history --json` prints: a point for each series and each step that had attempts.";
    let mut path = asked("A figure over time, or over concurrency", about, parameters::<series::SeriesQuestion>());
    path["responses"]["200"] = in_json("one object for each point", &list("Point"));
    path["responses"]["200"]["headers"] = rolled_until();
    path
}

fn rolled_until() -> Value {
    json!({ "x-photofinish-rolled-until": {
        "description": "what is older was read out of rolled-up hours, with times to 1.6 %; not there where all is exact",
        "schema": { "type": "string", "format": "date-time" },
    } })
}

fn races() -> Value {
    let about = "Newest first; `provider` and `upstream` mean races with an attempt there. Races that begin while pages are \
                 read do not shift them. A race is there when it has ended.";
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
    let about = "Rows as they are stored, and all events on one clock.";
    let mut path = asked("One race with its attempts and a timeline", about, vec![parameter]);
    path["responses"]["200"] = in_json("the race", &reference("RaceWhole"));
    path["responses"]["404"] = error("no such race is written");
    path
}

fn routing() -> Value {
    let about = "What `photofinish routing --json` prints: what is learnt of each upstream and each model's budget, and why an \
                 upstream is chosen or not. From memory, so it is of now.";
    let mut path = asked("How every upstream stands, and why", about, parameters::<standing::RoutingQuestion>());
    path["tags"] = json!(["operation"]);
    path["responses"] = json!({
        "200": in_json("how it stands", &reference("Routing")),
        "400": error("a parameter cannot be used; the message names it and what is valid"),
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
        "description": "For admins, or anybody where there are no users.",
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
        "responses": { "200": in_json("it is well", &json!({ "type": "object" })) },
    });
    if may_fail {
        path["responses"]["503"] = in_json("it is not, and why", &json!({ "type": "object" }));
    }
    path
}

/// One of the surfaces: what its request needs, and how it is answered.
fn called(surface: Surface) -> Value {
    let (summary, required): (&str, &[&str]) = match surface {
        Surface::Chat => ("OpenAI chat completions, raced", &["model", "messages"]),
        Surface::Completions => ("OpenAI completions, raced", &["model", "prompt"]),
        Surface::Embeddings => ("OpenAI embeddings, raced to the first whole answer", &["model", "input"]),
        Surface::Responses => ("OpenAI responses, raced", &["model", "input"]),
        Surface::Messages => ("Anthropic messages, raced", &["model", "max_tokens", "messages"]),
        Surface::CountTokens => {
            ("Anthropic token counts; not raced, an estimate where nobody can count", &["model", "messages"])
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
        "description": "Members that are not listed go up as they are to upstreams of this dialect, and are translated for others. \
                        The response headers x-photofinish-race and x-photofinish-upstream name the race and its winner, \
                        x-photofinish-dropped what a translation left out.",
        "tags": ["models"],
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object",
            "properties": properties,
            "required": required,
        } } } },
        "responses": {
            "200": { "description": "the winner's answer", "content": content },
            "default": error("nobody answered, or the request was refused"),
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

/// A path of `/api`; its answer is still missing.
fn asked(summary: &str, about: &str, parameters: Vec<Value>) -> Value {
    json!({
        "summary": summary,
        "description": format!("{about} For admins, or anybody where there are no users."),
        "tags": ["history"],
        "parameters": parameters,
        "responses": {
            "400": error("a parameter cannot be used; the message names it and what is valid"),
            "401": error("no valid token"),
            "403": error("not an admin's token"),
            "500": error("the history cannot be read"),
            "503": error("the history cannot be read now: too many ask, it took too long, or the file is away"),
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
