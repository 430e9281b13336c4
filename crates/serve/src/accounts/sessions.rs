//! Sessions of the dashboard in the store, so that they hold at every gateway on it and end at all of them.
//!
//! Not for their secrets: see `login`.

use super::AccountKeeper;
use super::refusal::AccountRefusal;
use photofinish_base::clock::wall_micros;
use photofinish_history::store::{StoreReader, WriteError};

impl AccountKeeper {
    /// Keeps a session for the other gateways. Blocks.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_session(&self, hash: &[u8; 32], sealed: &str, until_us: i64) -> Result<(), WriteError> {
        self.store.keep_session(hash, (sealed, until_us), wall_micros())
    }

    /// A session that another gateway, or this one before its start, opened: sealed, and when it ends. Blocks.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn session(&self, hash: &[u8; 32]) -> Result<Option<(String, i64)>, AccountRefusal> {
        Ok(StoreReader::open(self.store.address())?.session(hash, wall_micros())?)
    }

    /// Ends at the other gateways what ended here; while the store does not answer, as soon as it does. Blocks.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn end_sessions(&self) -> Result<(), WriteError> {
        let sessions = self.gateway.sessions();
        let ended = sessions.ended();
        if !ended.is_empty() {
            self.store.end_sessions(&ended)?;
            sessions.forget(&ended);
        }
        Ok(())
    }

    /// The same, and ends here what another gateway ended.
    pub(super) fn follow_sessions(&self, reader: &StoreReader) -> Result<(), String> {
        self.end_sessions().map_err(|error| error.to_string())?;
        let sessions = self.gateway.sessions();
        // Looked at before the store: one that is opened meanwhile is in neither.
        let mut shared = sessions.shared();
        if !shared.is_empty() {
            let kept = reader.sessions().map_err(|error| error.to_string())?;
            shared.retain(|hash| !kept.contains(hash));
            sessions.forget(&shared);
        }
        Ok(())
    }
}
