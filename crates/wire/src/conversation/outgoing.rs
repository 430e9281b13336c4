//! Shared by dialects that write requests: losses, tool schemas, arguments as objects, the order of turns. Not for
//! losses of a single dialect.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::conversation::{
    CacheHint, Conversation, ConversationTurn, Effort, Image, Losses, MessagePart, Reasoning, Role, Sampling, Tool,
    ToolCall,
};
use crate::json::numbers::object;
use crate::json::values::{PutMember, json};

/// Name and description of a function, for a dialect without strict and free-form tools; the dialect adds the
/// parameters. None if the tool cannot be offered. `at`: its index.
pub fn function(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Map<String, Value>> {
    if tool.custom {
        return losses.part(format!("tools[{at}]"));
    }
    losses.lose_if(tool.strict == Some(true), "tools.strict");
    lose_cache(tool.cache.as_ref(), losses);
    let mut function = Map::new();
    function.put("name", Some(tool.name.as_str()));
    function.put("description", tool.description.as_deref());
    Some(function)
}

/// Losses of a dialect without users, metadata, tiers and verbosity.
pub fn lose_extras(conversation: &Conversation, losses: &mut Losses) {
    losses.lose_if(conversation.user.is_some(), conversation.user_member());
    lose_metadata(conversation, losses);
    lose_tier(conversation, losses);
    lose_verbosity(conversation, losses);
}

pub fn lose_tier(conversation: &Conversation, losses: &mut Losses) {
    let tier = conversation.service_tier.as_deref();
    losses.lose_if(tier.is_some_and(|tier| !matches!(tier, "auto" | "default")), "service_tier");
}

pub fn lose_metadata(conversation: &Conversation, losses: &mut Losses) {
    losses.lose_if(conversation.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty()), "metadata");
}

pub fn lose_verbosity(conversation: &Conversation, losses: &mut Losses) {
    losses.lose_if(conversation.verbosity.as_deref().is_some_and(|verbosity| verbosity != "medium"), "verbosity");
}

/// Losses of a dialect that streams one answer without log probabilities.
pub fn lose_choices(sampling: &Sampling, losses: &mut Losses) {
    let says_something =
        |value: &Value| !value.is_null() && value.as_object().is_none_or(|members| !members.is_empty());
    losses.lose_if(sampling.n.is_some_and(|n| n > 1), "n");
    losses.lose_if(sampling.logprobs == Some(true), "logprobs");
    losses.lose_if(sampling.top_logprobs.is_some_and(|count| count > 0), "top_logprobs");
    losses.lose_if(sampling.logit_bias.as_ref().is_some_and(says_something), "logit_bias");
}

/// Losses of a dialect without penalties and seeds.
pub fn lose_penalties(sampling: &Sampling, losses: &mut Losses) {
    let is_set = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    losses.lose_if(is_set(sampling.presence_penalty), "presence_penalty");
    losses.lose_if(is_set(sampling.frequency_penalty), "frequency_penalty");
    losses.lose_if(sampling.seed.is_some(), "seed");
}

/// Losses of a dialect whose schemas of answers have no names.
pub fn lose_schema_names(name: &Option<String>, description: &Option<String>, losses: &mut Losses) {
    losses.lose_if(name.is_some(), "response_format.json_schema.name");
    losses.lose_if(description.is_some(), "response_format.json_schema.description");
}

/// Loss of a hint to cache, if there is one.
pub fn lose_cache(hint: Option<&CacheHint>, losses: &mut Losses) {
    losses.lose_if(hint.is_some(), "cache_control");
}

/// Loss of the detail of an image.
pub fn lose_detail(image: &Image, losses: &mut Losses) {
    losses.lose_if(image.detail.as_deref().is_some_and(|detail| detail != "auto"), "image_url.detail");
}

/// The texts of a system prompt, for a dialect without cache hints.
pub fn system_texts<'a>(parts: &'a [MessagePart], losses: &mut Losses) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for part in parts {
        lose_cache(part.cache(), losses);
        match part {
            MessagePart::Text { text, .. } => texts.push(text.as_str()),
            _ => losses.lose("system"),
        }
    }
    texts
}

