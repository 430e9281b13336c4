//! What requests to Claude have in common at Anthropic and at Bedrock: schemas and thinking. What a model takes: see `quirks`.

pub(crate) mod schema;
pub(crate) mod thinking;
