//! Free-form tools, which take one text instead of JSON. For an upstream that supports only functions, such a tool
//! becomes a function with one string, and its calls become free-form again. For a caller that supports only functions,
//! a free-form call becomes a call of such a function.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{AnswerPiece, Conversation, Losses, MessagePart, Tool};
use crate::json::values::json;

/// The function's only parameter.
const INPUT: &str = "input";

/// The conversation with functions instead of free-form tools, and their names. None if there are no free-form tools.
pub fn as_functions(conversation: &Conversation, losses: &mut Losses) -> Option<(Conversation, HashSet<String>)> {
    let names: HashSet<String> =
        conversation.tools.iter().filter(|tool| tool.custom).map(|tool| tool.name.clone()).collect();
    let is_custom = |part: &MessagePart| match part {
        MessagePart::Call(call) => call.custom,
        MessagePart::Result(result) => result.custom,
        _ => false,
    };
    if names.is_empty() && !conversation.turns.iter().flat_map(|turn| &turn.parts).any(is_custom) {
        return None;
    }
    let mut plain = conversation.clone();
    for (at, tool) in plain.tools.iter_mut().enumerate().filter(|(_, tool)| tool.custom) {
        as_function(at, tool, losses);
    }
    for part in plain.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            MessagePart::Call(call) if call.custom => {
                call.custom = false;
                call.arguments = json!({ INPUT: call.arguments }).to_string();
            }
            MessagePart::Result(result) => result.custom = false,
            _ => {}
        }
    }
    Some((plain, names))
}

fn as_function(at: usize, tool: &mut Tool, losses: &mut Losses) {
    tool.custom = false;
    if let Some(format) = tool.format.take().filter(|format| format["type"] != "text") {
        // The model reads the grammar and mostly follows it, but nothing enforces it.
        losses.lose(format!("tools[{at}].format"));
        let grammar = format.get("definition").or(format.get("grammar").and_then(|inner| inner.get("definition")));
        let grammar = grammar.and_then(Value::as_str).unwrap_or_default();
        let description = tool.description.get_or_insert_default();
        description.push_str(&format!("\nThe input must match this grammar:\n{grammar}"));
    }
    tool.parameters = Some(json!({
        "type": "object",
        "properties": { INPUT: { "type": "string", "description": "The whole input, as plain text." } },
        "required": [INPUT],
        "additionalProperties": false,
    }));
}

/// Turns calls of some functions into free-form calls, or, for a caller that supports only functions, the reverse. One
/// per stream.
#[derive(Debug, Default)]
pub struct Customs {
    names: HashSet<String>,
    /// The caller supports only functions.
    functions_only: bool,
    /// The arguments so far of calls that are turned, by choice and number. They are complete at the end of the call.
    open: HashMap<(u32, u32), String>,
}

impl Customs {
    pub fn new(names: HashSet<String>) -> Customs {
        Customs { names, ..Customs::default() }
    }

    /// For a caller that supports only functions.
    pub fn for_functions() -> Customs {
        Customs { functions_only: true, ..Customs::default() }
    }

    /// Passes on `piece`, or its replacement, or nothing yet.
    pub fn pass(&mut self, piece: AnswerPiece, mut out: impl FnMut(AnswerPiece)) {
        match piece {
            AnswerPiece::Call { index, call, id, name, custom, signature }
                if self.functions_only && custom || self.names.contains(&name) =>
            {
                self.open.insert((index, call), String::new());
                out(AnswerPiece::Call { index, call, id, name, custom: !self.functions_only, signature });
            }
            AnswerPiece::Arguments { index, call, text } => match self.open.get_mut(&(index, call)) {
                Some(arguments) => arguments.push_str(&text),
                None => out(AnswerPiece::Arguments { index, call, text }),
            },
            AnswerPiece::CallEnd { index, call } => {
                let arguments = self.open.remove(&(index, call)).map(|arguments| self.turned(arguments));
                if let Some(text) = arguments.filter(|text| !text.is_empty()) {
                    out(AnswerPiece::Arguments { index, call, text });
                }
                out(AnswerPiece::CallEnd { index, call });
            }
            other => out(other),
        }
    }