/// A tool's parameter schema, for a vendor that requires the type `object`.
pub fn object_schema(tool: &Tool) -> Value {
    let mut schema = match &tool.parameters {
        Some(Value::Object(schema)) => schema.clone(),
        _ => Map::new(),
    };
    schema.entry("type").or_insert_with(|| Value::from("object"));
    Value::Object(schema)
}

/// The functions called or answered in a conversation, each once. Some vendors refuse calls in the history without
/// declared tools.
pub fn called_names(conversation: &Conversation) -> Vec<&str> {
    let mut known = HashSet::new();
    let parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    let names = parts.filter_map(|part| match part {
        MessagePart::Call(call) => Some(call.name.as_str()),
        MessagePart::Result(result) => result.name.as_deref(),
        _ => None,
    });
    names.filter(|name| !name.is_empty() && known.insert(*name)).collect()
}

/// The arguments of a call as an object. Other text is wrapped in one.
pub fn arguments(call: &ToolCall) -> Value {
    let object = if call.custom { None } else { object(call.arguments.as_bytes()) };
    match object {
        Some(object) => Value::Object(object),
        None if call.arguments.trim().is_empty() => json!({}),
        None => json!({ "input": call.arguments }),
    }
}

/// Reorders turns so that results directly follow their calls: a system turn in between moves after them.
pub fn results_first(turns: &[ConversationTurn]) -> Vec<&ConversationTurn> {
    let parts = turns.iter().flat_map(|turn| &turn.parts);
    let answered: HashSet<&str> = parts
        .filter_map(|part| match part {
            MessagePart::Result(result) => Some(result.call_id.as_str()),
            _ => None,
        })
        .collect();
    let (mut ordered, mut held, mut open) = (Vec::with_capacity(turns.len()), Vec::new(), HashSet::new());
    let mut before = None;
    for turn in turns {
        if turn.role == Role::System && !open.is_empty() {
            held.push(turn);
            continue;
        }
        // A new answer begins, so earlier calls are over.
        if turn.role == Role::Assistant && before != Some(Role::Assistant) {
            open.clear();
            ordered.append(&mut held);
        }
        for part in &turn.parts {
            match part {
                MessagePart::Call(call) if answered.contains(call.id.as_str()) => drop(open.insert(call.id.as_str())),
                MessagePart::Result(result) => drop(open.remove(result.call_id.as_str())),
                _ => {}
            }
        }
        before = Some(turn.role);
        ordered.push(turn);
        if open.is_empty() {
            ordered.append(&mut held);
        }
    }
    ordered.append(&mut held);
    ordered
}

/// Keywords that OpenAI's strict mode does not accept.
const NOT_STRICT: [&str; 9] =
    ["allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "dependentRequired", "dependentSchemas"];

/// Whether OpenAI's strict mode accepts a schema: every object is closed, and all its properties are required.
pub fn fits_strict(schema: &Value) -> bool {
    schema["type"] == "object" && is_closed(schema)
}

fn is_closed(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return true };
    let is_object = match members.get("type") {
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object") || members.contains_key("properties"),
    };
    let named = |name: &str| members.get(name).and_then(Value::as_object).into_iter().flatten();
    let required = |name: &str| {
        members.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|listed| listed == name))
    };
    if NOT_STRICT.iter().any(|name| members.contains_key(*name)) {
        return false;
    }
    if is_object
        && (members.get("additionalProperties") != Some(&Value::Bool(false))
            || !named("properties").all(|(name, _)| required(name)))
    {
        return false;
    }
    let inner = ["properties", "$defs", "definitions"].into_iter().flat_map(named).map(|(_, schema)| schema);
    let listed = ["anyOf", "prefixItems"].into_iter().filter_map(|name| members.get(name)?.as_array()).flatten();
    inner.chain(listed).chain(members.get("items")).all(is_closed)
}

/// `strict` as OpenAI accepts it for this schema. Reports the loss if the schema does not fit.
pub fn strict_of(strict: Option<bool>, schema: &Value, losses: &mut Losses) -> Option<bool> {
    let kept = strict.map(|strict| strict && fits_strict(schema));
    losses.lose_if(kept != strict, "strict");
    kept
}

