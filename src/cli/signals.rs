//! SIGINT and SIGTERM: both ask for a clean end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use photofinish_base::shutdown::Shutdown;

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over from now on.
    pub fn new() -> io::Result<Signals> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Drains at the first signal, cancels at the second.
pub(super) async fn forward(shutdown: Shutdown) {
    let Ok(mut signals) = Signals::new() else { return };
    let mut cancelled = std::pin::pin!(shutdown.cancelled());
    tokio::select! {
        () = signals.next() => shutdown.drain(),
        () = &mut cancelled => return,
    }
    tokio::select! {
        () = signals.next() => shutdown.cancel(),
        () = cancelled => {}
    }
}
