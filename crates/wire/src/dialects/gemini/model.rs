//! What a Gemini model accepts, by its name.

use serde_json::{Map, Value};

use crate::json::values::PutMember;
use crate::translate::{Effort, Losses, Reasoning};

/// Whether requests for two models are written alike.
pub fn writes_alike(one: &str, other: &str) -> bool {
    GeminiModel::new(one).facts() == GeminiModel::new(other).facts()
}

/// The facts that a model's name gives.
#[derive(Clone, Copy)]
pub(super) struct GeminiModel<'a> {
    /// The name without its path.
    name: &'a str,
}

impl<'a> GeminiModel<'a> {
    pub(super) fn new(name: &'a str) -> GeminiModel<'a> {
        GeminiModel { name: name.rsplit('/').next().unwrap_or(name) }
    }

    /// All facts that the methods below use.
    fn facts(self) -> [bool; 7] {
        let has = |word: &str| self.name.contains(word);
        let of_gemini = self.name.starts_with("gemini-");
        [
            self.is_early(),
            self.has_budget(),
            of_gemini,
            self.is_of(&["gemini-3-pro"]),
            has("lite"),
            has("flash"),
            has("pro"),
        ]
    }

    fn is_of(self, generations: &[&str]) -> bool {
        generations.iter().any(|generation| self.name.starts_with(generation))
    }

    /// Before thinking models. Refuses thinking options.
    fn is_early(self) -> bool {
        self.is_of(&["gemini-1", "gemini-2.0", "gemini-pro", "gemma", "learnlm"])
    }

    /// Thinks with a token budget. Later models think by levels.
    fn has_budget(self) -> bool {
        self.is_of(&["gemini-2.5"])
    }

    pub(super) fn is_before_3(self) -> bool {
        self.is_early() || self.has_budget()
    }

    /// Refuses a call without a signature.
    pub(super) fn is_strict(self) -> bool {
        self.name.starts_with("gemini-") && !self.is_early() && !self.has_budget()
    }

    /// Fetches public addresses.
    pub(super) fn fetches(self) -> bool {
        !self.is_early()
    }

    pub(super) fn thinking(self, reasoning: &Reasoning, losses: &mut Losses) -> Option<Value> {
        let off = reasoning.enabled == Some(false)
            || reasoning.effort == Some(Effort::None)
            || (reasoning.effort.is_none() && reasoning.budget == Some(0));
        if self.is_early() {
            losses.lose_if(!off, "reasoning");
            return None;
        }
        let mut config = Map::new();
        let asked = reasoning.enabled.is_some() || reasoning.effort.is_some() || reasoning.budget.is_some();
        config.put("includeThoughts", reasoning.show.or(asked.then_some(true)).filter(|_| !off));
        if self.has_budget() {
            config.put("thinkingBudget", self.budget(reasoning, off));
        } else {
            config.put("thinkingLevel", self.level(reasoning, off));
        }
        (!config.is_empty()).then_some(Value::Object(config))
    }

    /// The budget within the model's range. -1 leaves it to the model.
    fn budget(self, reasoning: &Reasoning, off: bool) -> Option<i64> {
        let (least, most) = match () {
            () if self.name.contains("lite") => (512, 24_576),
            () if self.name.contains("flash") => (1, 24_576),
            () => (128, 32_768),
        };
        if off {
            // Thinking cannot be switched off for Pro.
            return Some(if self.name.contains("flash") { 0 } else { least });
        }
        match reasoning.budget.or(reasoning.effort.map(Effort::budget)) {
            Some(budget) => Some(i64::try_from(budget).unwrap_or(most).clamp(least, most)),
            None => (reasoning.enabled == Some(true)).then_some(-1),
        }
    }

    fn level(self, reasoning: &Reasoning, off: bool) -> Option<&'static str> {
        let pro = self.name.contains("pro");
        let effort =
            if off { Some(Effort::None) } else { reasoning.effort.or(reasoning.budget.map(Effort::of_budget)) };
        Some(match effort? {
            Effort::None | Effort::Minimal if !pro => "MINIMAL",
            Effort::None | Effort::Minimal | Effort::Low => "LOW",
            // The first Pro of this generation had two levels.
            Effort::Medium if self.is_of(&["gemini-3-pro"]) => "HIGH",
            Effort::Medium => "MEDIUM",
            Effort::High | Effort::XHigh | Effort::Max => "HIGH",
        })
    }
}
