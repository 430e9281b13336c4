//! From a surface to the dialect of an upstream, and back.

pub mod request;
pub mod response;

#[cfg(test)]
mod tests;
