//! The targets, for the program of cargo-fuzz in this folder.

pub mod targets;

use std::sync::LazyLock;

/// The target that `PHOTOFINISH_TARGET` names.
static TARGET: LazyLock<&targets::Target> = LazyLock::new(|| {
    let asked = std::env::var("PHOTOFINISH_TARGET").unwrap_or_default();
    let names = || targets::ALL.iter().map(|target| target.name).collect::<Vec<_>>().join(" ");
    let found = targets::ALL.iter().find(|target| target.name == asked);
    found.unwrap_or_else(|| panic!("PHOTOFINISH_TARGET has to be one of: {}", names()))
});

/// Runs it.
pub fn run(bytes: &[u8]) {
    (TARGET.run)(bytes);
}
