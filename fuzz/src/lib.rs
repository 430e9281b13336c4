//! The targets, for the programs of cargo-fuzz in this folder.

pub mod targets;

/// Runs the target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    if let Some(target) = targets::ALL.iter().find(|target| target.name == name) {
        (target.run)(bytes);
    }
}
