//! Tools of a namespace over other dialects.

use serde_json::{Value, json};

use super::{conversation_of, datas, event};
use crate::translate::request::RequestTranslation;
use crate::translate::response::ResponseTranslation;
use photofinish_wire::conversation::{MessagePart, ToolNames};
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::quirks::TranslationOptions;

fn with_tools(namespaces: &Value) -> Value {
    json!({ "model": "m", "input": "hi", "tools": namespaces })
}

fn namespace(name: &str, tools: &[&str]) -> Value {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({ "type": "function", "name": name, "parameters": {} })).collect();
    json!({ "type": "namespace", "name": name, "description": "all of it", "tools": tools })
}

/// The items of an answer in which an upstream of the chat dialect calls this tool.
fn items_of_a_call(body: &Value, name: &str) -> Vec<Value> {
    let conversation = conversation_of(body);
    let options = TranslationOptions::default();
    let request = RequestTranslation::translated(Surface::Responses, &conversation, Dialect::OpenAi, &options).unwrap();
    let mut translation = ResponseTranslation::new(&request, "asked", false);
    let call = json!({ "index": 0, "id": "c1", "type": "function", "function": { "name": name, "arguments": "{}" } });
    let chunk = json!({ "id": "a", "model": "m", "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
    let mut out = translation.pass(event(&chunk.to_string())).to_vec();
    out.extend(translation.ending());
    let datas = datas(&out);
    let mut items: Vec<Value> =
        datas.iter().filter(|data| data["item"].is_object()).map(|data| data["item"].clone()).collect();
    items.extend(datas.last().unwrap()["response"]["output"].as_array().unwrap().clone());
    items
}

#[test]
fn a_tool_of_a_namespace_has_both_names() {
    let mcp = json!({ "type": "mcp", "server_url": "https://a" });
    let mut sky = namespace("mcp__sky", &["weather"]);
    sky["tools"].as_array_mut().unwrap().extend([json!({ "type": "custom", "name": "note" }), mcp]);
    let read = conversation_of(&with_tools(&json!([{ "type": "function", "name": "f" }, sky])));
    let tools: Vec<(&str, bool)> = read.tools.iter().map(|tool| (tool.name.as_str(), tool.custom)).collect();
    assert_eq!(tools, [("f", false), ("mcp__sky__weather", false), ("mcp__sky__note", true)]);
    assert_eq!(read.losses.names().collect::<Vec<_>>(), ["mcp", "tools[1].description"]);
}

#[test]
fn an_earlier_call_has_the_name_of_its_tool() {
    let mut body = with_tools(&json!([namespace("mcp__sky", &["weather"])]));
    body["input"] = json!([
        { "type": "function_call", "call_id": "c", "name": "weather", "namespace": "mcp__sky", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": "sunny" },
    ]);
    let read = conversation_of(&body);
    let parts = read.turns.iter().flat_map(|turn| &turn.parts);
    let names = parts.map(|part| match part {
        MessagePart::Call(call) => Some(call.name.as_str()),
        MessagePart::Result(result) => result.name.as_deref(),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), [Some("mcp__sky__weather"); 2]);
}

#[test]
fn a_call_gets_the_tool_s_own_names_back() {
    let body = with_tools(&json!([{ "type": "function", "name": "f" }, namespace("mcp__sky", &["weather"])]));
    let items = items_of_a_call(&body, "mcp__sky__weather");
    assert_eq!(items.len(), 3, "{items:?}");
    for item in items {
        assert_eq!((&item["namespace"], &item["name"]), (&json!("mcp__sky"), &json!("weather")), "{item}");
    }
    for name in ["f", "mcp__sky__unknown"] {
        for item in items_of_a_call(&body, name) {
            assert_eq!((item.get("namespace"), &item["name"]), (None, &json!(name)), "{item}");
        }
    }
}

#[test]
fn a_model_may_call_a_tool_by_its_own_name() {
    let two = with_tools(
        &json!([namespace("a", &["read", "both"]), namespace("b", &["both", "f"]), { "type": "function", "name": "f" }]),
    );
    for (called, namespace) in [("read", Some("a")), ("a__both", Some("a")), ("both", None), ("f", None)] {
        for item in items_of_a_call(&two, called) {
            assert_eq!(item.get("namespace").and_then(Value::as_str), namespace, "{item}");
            assert_eq!(item["name"], called.trim_start_matches("a__"));
        }
    }
}

#[test]
fn a_long_name_is_shortened_and_found_again() {
    let long = ["w".repeat(60), format!("{}x", "w".repeat(60)), "é".repeat(40)];
    let body = with_tools(&json!([namespace("mcp__sky", &long.each_ref().map(String::as_str))]));
    let (sent, _) = ToolNames::fit(&conversation_of(&body), 64).unwrap();
    let names: std::collections::BTreeSet<&str> = sent.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.len() == 3 && names.iter().all(|name| name.len() <= 64), "{names:?}");
    for (tool, own) in sent.tools.iter().zip(long) {
        assert_eq!(items_of_a_call(&body, &tool.name)[0]["name"], json!(own));
    }
}

#[test]
fn names_are_known_where_the_tools_are_too_long_to_repeat() {
    let mut sky = namespace("mcp__sky", &["weather"]);
    sky["tools"][0]["description"] = "x".repeat(300 << 10).into();
    let body = with_tools(&json!([sky]));
    let names =
        json!([{ "type": "namespace", "name": "mcp__sky", "tools": [{ "type": "function", "name": "weather" }] }]);
    assert_eq!(conversation_of(&body).echo.get("tools"), Some(&names));
    assert_eq!(items_of_a_call(&body, "mcp__sky__weather")[0]["namespace"], "mcp__sky");
}

#[test]
fn additional_tools_of_the_input_are_tools() {
    let mut body = with_tools(&json!([{ "type": "tool_search" }]));
    let tools = [namespace("functions", &["read_file"]), json!({ "type": "custom", "name": "exec" })];
    body["input"] = json!([{ "type": "additional_tools", "role": "developer", "tools": tools }, { "role": "user", "content": "x" }]);
    body["reasoning"] = json!({ "effort": "low", "context": "current_turn" });
    let read = conversation_of(&body);
    let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["functions__read_file", "exec"]);
    assert!(read.losses.keeps_content() && read.turns.len() == 1, "{:?}", read.losses);
    assert_eq!(items_of_a_call(&body, "functions__read_file")[0]["namespace"], "functions");
}

/// What Codex sends with `gpt-5.5`: its MCP servers are found by a search.
fn with_search() -> Value {
    let search =
        json!({ "type": "tool_search", "execution": "client", "description": "d", "parameters": { "type": "object" } });
    let mut body = with_tools(&json!([{ "type": "function", "name": "f" }, search, { "type": "web_search" }]));
    body["client_metadata"] = json!({ "x-codex-window-id": "w" });
    body
}

#[test]
fn a_search_for_tools_is_a_function_and_its_call_a_search_again() {
    let read = conversation_of(&with_search());
    let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["f", "tool_search"]);
    let items = items_of_a_call(&with_search(), "tool_search");
    assert_eq!(items.len(), 3, "{items:?}");
    for item in items {
        let said = ["type", "execution", "call_id", "arguments"].map(|name| item[name].clone());
        assert_eq!(json!(said), json!(["tool_search_call", "client", "c1", {}]));
    }
    // Without such a tool it is a function like any other.
    let body = with_tools(&json!([{ "type": "function", "name": "tool_search" }]));
    assert_eq!(items_of_a_call(&body, "tool_search")[0]["type"], "function_call");
}

