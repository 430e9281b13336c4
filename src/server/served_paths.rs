//! State and helpers that the handlers of all paths share. Not for the paths: see `routes`.

use std::sync::Arc;

use axum::extract::FromRef;

use super::api::DatabaseReads;
use crate::proxy::Gateway;

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct ServedPaths {
    pub gateway: Arc<Gateway>,
    pub reads: DatabaseReads,
}

impl FromRef<ServedPaths> for Arc<Gateway> {
    fn from_ref(site: &ServedPaths) -> Arc<Gateway> {
        site.gateway.clone()
    }
}
