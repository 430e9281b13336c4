//! What the integration tests stand on: a provider that does what a script says ([`FakeProvider`]), a client that can
//! hang up at any byte ([`RawClient`]), and [`Gate`]s instead of sleeps. Knows nothing of the gateway.
//! The crate root above it lets helpers panic.

mod client;
mod dialect;
mod eventstream;
mod log;
mod provider;
mod proxy;
mod script;
mod secure;
mod sse;
mod wire;

use std::time::Duration;

pub use client::RawClient;
pub use dialect::{Dialect, frame};
pub use eventstream::message;
pub use log::{Exchange, Request};
pub use provider::FakeProvider;
pub use proxy::{FakeProxy, Tunnel};
pub use script::{Gate, Script, Step};
pub use secure::{Identity, NAME, secured};
pub use sse::{SseReader, sse_events};

/// How long a test waits for an event before it fails. Only ever reached by a failing test.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `event`, and panics with `what` if it does not come.
pub async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, event).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}
