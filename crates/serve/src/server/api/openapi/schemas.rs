//! The schemas of the OpenAPI document that follow from declarations: columns, members of answers, and the names that a value may
//! have, each with its explanation. Not for what `routing.json` has.

use serde_json::{Map, Value, json};

use crate::server::api::{accounts, config};
use photofinish_config::names::NamedChoice;
use photofinish_config::{Objective, Policy};
use photofinish_facts::reason::DecisionReason;
use photofinish_facts::record::table::Table as _;
use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, IncidentRecord, LeftOutReason, RaceOutcome, RaceRecord, RaceSource, RunRecord,
    StartReason,
};
use photofinish_gateway::proxy::{CODES, ErrorCode};
use photofinish_history::report::figures::{FIGURES, KEYS};
use photofinish_history::report::incidents;
use photofinish_history::report::members::{MemberField, MemberKind, of_columns};
use photofinish_history::report::{compare, costs, distribution, races, replicas, runs, series, usage, verdicts};
use photofinish_wire::Dialect;

/// The schemas whose members are one list: the name, what it is, and these.
const LISTS: [(&str, &str, &[MemberField]); 31] = [
    ("ModelComparison", "A model's upstreams compared by looks.", compare::MODEL_COMPARISON),
    ("UpstreamComparison", "How long an upstream alone would have taken.", compare::UPSTREAM_COMPARISON),
    (
        "Configuration",
        "The configuration in force: names, numbers and states, without keys, tokens, hashes and the paths of addresses.",
        config::CONFIGURATION,
    ),
    ("ConfiguredServer", "The table `[server]`.", config::SERVER),
    ("ConfiguredProvider", "A provider.", config::PROVIDER),
    ("ConfiguredModel", "A model.", config::MODEL),
    ("ConfiguredUpstream", "An upstream of a model.", config::UPSTREAM),
    ("ConfiguredPrice", "A price.", config::PRICE),
    ("ConfiguredUser", "A user.", config::USER),
    ("RacePage", "Races, newest first.", races::RACE_PAGE),
    ("RunPage", "Runs, newest first.", runs::RUN_PAGE),
    ("VerdictList", "Hosts that were verified, by model.", verdicts::VERDICTS),
    ("HostVerdicts", "One host of a model.", verdicts::HOST_VERDICTS),
    ("Verdict", "A fact in which a host differs from the reference.", verdicts::VERDICT),
    ("ReplicaList", "Gateways, newest first.", replicas::REPLICAS),
    ("Replica", "One gateway, from its start on.", replicas::REPLICA),
    ("IncidentList", "Incidents, newest first.", incidents::INCIDENT_LIST),
    ("NotWatched", "An upstream that is asked too seldom to be watched for slowness.", incidents::NOT_WATCHED),
    ("AuditLine", "A line of the audit.", accounts::AUDIT_LINE),
    ("LoginOffer", "Whether users log in.", crate::login::OFFER),
    ("LoginBegun", "A login that was begun.", crate::login::BEGUN),
    ("Me", "A caller, and its limits.", accounts::CALLER),
    ("Distribution", "The upstreams with most attempts first.", distribution::DISTRIBUTION),
    ("Costs", "What attempts cost: in all, and of each group.", costs::COSTS),
    ("Usage", "What attempts used: in all, and of each group.", usage::USAGE),
    ("CurvePoint", "A point of a curve.", distribution::CURVE_POINT),
    ("PointAlone", "A point of the curve of the first tokens alone.", distribution::POINT_ALONE),
    ("Curve", "The distribution of one upstream's time to first token.", distribution::CURVE),
    ("CostSum", "A sum of costs, exact or between bounds.", costs::COST_SUM),
    ("Point", "A figure of one step or class; its member has the name of `metric`.", &series::POINT),
    ("UsedAmounts", "What attempts used.", usage::USED),
];

/// The schemas that follow from declarations, by name.
pub fn schemas() -> Map<String, Value> {
    let lists = LISTS.into_iter().map(|(name, about, members)| (name, object(about, &[members])));
    let all = lists.chain(of_rows()).map(|(name, schema)| (name.to_owned(), schema));
    let mut schemas: Map<String, Value> = all.collect();
    for (schema, member, of, names) in named() {
        refer(&mut schemas[schema]["properties"][member], member, of);
        schemas.insert(of.to_owned(), names);
    }
    schemas.insert("ErrorCode".to_owned(), error_codes());
    schemas.insert("LeftOutReason".to_owned(), choices::<LeftOutReason>("Why an upstream of the model was not raced."));
    schemas
}

fn error_codes() -> Value {
    let code = |code: &ErrorCode| {
        let about = format!("{} {}", code.status.as_str(), code.about);
        json!({ "const": code.code, "description": if code.remedy.is_empty() { about } else { format!("{about}: {}", code.remedy) } })
    };
    let codes: Vec<Value> = CODES.iter().map(code).collect();
    json!({ "type": "string", "description": "The gateway's own.", "anyOf": codes })
}

