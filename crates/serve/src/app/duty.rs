//! What one of several gateways on a database does for all: the store says whose duty it is.

use std::path::Path;

use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::postgres_url;
use photofinish_history::store::Store;

/// Whether it is this gateway's. None: the database does not say now. A gateway with a file of its own does everything.
pub(super) async fn is_ours(shutdown: &Shutdown, path: &Path, duty: &'static str) -> Option<bool> {
    if !postgres_url::is_postgres(path) {
        return Some(true);
    }
    let path = path.to_owned();
    shutdown.run_blocking(move || Store::holds_duty(&path, duty)).await.ok()?.ok()
}
