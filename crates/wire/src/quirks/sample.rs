//! The rules of models as tests see them. Only for tests.

#![expect(clippy::unwrap_used, reason = "a test's helper fails by panicking")]

use std::sync::LazyLock;

use super::{ModelRules, TranslationOptions};
use crate::dialect::Dialect;

/// The text of the file.
pub const RULES: &str = include_str!("../../data/rules.toml");

/// The file's rules, as a reader of `catalogue.json` sees them.
pub static MODEL_RULES: LazyLock<ModelRules> = LazyLock::new(|| {
    let file: toml::Table = toml::from_str(RULES).unwrap();
    file["rule"].clone().try_into().unwrap()
});

impl TranslationOptions {
    /// For a model that only the rules know.
    pub fn of_model(dialect: Dialect, model: impl Into<String>) -> TranslationOptions {
        let model = model.into();
        TranslationOptions { quirks: MODEL_RULES.of(&model, dialect).settled(), model }
    }
}
