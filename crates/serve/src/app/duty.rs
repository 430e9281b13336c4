//! What one of several gateways on a database does for all: the store says whose duty it is.

use photofinish_base::shutdown::Shutdown;
use photofinish_config::StoreAddress;
use photofinish_history::store::Store;

/// Whether it is this gateway's. None: the database does not say now. A gateway with a file of its own does everything.
pub(super) async fn is_ours(shutdown: &Shutdown, store: &StoreAddress, duty: &'static str) -> Option<bool> {
    if !store.is_server() {
        return Some(true);
    }
    let store = store.clone();
    shutdown.run_blocking(move || Store::holds_duty(&store, duty)).await.ok()?.ok()
}
