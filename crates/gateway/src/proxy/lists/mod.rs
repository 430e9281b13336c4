//! Lists of models, for the clients of each vendor. Not for answers of models.

pub mod models;
pub mod ollama;
