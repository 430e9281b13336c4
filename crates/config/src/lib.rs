//! The configuration, whole and valid; the catalogue of models; the keys of providers, and how they are kept out of texts. Not
//! for what happens at run time.

pub mod config;
pub mod issued;
pub mod keyring;
pub mod offerings;
pub mod scrub;
