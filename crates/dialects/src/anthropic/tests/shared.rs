//! Parts and turns for the tests of requests.

use super::*;
use photofinish_wire::conversation::{ConversationTurn, MessagePart, Role, Tool, ToolCall, ToolResult};

pub(super) const OLD: &str = "claude-sonnet-4-5";
pub(super) const NEW: &str = "claude-opus-4-8";

pub(super) fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

pub(super) fn turn(role: Role, parts: Vec<MessagePart>) -> ConversationTurn {
    ConversationTurn { role, parts }
}

pub(super) fn user(words: &str) -> ConversationTurn {
    turn(Role::User, vec![text(words)])
}

pub(super) fn call(id: &str, arguments: &str) -> MessagePart {
    MessagePart::Call(ToolCall {
        id: id.to_owned(),
        name: "get".to_owned(),
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    })
}

pub(super) fn result(id: &str, parts: Vec<MessagePart>) -> MessagePart {
    MessagePart::Result(ToolResult { call_id: id.to_owned(), parts, ..ToolResult::default() })
}

pub(super) fn tool(name: &str) -> Tool {
    Tool { name: name.to_owned(), ..Tool::default() }
}

/// One question, changed by `change`.
pub(super) fn asked(change: impl FnOnce(&mut Conversation)) -> Conversation {
    let mut conversation = Conversation { turns: vec![user("Hi")], ..Conversation::default() };
    change(&mut conversation);
    conversation
}

pub(super) fn messages(turns: Vec<ConversationTurn>) -> Value {
    request_for(OLD, &Conversation { turns, ..Conversation::default() }).0["messages"].take()
}