#[test]
fn the_client_s_shell_is_a_function_and_its_call_a_shell_s_again() {
    let mut body = with_tools(&json!([{ "type": "local_shell" }]));
    body["input"] = json!([
        { "role": "user", "content": "list" },
        { "type": "local_shell_call", "id": "lsh_1", "call_id": "c0", "status": "completed",
            "action": { "type": "exec", "command": ["ls"], "env": {} } },
        { "type": "local_shell_call_output", "id": "lsh_1", "output": "a.txt" },
        { "type": "local_shell_call", "id": "lsh_2", "call_id": "c1", "action": { "type": "exec", "command": ["id"] } },
        { "type": "function_call_output", "call_id": "c1", "output": "me" },
    ]);
    let read = conversation_of(&body);
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    assert_eq!((read.tools.len(), read.tools[0].name.as_str()), (1, "local_shell"));
    let said = read.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        MessagePart::Call(call) => Some(format!("{} {} {}", call.id, call.name, call.arguments)),
        MessagePart::Result(result) => Some(format!("{} {:?}", result.call_id, result.name.as_deref())),
        _ => None,
    });
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            r#"c0 local_shell {"command":["ls"],"env":{}}"#,
            r#"c0 Some("local_shell")"#,
            r#"c1 local_shell {"command":["id"]}"#,
            r#"c1 Some("local_shell")"#,
        ]
    );
    let items = items_of_a_call(&with_tools(&json!([{ "type": "local_shell" }])), "local_shell");
    assert_eq!(items.len(), 3, "{items:?}");
    for item in items {
        let said = ["type", "call_id", "action"].map(|name| item[name].clone());
        assert_eq!(json!(said), json!(["local_shell_call", "c1", { "type": "exec" }]));
    }
    // Without such a tool it is a function like any other.
    let body = with_tools(&json!([{ "type": "function", "name": "local_shell" }]));
    assert_eq!(items_of_a_call(&body, "local_shell")[0]["type"], "function_call");
}

#[test]
fn what_a_search_found_are_tools_and_what_vendors_ran_is_left_out() {
    let mut body = with_search();
    let sky = namespace("mcp__sky", &["weather"]);
    body["input"] = json!([
        { "role": "user", "content": "x" },
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": "q" } },
        { "type": "tool_search_call", "call_id": "c", "execution": "client", "status": "completed", "arguments": { "query": "sky" } },
        { "type": "tool_search_output", "call_id": "c", "execution": "client", "status": "completed", "tools": [sky] },
    ]);
    let read = conversation_of(&body);
    let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["f", "tool_search", "mcp__sky__weather"]);
    let parts: Vec<&MessagePart> = read.turns.iter().skip(1).flat_map(|turn| &turn.parts).collect();
    let [MessagePart::Call(call), MessagePart::Result(result)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("tool_search", r#"{"query":"sky"}"#));
    let text = MessagePart::Text { text: r#"{"tools":["mcp__sky__weather"]}"#.to_owned(), cache: None };
    assert_eq!((result.call_id.as_str(), &result.parts), ("c", &vec![text]));
    assert_eq!(items_of_a_call(&body, "mcp__sky__weather")[0]["namespace"], "mcp__sky");
    let lost: Vec<&str> = read.losses.names().collect();
    assert!(
        read.losses.keeps_settings() && lost.contains(&"web_search") && lost.contains(&"web_search_call"),
        "{lost:?}"
    );
}

#[test]
fn a_hosted_tool_that_somebody_else_asks_for_decides_who_may_answer() {
    let mut body = with_search();
    body.as_object_mut().unwrap().remove("client_metadata");
    assert!(!conversation_of(&body).losses.keeps_settings());
}
