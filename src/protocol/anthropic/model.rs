//! The options that a model of the Messages API accepts, by its name.
//!
//! For a name that is not a Claude, the oldest rules apply.

use crate::protocol::claude::Claude;

/// How thinking is requested from a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `enabled`, with a budget in tokens.
    Budget,
    /// Either.
    Both,
    /// `adaptive`, with an effort. Sampling options are refused.
    Adaptive,
}

/// The known limits of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaudeModel {
    pub style: Style,
    /// Accepts `output_config.format` and strict tools.
    pub takes_schemas: bool,
    /// Accepts `system` turns in the middle of a conversation.
    pub takes_system_turns: bool,
    /// Thinking can be switched off.
    pub may_not_think: bool,
    /// Supports thinking.
    pub thinks: bool,
    /// Refuses `temperature` together with `top_p`.
    pub wants_one_of_both: bool,
    /// Maximum tokens of one answer, if known.
    pub most_tokens: Option<u64>,
}

impl ClaudeModel {
    pub fn of(name: &str) -> ClaudeModel {
        let Some(claude) = Claude::of(name) else {
            return ClaudeModel {
                style: Style::Budget,
                takes_schemas: true,
                takes_system_turns: false,
                may_not_think: true,
                thinks: true,
                wants_one_of_both: false,
                most_tokens: None,
            };
        };
        let style = match (claude.wants_budget(), claude.is_adaptive()) {
            (true, _) => Style::Budget,
            (false, true) => Style::Adaptive,
            (false, false) => Style::Both,
        };
        ClaudeModel {
            style,
            takes_schemas: claude.version >= (4, 1),
            takes_system_turns: claude.version >= (4, 8),
            may_not_think: claude.may_not_think,
            thinks: claude.thinks(),
            wants_one_of_both: claude.wants_one_of_both(),
            most_tokens: Some(claude.most_tokens),
        }
    }
}

/// Whether requests for two models have the same form.
pub fn writes_alike(one: &str, other: &str) -> bool {
    ClaudeModel::of(one) == ClaudeModel::of(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_model_takes() {
        let table: &[(&str, Style, bool, bool)] = &[
            ("claude-3-7-sonnet-20250219", Style::Budget, false, false),
            ("claude-3-haiku", Style::Budget, false, false),
            ("claude-sonnet-4-20250514", Style::Budget, false, false),
            ("claude-sonnet-4-0", Style::Budget, false, false),
            ("claude-opus-4-1-20250805", Style::Budget, true, false),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Style::Budget, true, false),
            ("anthropic/claude-opus-4.6", Style::Both, true, false),
            ("claude-opus-4-7", Style::Adaptive, true, false),
            ("claude-opus-4-8", Style::Adaptive, true, true),
            ("claude-sonnet-5", Style::Adaptive, true, true),
            ("claude-fable-5-1", Style::Adaptive, true, true),
            ("claude-mythos-preview", Style::Adaptive, true, true),
            ("glm-5.1", Style::Budget, true, false),
        ];
        for (name, style, schemas, system) in table {
            let model = ClaudeModel::of(name);
            assert_eq!(
                (model.style, model.takes_schemas, model.takes_system_turns),
                (*style, *schemas, *system),
                "{name}"
            );
        }
        assert!(!ClaudeModel::of("claude-fable-5").may_not_think && ClaudeModel::of("claude-opus-5").may_not_think);
    }
}