    fn turned(&self, arguments: String) -> String {
        if self.functions_only {
            return json!({ INPUT: arguments }).to_string();
        }
        let input = serde_json::from_str::<Value>(&arguments).ok();
        let text = input.as_ref().and_then(|value| value.get(INPUT)).and_then(Value::as_str).map(str::to_owned);
        // The model may ignore the declared parameter and write something else.
        text.unwrap_or(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{ConversationTurn, Role, ToolCall};

    #[test]
    fn a_free_form_tool_goes_up_as_a_function() {
        let call = ToolCall {
            id: "c".into(),
            name: "patch".into(),
            arguments: "a\n\"b\"".into(),
            custom: true,
            ..ToolCall::default()
        };
        let tool = Tool {
            name: "patch".into(),
            custom: true,
            format: Some(json!({ "type": "grammar", "syntax": "lark", "definition": "start: X" })),
            ..Tool::default()
        };
        let turns = vec![ConversationTurn { role: Role::Assistant, parts: vec![MessagePart::Call(call)] }];
        let conversation = Conversation { tools: vec![Tool::default(), tool], turns, ..Conversation::default() };
        let mut losses = Losses::default();
        let (plain, names) = as_functions(&conversation, &mut losses).unwrap();
        assert!(names.contains("patch") && names.len() == 1);
        assert_eq!((losses.names().collect::<Vec<_>>(), losses.keeps_settings()), (vec!["tools[1].format"], true));
        assert!(plain.tools[1].description.as_deref().unwrap().contains("start: X"));
        assert_eq!(plain.tools[1].parameters.as_ref().unwrap()["required"], json!(["input"]));
        let MessagePart::Call(call) = &plain.turns[0].parts[0] else { panic!("no call") };
        assert_eq!((call.arguments.as_str(), call.custom), (r#"{"input":"a\n\"b\""}"#, false));
        assert_eq!(as_functions(&Conversation::default(), &mut losses), None);
    }

    #[test]
    fn its_calls_come_down_free_form() {
        let arguments = |call, text: &str| AnswerPiece::Arguments { index: 0, call, text: text.into() };
        let called = |call, name: &str, custom| AnswerPiece::Call {
            index: 0,
            call,
            id: "i".into(),
            name: name.into(),
            custom,
            signature: None,
        };
        let mut customs = Customs::new(HashSet::from(["patch".to_owned()]));
        let mut got = Vec::new();
        let end = |call| AnswerPiece::CallEnd { index: 0, call };
        let said = || AnswerPiece::Text { index: 0, text: "hm".into() };
        for piece in [
            called(0, "other", false),
            arguments(0, "{}"),
            called(1, "patch", false),
            arguments(1, "{\"input\":\"a"),
            called(2, "patch", false),
            said(),
            arguments(2, "no "),
            arguments(1, "\\nb\"}"),
            end(1),
            arguments(2, "JSON"),
            end(2),
        ] {
            customs.pass(piece, |piece| got.push(piece));
        }
        let expected = [
            called(0, "other", false),
            arguments(0, "{}"),
            called(1, "patch", true),
            called(2, "patch", true),
            said(),
            arguments(1, "a\nb"),
            end(1),
            arguments(2, "no JSON"),
            end(2),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn a_free_form_call_comes_down_as_a_function_s() {
        let mut customs = Customs::for_functions();
        let mut got = Vec::new();
        let called = |custom| AnswerPiece::Call {
            index: 0,
            call: 0,
            id: "i".into(),
            name: "patch".into(),
            custom,
            signature: None,
        };
        let arguments = |text: &str| AnswerPiece::Arguments { index: 0, call: 0, text: text.into() };
        let end = AnswerPiece::CallEnd { index: 0, call: 0 };
        for piece in [called(true), arguments("a\n"), arguments("\"b\""), end.clone()] {
            customs.pass(piece, |piece| got.push(piece));
        }
        assert_eq!(got, [called(false), arguments(r#"{"input":"a\n\"b\""}"#), end]);
    }
}
