//! The paths and schemas of teams, users and keys, from the members that `accounts` declares and the keys of `[limits]`.

use serde_json::{Map, Value, json};

use super::schemas::{object, of_schema};
use crate::accounts::members::members_of;
use crate::accounts::{AccountAction, AccountRequest};
use photofinish_config as config;
use photofinish_history::report::members::MemberKind;
use photofinish_history::report::members::{MemberField, field, text};
use photofinish_history::store::AccountKind;

/// What a request may do: the action, the status of its answer, and what it is for.
const ACTIONS: [(AccountAction, u16, &str); 6] = [
    (
        AccountAction::List,
        200,
        "All that there are; those of the configuration have its path as `source` and cannot be changed here",
    ),
    (AccountAction::Make, 201, "Makes one"),
    (AccountAction::Show, 200, "One of them"),
    (AccountAction::Set, 200, "Changes what is given; null takes it away"),
    (
        AccountAction::Remove,
        200,
        "Removes one and revokes its keys; running answers go on. A team must have no user that was made at run time",
    ),
    (AccountAction::Rotate, 201, "Makes a key that replaces this one, which counts as well for `grace`"),
];

/// The operations by path and method.
pub fn paths() -> Map<String, Value> {
    let mut paths = Map::new();
    for (kind, (action, status, summary)) in
        AccountKind::ALL.iter().flat_map(|kind| ACTIONS.iter().map(|action| (*kind, *action)))
    {
        if action == AccountAction::Rotate && kind != AccountKind::Key {
            continue;
        }
        let id = "{id}".to_owned();
        let (method, path) = AccountRequest { kind, action, id, members: Map::new() }.target();
        let path = path.replace("%7Bid%7D", "{id}");
        let name = name_of(kind);
        let mut operation = json!({
            "use": ["role", "accounts"],
            "operationId": format!("{}{name}", verb(action)),
            "summary": summary,
            "tags": ["accounts"],
            "responses": { status.to_string(): { "description": "it is in force", "content": json_of(&answer_of(kind, action)) } },
        });
        operation["parameters"] = parameters(kind, action);
        if let Some(body) = body_of(kind, action) {
            operation["requestBody"] =
                json!({ "required": action != AccountAction::Rotate, "content": json_of(&of_schema(&body)) });
        }
        paths.entry(path).or_insert_with(|| json!({}))[method.as_str().to_ascii_lowercase()] = operation;
    }
    paths
}

/// The schemas of the bodies and answers, by name.
pub fn schemas() -> Vec<(String, Value)> {
    let limits = limits();
    let mut all = vec![("Budget".to_owned(), in_components(&config_schemas()["Budget"]))];
    for kind in AccountKind::ALL {
        let name = name_of(kind);
        for action in [AccountAction::Show, AccountAction::Make, AccountAction::Set] {
            let about = format!("{}, and limits as in the configuration.", kind.as_str());
            let schema = with(&object(&about, &[&members_of(kind, action)]), &limits);
            all.push((body_of(kind, action).unwrap_or_else(|| name.to_owned()), schema));
        }
        let list = format!("{}s", kind.as_str());
        let mut listed = object("A page of them, in the order of the ids.", &[&[NEXT]]);
        listed["properties"][&list] = json!({ "type": "array", "items": of_schema(name) });
        listed["required"] = json!([list, "next"]);
        all.push((format!("{name}List"), listed));
    }
    let key = text("key", "the text of the key: shown only now");
    let made = object(
        "A new key, and limits as in the configuration.",
        &[&members_of(AccountKind::Key, AccountAction::Show), &[key]],
    );
    all.push(("MadeKey".to_owned(), with(&made, &limits)));
    let rotation = members_of(AccountKind::Key, AccountAction::Rotate);
    all.push(("RotationOfKey".to_owned(), object("How a key is replaced.", &[&rotation])));
    all.push(("Removed".to_owned(), object("What was removed.", &[&REMOVED])));
    all
}