/// The effort for a vendor without budgets and without a switch. A budget maps to an effort that every such model
/// supports. `enabled: true` alone is a medium effort, because some models do not think by default. `enabled: false` is
/// not an effort, because models without thinking refuse efforts; only an explicit effort of none is.
pub fn effort_of(reasoning: &Reasoning) -> Option<Effort> {
    let by_budget = || reasoning.budget.map(|budget| Effort::of_budget(budget).min(Effort::High));
    let given = || reasoning.effort.or_else(|| by_budget().filter(|effort| *effort != Effort::None));
    match (reasoning.effort, reasoning.enabled) {
        (Some(Effort::None), _) => Some(Effort::None),
        (_, Some(false)) => None,
        (_, Some(true)) => given().or(Some(Effort::Medium)),
        (_, None) => given(),
    }
}

/// The end user for OpenAI, unless the name is too long for it.
pub fn openai_user<'a>(conversation: &'a Conversation, losses: &mut Losses) -> Option<&'a str> {
    /// Characters of an end user's name at OpenAI.
    const CHARACTERS_MAX: usize = 64;
    let user = conversation.user.as_deref()?;
    let fits = user.chars().count() <= CHARACTERS_MAX;
    losses.lose_if(!fits, conversation.user_member());
    fits.then_some(user)
}

/// The service tier, if OpenAI has it.
pub fn openai_tier<'a>(conversation: &'a Conversation, losses: &mut Losses) -> Option<&'a str> {
    const TIERS: [&str; 5] = ["auto", "default", "flex", "scale", "priority"];
    let tier = conversation.service_tier.as_deref()?;
    let is_known = TIERS.contains(&tier);
    losses.lose_if(!is_known, "service_tier");
    is_known.then_some(tier)
}

