//! The loop that accepts connections, and its end: how a listener is closed so that no request is lost.
//!
//! A closed listener resets the connections that wait to be accepted, with the requests that were sent over them. And no other
//! gateway serves new clients before this one has ended. So the listener goes on while the gateway drains, until the
//! connections that were there have their answers. It then lets no new client in, accepts all that wait, and closes. If
//! another gateway serves new clients, it does so at once.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::connection::{ServerState, connection};
use super::listener::Listener;
use photofinish_base::clock::Instant;
use photofinish_base::machine;

/// Pause before the next accept when the system has no descriptors left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Minimum time between two warnings about refused connections.
const WARN_AGAIN: Duration = Duration::from_secs(5);
/// How long new clients are served during a drain.
const NEWCOMERS_FOR: Duration = Duration::from_secs(15);
/// Time between two looks whether a draining listener may close.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a listener that lets no new client in waits for those that have begun to connect. Longer than a packet takes to
/// the other side of the world and back.
const HANDSHAKES_FOR: Duration = Duration::from_secs(1);
/// Time between two looks whether they have.
const HANDSHAKES_AGAIN: Duration = Duration::from_millis(5);

/// Accepts connections, while the gateway drains too. Each is a task of the gateway's `Shutdown`.
pub(super) async fn accept(listener: Listener, shared: ServerState) {
    let mut loop_state = AcceptLoop { listener, shared, turned_away: ShedConnections::default() };
    loop_state.until_draining().await;
    let shutdown = loop_state.shared.shutdown.clone();
    tokio::select! {
        () = loop_state.while_answers_are_due() => {}
        () = shutdown.cancelled() => return,
    }
    loop_state.close().await;
}

struct AcceptLoop {
    listener: Listener,
    shared: ServerState,
    turned_away: ShedConnections,
}

impl AcceptLoop {
    async fn until_draining(&mut self) {
        let mut draining = std::pin::pin!(self.shared.shutdown.draining());
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut draining => return,
                accepted = self.listener.accept() => accepted,
            };
            self.take(accepted).await;
        }
    }

    /// Until the connections that are there have ended, each with its answer, or another process takes the new ones. Not until
    /// there are none: that would be never under load. Half of `drain` at most: what comes last has the other half for its
    /// answer. And no longer than [`NEWCOMERS_FOR`], however long a drain may wait for answers.
    async fn while_answers_are_due(&mut self) {
        let until = Instant::now() + (self.shared.live)().config.server.drain / 2;
        let until = until.min(Instant::now() + NEWCOMERS_FOR);
        let first_new = self.shared.places.next();
        let mut look = tokio::time::interval(LOOK_AGAIN);
        loop {
            let accepted = tokio::select! {
                biased;
                now = look.tick() => {
                    if now >= until || self.shared.places.have_ended(first_new) || self.listener.has_successor() {
                        return;
                    }
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            self.take(accepted).await;
        }
    }

    /// Serves only the clients that have begun to connect.
    async fn close(mut self) {
        self.listener.turn_away();
        let by = Instant::now() + HANDSHAKES_FOR;
        loop {
            // First: what is completed in the meantime is accepted below.
            let are_complete = !self.is_being_connected().await;
            for _ in 0..machine::BACKLOG {
                match self.listener.accept_waiting() {
                    Ok(Some(accepted)) => self.take(Ok(accepted)).await,
                    Ok(None) => break,
                    Err(error) => {
                        self.take(Err(error)).await;
                        break;
                    }
                }
            }
            if are_complete || Instant::now() >= by {
                return;
            }
            tokio::time::sleep(HANDSHAKES_AGAIN).await;
        }
    }

    async fn is_being_connected(&self) -> bool {
        let Some(port) = self.listener.port_of_handshakes() else { return false };
        let handshakes = self.shared.shutdown.run_blocking(move || machine::handshakes(port)).await;
        handshakes.is_ok_and(|handshakes| handshakes > 0)
    }

    async fn take(&mut self, accepted: io::Result<(TcpStream, IpAddr)>) {
        let shared = &self.shared;
        match accepted {
            Ok((stream, peer)) => match shared.places.enter(peer).await {
                Some(place) => {
                    let tls = shared.certificate().filter(|_| self.listener.is_for_tls());
                    shared.shutdown.spawn(connection(stream, peer, place, tls, shared.clone()));
                }
                None => self.turned_away.warn(&"every connection is at work"),
            },
            Err(error) => {
                self.turned_away.warn(&error);
                // Closing an idle connection frees its descriptor.
                shared.places.make_room();
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Counts connections that could not be served, so that one log line reports many.
#[derive(Default)]
struct ShedConnections {
    /// Count since the last warning.
    times: u64,
    warned: Option<Instant>,
}

impl ShedConnections {
    fn warn(&mut self, why: &dyn Display) {
        if let Some(times) = self.count() {
            tracing::warn!(error = %why, times, "cannot accept a connection");
        }
    }

    /// Counts one more. Returns the count since the last warning if it is time for another.
    fn count(&mut self) -> Option<u64> {
        self.times += 1;
        let is_time = self.warned.is_none_or(|warned| warned.elapsed() >= WARN_AGAIN);
        is_time.then(|| {
            self.warned = Some(Instant::now());
            std::mem::take(&mut self.times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warnings_come_with_their_number_once_in_a_while() {
        let (mut turned_away, mut counted) = (ShedConnections::default(), Vec::new());
        for _ in 0..1_000 {
            counted.extend(turned_away.count());
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert_eq!(counted, [1, 500]);
    }
}
