//! State and helpers that the handlers of all paths share. Not for the paths: see `routes`.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRef;
use tokio::sync::Semaphore;

use super::api::DatabaseReads;
use crate::proxy::Gateway;

/// Reads the configuration again; the argument is the fingerprint of a text whose losses an administrator accepts. The error is for an
/// operator; the old configuration is then still in force.
pub type ReloadCall =
    Arc<dyn Fn(Option<String>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct ServedPaths {
    pub gateway: Arc<Gateway>,
    pub reads: DatabaseReads,
    pub reload: ReloadCall,
    /// The replays that may run.
    pub replays: Arc<Semaphore>,
}

impl FromRef<ServedPaths> for Arc<Gateway> {
    fn from_ref(site: &ServedPaths) -> Arc<Gateway> {
        site.gateway.clone()
    }
}
