//! What a refusal teaches: the next request to that upstream goes without the member that it does not take.

use super::changes::{RequestChanges, rename};
use crate::json::raw_members::{RawMembers, raw_members, written};
use crate::translate::Losses;

/// A member that an upstream does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalLesson {
    pub name: String,
    /// Only with this value, as JSON text.
    pub value: Option<String>,
}

/// Members without which a request is still what the client asks. No content, no tools, no bound and no form of the answer.
const LEFT_OUT: [&str; 22] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "metadata",
    "min_p",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "repetition_penalty",
    "safety_identifier",
    "seed",
    "service_tier",
    "temperature",
    "thinking",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
];

/// The two names of one limit: where one is refused, the other is sent.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The body without what these refusals were about, and what is lost. None: it has nothing of it.
pub fn without(body: &[u8], lessons: &[RefusalLesson]) -> Option<(String, Losses)> {
    let mut members = raw_members(body)?;
    let mut losses = Losses::default();
    let changed = lessons.iter().fold(false, |changed, lesson| apply(lesson, &mut members, &mut losses) | changed);
    changed.then(|| (written(&members), losses))
}

fn apply(lesson: &RefusalLesson, members: &mut RawMembers<'_>, losses: &mut Losses) -> bool {
    let name = lesson.name.as_str();
    let is_its = |text: &str| text != "null" && lesson.value.as_ref().is_none_or(|value| value == text);
    if !members.iter().any(|(member, text)| member == name && is_its(text)) {
        return false;
    }
    if let Some(other) = LIMITS.iter().position(|limit| *limit == name).map(|at| LIMITS[1 - at]) {
        return rename(members, name, other);
    }
    if !LEFT_OUT.contains(&name) {
        return false;
    }
    let drop = RequestChanges { refused: vec![name.to_owned()], ..RequestChanges::default() };
    drop.apply(false, members, losses)
}
