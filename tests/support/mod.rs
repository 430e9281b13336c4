//! Helpers that all integration tests share: a provider that follows a script ([`FakeProvider`]), a client that can
//! hang up at any byte ([`RawClient`]), and [`Gate`]s instead of sleeps. Not for helpers that depend on the gateway:
//! see `tests/gateway/harness`. The crate root above it allows helpers to panic.

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

pub use client::{Head, RawClient};
pub use dialect::{Dialect, frame};
pub use eventstream::{event_and_payload, message};
pub use log::{Exchange, Request};
pub use provider::FakeProvider;
pub use proxy::{FakeProxy, Tunnel};
pub use script::{Gate, Script, Step};
pub use secure::{Identity, NAME, secured};
pub use sse::{SseReader, sse_events};

/// How long a test waits for an event before it fails. Reached only by failing tests: some move 70 MB on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two questions to another process, which needs the processors to get there.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(25)).await;
}

/// Waits for `event`; panics with `what` if it does not come within [`PATIENCE`].
pub async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, event).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}
