//! When an idle connection may be closed while the gateway drains.
//!
//! HTTP/1.1 has no way to say which request is still answered: one that is on its way to a connection that closes is lost. A
//! client with more to ask is told by the next answer. One that has been quiet for a while hardly asks at the very moment in
//! which its connection closes.

use std::time::Duration;

use super::connection_place::ConnectionPlace;
use super::socket::ClientPresence;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

/// How long a client is quiet before its connection is closed while the gateway drains. Longer than a request is under way,
/// and than most clients pause between two requests; short, because a stop without work waits for it.
const QUIET_FOR: Duration = Duration::from_millis(500);

/// Resolves when the gateway drains, no request of this connection has run for [`QUIET_FOR`], and nothing has come from its client
/// for as long; or when the gateway cancels what still runs.
pub(super) async fn quiet(shutdown: &Shutdown, connection: &ConnectionPlace, client: &ClientPresence) {
    shutdown.draining().await;
    let (mut since, mut before) = (Instant::now(), client.heard());
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(since + QUIET_FOR) => {}
            () = shutdown.cancelled() => return,
        }
        let (now, heard) = (Instant::now(), client.heard());
        let idle_since = connection.idle_since().filter(|_| heard == before).unwrap_or(now);
        if now >= idle_since + QUIET_FOR {
            return;
        }
        (since, before) = (idle_since, heard);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::server::connection_slots::{ConnectionSlot, Places};
    use crate::server::socket::share;
    use photofinish_base::budget::Budget;

    /// A client, and what the server knows of it.
    async fn connected() -> (TcpStream, ClientPresence, ConnectionSlot) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let slot = Places::new(1, 0, Budget::new(1 << 20)).enter(peer.ip()).await.unwrap();
        (client, share(stream, slot.connection.clone()).1, slot)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_given_a_while_from_the_drain_on() {
        let (_client, presence, slot) = connected().await;
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        // It was idle before, too; but who knows what is under way.
        tokio::time::sleep(Duration::from_secs(20)).await;
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), async { shutdown.drain() });
        assert_eq!(began.elapsed(), Duration::from_secs(20) + QUIET_FOR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_and_what_comes_from_the_client_make_it_wait() {
        let (mut client, presence, slot) = connected().await;
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        shutdown.drain();
        let activity = async {
            let running = slot.connection.begin(false);
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            drop(running);
            tokio::time::sleep(Duration::from_millis(400)).await;
            client.write_all(b"G").await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            client.write_all(b"ET").await.unwrap();
        };
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), activity);
        // Looked at after 500, 1,000, 1,500, 1,800 (one byte) and 2,300 ms (three bytes).
        assert_eq!(began.elapsed(), Duration::from_millis(2_800));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_once_all_is_cancelled() {
        let (_client, presence, slot) = connected().await;
        let _running = slot.connection.begin(false);
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        shutdown.drain();
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), async { shutdown.cancel() });
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
