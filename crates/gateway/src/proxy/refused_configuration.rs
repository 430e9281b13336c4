//! A newer configuration that is not in force, and why. Not for deciding that: see `app`.

use std::fmt;

use photofinish_config::config::Fingerprint;

/// A newer configuration that is not in force.
#[derive(Clone, Debug)]
pub struct RefusedConfiguration {
    /// For operators.
    pub why: String,
    /// Its text. None: it cannot be read.
    pub text: Option<Fingerprint>,
    /// It is valid, and a person may accept what it drops.
    pub is_acceptable: bool,
}

impl RefusedConfiguration {
    /// The request that accepts it.
    pub fn accepted_by(&self) -> Option<String> {
        let text = self.text.filter(|_| self.is_acceptable)?;
        Some(format!("POST /api/reload?accept={text}"))
    }
}

impl fmt::Display for RefusedConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        match self.accepted_by() {
            Some(request) => write!(f, "\nIf that is meant, accept it with {request}, or send SIGHUP"),
            None => Ok(()),
        }
    }
}