/// An id for a call to which the vendor gave none.
pub fn new_call_id() -> String {
    format!("call_{}", uuid::Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::ToolResult;

    fn call(arguments: &str, custom: bool) -> Value {
        super::arguments(&ToolCall { arguments: arguments.to_owned(), custom, ..ToolCall::default() })
    }

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        assert_eq!(call("{\"a\":[1,{}]}", false), json!({ "a": [1, {}] }));
        for empty in ["", " \n"] {
            assert_eq!(call(empty, false), json!({}));
        }
        for odd in ["[1]", "{\"a\":", "null"] {
            assert_eq!(call(odd, false), json!({ "input": odd }), "{odd}");
        }
        assert_eq!(call("{}", true), json!({ "input": "{}" }));
    }

    #[test]
    fn system_turns_wait_for_the_results() {
        let text =
            |role| ConversationTurn { role, parts: vec![MessagePart::Text { text: "x".to_owned(), cache: None }] };
        let call = |id: &str| ConversationTurn {
            role: Role::Assistant,
            parts: vec![MessagePart::Call(ToolCall { id: id.to_owned(), ..ToolCall::default() })],
        };
        let result = |id: &str| ConversationTurn {
            role: Role::User,
            parts: vec![MessagePart::Result(ToolResult { call_id: id.to_owned(), ..ToolResult::default() })],
        };
        let (system, user, said) = (text(Role::System), text(Role::User), text(Role::Assistant));
        let (call_a, call_b, result_a, result_b) = (call("a"), call("b"), result("a"), result("b"));
        let table: [(&[&ConversationTurn], &[&ConversationTurn]); 6] = [
            (&[&call_a, &system, &result_a, &user], &[&call_a, &result_a, &system, &user]),
            (
                &[&call_a, &system, &call_b, &result_a, &system, &result_b],
                &[&call_a, &call_b, &result_a, &result_b, &system, &system],
            ),
            (&[&call_a, &system, &user, &result_a], &[&call_a, &user, &result_a, &system]),
            // It has no result.
            (&[&call_a, &system, &user], &[&call_a, &system, &user]),
            (&[&user, &system, &said], &[&user, &system, &said]),
            (
                &[&call_a, &call_b, &system, &result_a, &said, &result_b],
                &[&call_a, &call_b, &result_a, &system, &said, &result_b],
            ),
        ];
        for (given, wanted) in table {
            let turns: Vec<ConversationTurn> = given.iter().map(|turn| (*turn).clone()).collect();
            assert_eq!(results_first(&turns), wanted);
        }
    }

    #[test]
    fn strict_is_for_closed_objects_with_nothing_optional() {
        let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let good = closed(json!({ "a": { "type": ["string", "null"] } }), json!(["a"]));
        let open = json!({ "type": "object", "properties": {} });
        for (schema, fits) in [
            (good.clone(), true),
            (closed(json!({}), json!([])), true),
            (json!({}), false),
            (json!({ "type": "array", "items": good }), false),
            (open.clone(), false),
            (closed(json!({ "a": {} }), json!([])), false),
            (closed(json!({ "a": {}, "type": good }), json!(["a"])), false),
            (closed(json!({ "a": { "type": "array", "items": open } }), json!(["a"])), false),
            (closed(json!({ "a": { "anyOf": [good, { "type": "null" }] } }), json!(["a"])), true),
            (closed(json!({ "a": { "anyOf": [open, { "type": "null" }] } }), json!(["a"])), false),
            (closed(json!({ "a": { "oneOf": [good] } }), json!(["a"])), false),
            // A property may have the name of a keyword.
            (closed(json!({ "not": {} }), json!(["not"])), true),
        ] {
            let mut losses = Losses::default();
            assert_eq!(strict_of(Some(true), &schema, &mut losses), Some(fits), "{schema}");
            assert_eq!((losses.is_empty(), losses.keeps_settings()), (fits, true), "{schema}");
        }
        let mut losses = Losses::default();
        assert_eq!(strict_of(Some(false), &json!({}), &mut losses), Some(false));
        assert_eq!(strict_of(None, &json!({}), &mut losses), None);
        assert!(losses.is_empty());
    }

    #[test]
    fn a_budget_is_an_effort_that_all_models_know() {
        let none = Reasoning::default();
        for (reasoning, effort) in [
            (Reasoning { budget: Some(31_999), ..none.clone() }, Some(Effort::High)),
            (Reasoning { budget: Some(1_024), enabled: Some(true), ..none.clone() }, Some(Effort::Low)),
            (Reasoning { budget: Some(0), ..none.clone() }, None),
            (Reasoning { enabled: Some(true), ..none.clone() }, Some(Effort::Medium)),
            (Reasoning { enabled: Some(false), budget: Some(9_000), ..none.clone() }, None),
            (Reasoning { enabled: Some(false), effort: Some(Effort::High), ..none.clone() }, None),
            (Reasoning { enabled: Some(false), effort: Some(Effort::None), ..none.clone() }, Some(Effort::None)),
            (Reasoning { effort: Some(Effort::Max), ..none.clone() }, Some(Effort::Max)),
            (Reasoning { effort: Some(Effort::XHigh), budget: Some(1), ..none }, Some(Effort::XHigh)),
        ] {
            assert_eq!(effort_of(&reasoning), effort, "{reasoning:?}");
        }
    }

    #[test]
    fn defaults_lose_nothing() {
        let mut losses = Losses::default();
        let sampling = Sampling {
            n: Some(1),
            logprobs: Some(false),
            top_logprobs: Some(0),
            logit_bias: Some(json!({})),
            ..Sampling::default()
        };
        lose_choices(&sampling, &mut losses);
        let conversation = Conversation {
            metadata: Some(Map::new()),
            service_tier: Some("auto".to_owned()),
            verbosity: Some("medium".to_owned()),
            ..Conversation::default()
        };
        lose_extras(&conversation, &mut losses);
        lose_cache(None, &mut losses);
        assert!(losses.is_empty(), "{losses:?}");
    }

    #[test]
    fn what_decides_is_told_apart_from_what_helps() {
        let mut losses = Losses::default();
        let sampling = Sampling {
            n: Some(2),
            logprobs: Some(true),
            top_logprobs: Some(3),
            logit_bias: Some(json!({ "5": -100 })),
            ..Sampling::default()
        };
        lose_choices(&sampling, &mut losses);
        let conversation = Conversation {
            user: Some("u".to_owned()),
            metadata: Some([("k".to_owned(), json!("v"))].into_iter().collect()),
            service_tier: Some("flex".to_owned()),
            verbosity: Some("low".to_owned()),
            ..Conversation::default()
        };
        lose_extras(&conversation, &mut losses);
        lose_cache(Some(&CacheHint::default()), &mut losses);
        assert_eq!(losses.deciding().collect::<Vec<_>>(), ["n", "logprobs", "top_logprobs", "logit_bias"]);
        let hints: Vec<&str> = losses.names().skip(4).collect();
        assert_eq!(hints, ["service_tier", "verbosity"]);
    }
}
