//! What the tier that served an attempt does to its price. Prices are those of the usual tier.
//!
//! The factors and their sources: `docs/records/catalogue.md`.

use crate::record::AttemptRecord;

/// The least and the greatest factor of the price; equal if the tier is known. No greatest one: the tier is unknown.
pub(super) fn factors(row: &AttemptRecord) -> (f64, Option<f64>) {
    let Some(tier) = row.service_tier else { return (1.0, Some(1.0)) };
    let is_listed = row.price_source.as_deref().is_some_and(|source| source.starts_with("catalogue"));
    let has_cached = row.cached_input_tokens.unwrap_or(0) > 0;
    let (least, most) = match (tier, row.provider.as_str()) {
        ("reserved", _) => (0.0, 1.0),
        // Up to six times the price, and a tenth more in the United States alone.
        ("fast", _) => (1.0, 6.6),
        // The operator's price may be that of the tier which all requests ask for.
        ("flex", _) if !is_listed => (0.4, 1.0),
        ("priority", _) if !is_listed => (1.0, 2.5),
        ("ultrafast", _) if !is_listed => (1.0, 6.0),
        ("us", _) if !is_listed => (1.0, 1.1),
        (_, _) if !is_listed => (1.0, 1.0),
        // OpenAI rounds the price of cached tokens, and Google has no discount on those of some models.
        ("flex", "openai" | "azure") => (0.5, if has_cached { 0.52 } else { 0.5 }),
        ("flex", "gemini" | "vertex") => (0.5, if has_cached { 1.0 } else { 0.5 }),
        ("flex", "bedrock") => (0.4, 0.62),
        ("flex", "groq") => (1.0, 1.0),
        ("flex", _) => (0.4, 1.0),
        ("priority", "openai" | "azure") => (1.6, 2.5),
        ("priority", "gemini" | "vertex") => (1.6, 2.0),
        ("priority", "bedrock") => (1.7, 1.9),
        ("priority", "fireworks") => (1.0, 1.6),
        ("priority", _) => (1.0, 2.5),
        ("ultrafast", _) => (6.0, 6.0),
        ("us", _) => (1.1, 1.1),
        _ => return (0.0, None),
    };
    (least, Some(most))
}
