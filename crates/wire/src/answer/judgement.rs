//! What a check of an answer found. Not for the check: see `photofinish_translation::judge`.

photofinish_base::named! {
    /// The calls of an answer.
    pub enum CallsVerdict {
        Valid = "valid",
        /// The arguments of a call are no JSON.
        NotJson = "not_json",
        /// A call names a tool that was not offered.
        UnknownName = "unknown_name",
        /// The arguments of a call break the schema of its tool.
        BreaksSchema = "breaks_schema",
        /// It made no call.
        None = "none",
        /// It was not checked: too large, too dear, cut by its own limit of tokens, or too many waited.
        NotChecked = "not_checked",
    }
}

photofinish_base::named! {
    /// An answer that has to be JSON, by a schema or without one.
    pub enum StructuredVerdict {
        Valid = "valid",
        Invalid = "invalid",
        NotChecked = "not_checked",
    }
}

/// What an answer is, compared with what was asked for. None: this was not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub calls: Option<CallsVerdict>,
    pub structured: Option<StructuredVerdict>,
}

impl Judgement {
    /// Whether the answer is broken. None: nothing of it was checked.
    pub fn is_broken(self) -> Option<bool> {
        let calls = match self.calls {
            None | Some(CallsVerdict::None | CallsVerdict::NotChecked) => None,
            Some(calls) => Some(calls != CallsVerdict::Valid),
        };
        let structured = match self.structured {
            None | Some(StructuredVerdict::NotChecked) => None,
            Some(structured) => Some(structured == StructuredVerdict::Invalid),
        };
        calls.into_iter().chain(structured).reduce(|one, other| one || other)
    }
}
