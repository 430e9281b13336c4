//! The server: accepts connections, routes requests to `proxy`, bounds everything, and shuts down cleanly.
//!
//! HTTP/1.1 and HTTP/2 share one port: ALPN selects the version with TLS, prior knowledge without. The server watches a
//! connection while its request is served. When the client leaves or stops reading, the future or body of the request
//! is dropped, and with it all upstream work.

mod accept;
mod api;
mod budget_figures;
mod client_bytes;
mod connection;
mod connection_place;
mod connection_slots;
mod dashboard;
mod forwarded;
mod frame_socket;
mod health;
mod host_check;
mod layers;
mod listener;
mod login;
mod reads;
mod rights;
mod routes;
mod served_paths;
mod socket;
mod stream;
mod tls;
mod websocket;

use std::sync::Arc;

use futures_util::future::join_all;

use crate::accounts::AccountKeeper;
use crate::login::Logins;
pub use api::{AuditQuestion, audit_line, shared_part};
use connection::ServerState;
use connection_slots::Places;
pub use health::figures;
pub use listener::Listener;
use photofinish_base::machine;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::Recorder;
#[cfg(feature = "test-support")]
pub use rights::right_of;
#[cfg(feature = "test-support")]
pub use routes::paths;
pub use served_paths::ReloadCall;

/// Client connections. When they run short, idle ones are closed.
pub const CONNECTIONS_MAX: usize = 16_384;
/// The part of them that is reserved for health checks and admins: see `connection_slots`.
const RESERVE_MAX: usize = 256;

/// Accepts connections on all listeners, also while the gateway drains. Each connection is a task of the gateway's `Shutdown`.
pub async fn serve(
    listeners: Vec<Listener>,
    gateway: Arc<Gateway>,
    recorder: Recorder,
    (accounts, logins): (Arc<AccountKeeper>, Arc<Logins>),
    reload: ReloadCall,
) {
    // Half of the descriptors are for upstreams and the store.
    let half = usize::try_from(machine::descriptors() / 2).unwrap_or(CONNECTIONS_MAX).max(2);
    let all = CONNECTIONS_MAX.min(half);
    let reserve = RESERVE_MAX.min(all / 4);
    let shared = ServerState {
        places: Places::new(all - reserve, reserve, gateway.memory().clone()),
        router: routes::router(gateway.clone(), recorder, (accounts, logins), reload),
        tls: gateway.live().config.server.tls.as_ref().map(|tls| tls.server.clone()),
        shutdown: gateway.shutdown().clone(),
        live: Arc::new(move || gateway.live()),
    };
    join_all(listeners.into_iter().map(|listener| accept::accept(listener, shared.clone()))).await;
}
