//! How much thinking may be requested from a Claude, and when none may be requested. The same for Anthropic and
//! Bedrock.

use serde_json::Value;

use crate::translate::signature::{SignatureOwner, own};
use crate::translate::{Conversation, ConversationTurn, Effort, MessagePart, Reasoning, ReasoningPart, Role};

/// The vendor's minimum budget, in tokens.
const BUDGET_MIN: u64 = 1_024;
/// Tokens left for the answer if the caller set a budget but no limit.
const ANSWER: u64 = 4_096;

/// The signature with which a thinking block can be sent back: only Anthropic's own.
pub fn signed(thinking: &ReasoningPart) -> Option<&str> {
    own(SignatureOwner::Anthropic, thinking.signature.as_deref()?)
}

/// The budget that fits below the limit: a requested budget up to the limit, the budget of an effort up to half of it.
/// None if the minimum does not fit. `most` is the model's own limit, if known.
pub fn budget(asked: &Reasoning, max_tokens: Option<u64>, most: Option<u64>) -> Option<u64> {
    let budget = asked.budget.unwrap_or_else(|| asked.effort.unwrap_or(Effort::Medium).budget());
    // A higher limit is cut to the model's.
    let max_tokens = max_tokens.map(|limit| limit.min(most.unwrap_or(u64::MAX)));
    let room = match (max_tokens, most, asked.budget) {
        (Some(limit), _, Some(_)) => limit.saturating_sub(1),
        (None, Some(most), Some(_)) => most.saturating_sub(ANSWER),
        (Some(limit), _, None) | (None, Some(limit), None) => (limit / 2).max(BUDGET_MIN.min(limit.saturating_sub(1))),
        (None, None, _) => u64::MAX,
    };
    (room >= BUDGET_MIN).then(|| budget.clamp(BUDGET_MIN, room))
}

/// True if the last turn answers calls of a turn without signed thoughts. Models with budgets then refuse to think.
pub fn continues_without_thoughts(conversation: &Conversation) -> bool {
    let turns = conversation.turns.iter().rev().skip_while(|turn| turn.role != Role::Assistant);
    // Neighbours become one turn.
    let last: Vec<&ConversationTurn> = turns.take_while(|turn| turn.role == Role::Assistant).collect();
    let any = |says: fn(&MessagePart) -> bool| last.iter().flat_map(|turn| &turn.parts).any(says);
    any(|part| matches!(part, MessagePart::Call(_)))
        && !any(|part| matches!(part, MessagePart::Thinking(thinking) if signed(thinking).is_some()))
}

/// True if the caller wrote the beginning of the answer, which cannot have thoughts. `messages`: the messages to send.
pub fn is_begun(messages: &[Value]) -> bool {
    messages.last().is_some_and(|message| message["role"] == "assistant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_leave_room_for_the_answer() {
        let effort = Reasoning { effort: Some(Effort::High), ..Reasoning::default() };
        let asked = |budget| Reasoning { budget: Some(budget), ..Reasoning::default() };
        let table = [
            (&effort, None, None, Some(16_384)),
            (&effort, None, Some(64_000), Some(16_384)),
            (&effort, None, Some(20_000), Some(10_000)),
            (&effort, Some(16_385), None, Some(8_192)),
            (&effort, Some(1_500), None, Some(1_024)),
            (&effort, Some(1_024), None, None),
            (&asked(9_000), Some(5_000), Some(64_000), Some(4_999)),
            (&asked(90_000), None, Some(64_000), Some(59_904)),
            (&asked(90_000), None, None, Some(90_000)),
            (&asked(1), None, None, Some(1_024)),
            (&asked(90_000), Some(100_000), Some(64_000), Some(63_999)),
        ];
        for (asked, limit, most, expected) in table {
            assert_eq!(budget(asked, limit, most), expected, "{asked:?} {limit:?} {most:?}");
        }
    }
}
