//! The options that a Claude model accepts, by its name. The rules depend only on the version, wherever the model is
//! served.

pub(super) mod schema;
pub(super) mod thinking;

/// The known facts of a Claude model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claude {
    pub version: (u32, u32),
    /// Thinking can be switched off.
    pub may_not_think: bool,
    /// Maximum tokens of one answer, thinking included.
    pub most_tokens: u64,
}

impl Claude {
    /// None if the name is not a Claude.
    pub fn of(name: &str) -> Option<Claude> {
        let name = name.to_ascii_lowercase();
        let (_, words) = name.rsplit_once("claude-")?;
        let always_thinks = ["fable", "mythos"].iter().any(|family| words.starts_with(family));
        let version = version(words).unwrap_or(if always_thinks { (5, 0) } else { (3, 0) });
        let most_tokens = match version {
            (..3, _) | (3, ..5) => 4_096,
            (3, 5..7) => 8_192,
            (4, ..5) if words.contains("opus") => 32_000,
            _ => 64_000,
        };
        Some(Claude { version, may_not_think: !always_thinks, most_tokens })
    }

    /// Supports thinking.
    pub fn thinks(self) -> bool {
        self.version >= (3, 7)
    }

    /// Thinking uses a budget in tokens, and no effort.
    pub fn wants_budget(self) -> bool {
        self.version < (4, 6)
    }

    /// Decides itself how much to think, accepts no budget, and refuses sampling options.
    pub fn is_adaptive(self) -> bool {
        self.version >= (4, 7)
    }

    /// Refuses `temperature` together with `top_p`.
    pub fn wants_one_of_both(self) -> bool {
        self.version >= (4, 1)
    }
}

/// The first two numbers of a name (`opus-4-1-20250805`, `3-7-sonnet`, `sonnet-4.5`), without dates.
fn version(words: &str) -> Option<(u32, u32)> {
    let mut numbers =
        words.split(['-', '.', '@', ':']).map(|word| word.parse::<u32>().ok().filter(|number| *number < 100));
    let major = numbers.by_ref().flatten().next()?;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_version() {
        let table: &[(&str, Option<(u32, u32)>)] = &[
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-3-haiku", Some((3, 0))),
            ("claude-instant", Some((3, 0))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("us.anthropic.Claude-sonnet-4-5-20250929-v1:0", Some((4, 5))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("claude-opus-4-1@20250805", Some((4, 1))),
            ("claude-mythos-preview", Some((5, 0))),
            ("claude-fable-5-1", Some((5, 1))),
            ("glm-5.1", None),
            ("", None),
        ];
        for (name, version) in table {
            assert_eq!(Claude::of(name).map(|claude| claude.version), *version, "{name}");
        }
    }

    #[test]
    fn names_tell_how_long_an_answer_may_be() {
        let table = [
            ("claude-3-opus-20240229", 4_096, false),
            ("claude-2.1", 4_096, false),
            ("claude-3-5-sonnet-latest", 8_192, false),
            ("claude-3-7-sonnet", 64_000, true),
            ("claude-opus-4-20250514", 32_000, true),
            ("claude-sonnet-4-20250514", 64_000, true),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000, true),
            ("claude-opus-4-5", 64_000, true),
            ("claude-haiku-4-5", 64_000, true),
            ("claude-fable-5", 64_000, true),
        ];
        for (name, most, thinks) in table {
            let claude = Claude::of(name).unwrap();
            assert_eq!((claude.most_tokens, claude.thinks()), (most, thinks), "{name}");
        }
    }

    #[test]
    fn versions_tell_what_a_model_takes() {
        let takes = |name: &str| {
            let claude = Claude::of(name).unwrap();
            [claude.wants_budget(), claude.is_adaptive(), claude.wants_one_of_both(), claude.may_not_think]
        };
        assert_eq!(takes("claude-sonnet-4-0"), [true, false, false, true]);
        assert_eq!(takes("claude-sonnet-4-5"), [true, false, true, true]);
        assert_eq!(takes("claude-opus-4-6"), [false, false, true, true]);
        assert_eq!(takes("claude-opus-4-7"), [false, true, true, true]);
        assert_eq!(takes("claude-fable-5"), [false, true, true, false]);
    }
}
