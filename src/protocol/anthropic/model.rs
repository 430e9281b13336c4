//! What a model behind the Messages API takes, by its name.
//!
//! A name that is no Claude's says nothing: such a server is taken to follow the rules that held longest.

use crate::protocol::claude::Claude;

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `enabled` with a budget in tokens.
    Budget,
    /// Either.
    Both,
    /// `adaptive` with an effort; sampling options are refused.
    Adaptive,
}

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaudeModel {
    pub style: Style,
    /// It takes `output_config.format` and strict tools.
    pub takes_schemas: bool,
    /// It takes `system` turns in the middle of a conversation.
    pub takes_system_turns: bool,
    /// Its thinking can be switched off.
    pub may_not_think: bool,
    /// It can be told to think.
    pub thinks: bool,
    /// It refuses `temperature` and `top_p` together.
    pub wants_one_of_both: bool,
    /// Tokens that one answer may have, where that is known.
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

/// Whether two names tell the same of their models.
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