const NEXT: MemberField = MemberField {
    nullable: true,
    ..text("next", "the last id of this page: the next one is `after` it; null: there are no more")
};

const REMOVED: [MemberField; 2] =
    [text("removed", "its name"), field("keys_revoked", MemberKind::Integer, "", "how many keys were revoked with it")];

fn name_of(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::Team => "Team",
        AccountKind::User => "User",
        AccountKind::Key => "Key",
    }
}

fn verb(action: AccountAction) -> &'static str {
    match action {
        AccountAction::List => "list",
        AccountAction::Show => "get",
        AccountAction::Make => "make",
        AccountAction::Set => "set",
        AccountAction::Remove => "remove",
        AccountAction::Rotate => "rotate",
    }
}

fn answer_of(kind: AccountKind, action: AccountAction) -> Value {
    match (action, kind) {
        (AccountAction::List, _) => of_schema(&format!("{}List", name_of(kind))),
        (AccountAction::Make | AccountAction::Rotate, AccountKind::Key) => of_schema("MadeKey"),
        (AccountAction::Remove, AccountKind::Team | AccountKind::User) => of_schema("Removed"),
        _ => of_schema(name_of(kind)),
    }
}

/// The schema of the body.
fn body_of(kind: AccountKind, action: AccountAction) -> Option<String> {
    let name = name_of(kind);
    match action {
        AccountAction::Make => Some(format!("New{name}")),
        AccountAction::Set => Some(format!("ChangeOf{name}")),
        AccountAction::Rotate => Some(format!("RotationOf{name}")),
        AccountAction::List | AccountAction::Show | AccountAction::Remove => None,
    }
}

fn parameters(kind: AccountKind, action: AccountAction) -> Value {
    let id = json!({ "name": "id", "in": "path", "required": true, "description": "a name; of a key, its id", "schema": { "type": "string" } });
    let query = |name: &str, about: &str, of: &str| json!({ "name": name, "in": "query", "description": about, "schema": { "type": of } });
    match action {
        AccountAction::List => {
            let after = query("after", "only those behind this id: `next` of the page before", "string");
            let limit = query("limit", "at most this many, 1 to 10,000 (the default)", "integer");
            let of_keys = [
                query("user", "only those of this user", "string"),
                query("mine", "`true`: only those of the caller", "string"),
            ];
            let of_keys = of_keys.into_iter().filter(|_| kind == AccountKind::Key);
            of_keys.chain([after, limit]).collect()
        }
        AccountAction::Make => json!([]),
        AccountAction::Remove => json!([id, query("version", "refused if it has another one by now", "integer")]),
        AccountAction::Show | AccountAction::Set | AccountAction::Rotate => json!([id]),
    }
}

fn json_of(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// The schemas of the configuration's tables.
fn config_schemas() -> Value {
    let mut schema: Value = serde_json::from_str(&config::schema()).unwrap_or_default();
    schema["definitions"].take()
}

/// The keys of `[limits]`.
fn limits() -> Value {
    in_components(&config_schemas()["Limits"]["properties"])
}

/// A schema of the configuration as one of the API, where no value is a variable, and null takes one away.
fn in_components(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| match member {
                Value::String(place) if name == "$ref" => {
                    (name.clone(), json!(place.replace("#/definitions/", "#/components/schemas/")))
                }
                _ => (name.clone(), in_components(member)),
            };
            members.iter().filter(|(name, _)| *name != "default").map(member).collect()
        }
        Value::Array(items) => items.iter().filter(|item| item["pattern"] != "\\$\\{").map(in_components).collect(),
        other => other.clone(),
    }
}

/// An object with these further properties; of a change each may be null.
fn with(object: &Value, properties: &Value) -> Value {
    let mut whole = object.clone();
    for (name, property) in properties.as_object().into_iter().flatten() {
        whole["properties"][name] = json!({ "anyOf": [property, { "type": "null" }] });
    }
    whole
}