/// Those with members of several lists, such as the columns of a row and its figures.
fn of_rows() -> [(&'static str, Value); 8] {
    let mut event = object("Something that happened in a race.", &[&races::EVENT]);
    let events: Vec<&str> = [races::BEGIN].into_iter().chain(races::ATTEMPT_EVENTS).chain(races::RACE_EVENTS).collect();
    event["properties"]["event"]["enum"] = json!(events);
    let mut race =
        object("A client's request: the row and its figures.", &[&of_columns(RaceRecord::COLUMNS), &races::OF_RACE]);
    let left_out = &mut race["properties"]["left_out"];
    left_out["type"] = json!(["array", "null"]);
    left_out["items"] = left_out_upstream();
    let figures: Vec<MemberField> = FIGURES.iter().map(|figure| figure.field).collect();
    let attempt = [&of_columns(AttemptRecord::COLUMNS)[..], &races::OF_ATTEMPT];
    let about = "An attempt at a provider: the row and its figures. Times are since its own dispatch unless the member says otherwise.";
    let incident = [&of_columns(IncidentRecord::COLUMNS)[..], &incidents::OF_INCIDENT];
    let costs = object(
        "What attempts cost, by what they were for. A group has the member that `by` names.",
        &[&costs::COST_KEYS, costs::COST_PARTS],
    );
    let used = [&usage::USAGE_KEYS, usage::USED];
    [
        ("Group", object("The figures of a group of attempts, and the keys of the group.", &[&KEYS, &figures])),
        ("Race", race),
        ("Attempt", object(about, &attempt)),
        ("Event", event),
        ("Incident", object("A stretch of time in which an upstream failed or was slow.", &incident)),
        ("Run", run()),
        ("CostParts", costs),
        ("UsageGroup", object("What the attempts of a group used, and the members that `by` names.", &used)),
    ]
}

/// Lets a member of text refer to the names that it may have. `why` has several, separated by spaces.
fn refer(member: &mut Value, name: &str, of: &str) {
    if name == "why" {
        member["x-words"] = of_schema(of);
        return;
    }
    let about = member["description"].take();
    let null = member["type"].is_array();
    *member = if null { json!({ "oneOf": [of_schema(of), { "type": "null" }] }) } else { of_schema(of) };
    member["description"] = about;
}

/// The names that a value may have, each with what it says.
fn choices<T: NamedChoice>(about: &str) -> Value {
    let one = |choice: &T| json!({ "const": choice.name(), "description": line(choice.about()) });
    json!({ "type": "string", "description": about, "anyOf": T::VARIANTS.iter().map(one).collect::<Vec<_>>() })
}

/// A comment of several lines as one.
fn line(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The values that are stored by name: the schema and the member, the schema of the names, and these.
fn named() -> [(&'static str, &'static str, &'static str, Value); 8] {
    let names = Dialect::ALL.map(Dialect::as_str);
    let dialects = json!({ "type": "string", "description": "An API that a provider speaks.", "enum": names });
    [
        ("Race", "policy", "Policy", choices::<Policy>("What a policy starts, and when.")),
        ("Race", "optimise", "Objective", choices::<Objective>("What `adaptive` aims at.")),
        ("Race", "why", "DecisionReason", choices::<DecisionReason>("A reason of a plan.")),
        ("Race", "outcome", "RaceOutcome", choices::<RaceOutcome>("How a race ended.")),
        ("Race", "source", "RaceSource", choices::<RaceSource>("Who asked.")),
        ("Attempt", "dialect", "Dialect", dialects),
        ("Attempt", "start_reason", "StartReason", choices::<StartReason>("Why an attempt was started.")),
        ("Attempt", "outcome", "AttemptOutcome", choices::<AttemptOutcome>("How an attempt ended.")),
    ]
}

/// One of `left_out`, which is text in the database.
fn left_out_upstream() -> Value {
    json!({
        "type": "object",
        "properties": {
            "upstream": { "type": "string", "description": "`provider` / `model_sent`" },
            "reason": of_schema("LeftOutReason"),
        },
        "required": ["upstream", "reason"],
        "additionalProperties": false,
    })
}

pub fn of_schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
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

/// An object with these members and no others.
pub fn object(about: &str, fields: &[&[MemberField]]) -> Value {
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
    let mut schema = match field.kind {
        MemberKind::Integer => json!({ "type": "integer" }),
        MemberKind::Number => json!({ "type": "number" }),
        MemberKind::Text => json!({ "type": "string" }),
        MemberKind::Boolean => json!({ "type": "boolean" }),
        MemberKind::Counts => json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
        MemberKind::Object(name) if field.nullable => json!({ "oneOf": [of_schema(name), { "type": "null" }] }),
        MemberKind::Object(name) => of_schema(name),
        MemberKind::Open => json!({ "type": "object", "additionalProperties": true }),
        MemberKind::OpenList => json!({ "type": "array", "items": { "type": "object", "additionalProperties": true } }),
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
