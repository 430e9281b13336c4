//! An open loop: every request is sent at its scheduled time, whatever the earlier ones take, and its time counts from
//! then.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use photofinish::clock::{Instant, wall_micros};
use photofinish::shutdown::Shutdown;

use crate::client::Connection;
use crate::ledger::Span;
use crate::schedule::Planned;

/// A request as its client saw it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Scheduled time after the beginning of the run.
    pub due: Duration,
    /// From the scheduled time to its first token. None: it failed.
    pub ttft: Option<Duration>,
}

/// Idle connections. The one that waited longest is used first, so that none becomes stale.
type Idle = Arc<Mutex<VecDeque<Connection>>>;

/// Sends all requests and waits for the last answer. The span covers the beginnings of all their races.
pub async fn drive(
    shutdown: Shutdown,
    gateway: SocketAddr,
    requests: Arc<[Planned]>,
    answer_tokens: u32,
) -> anyhow::Result<(Vec<Seen>, Span)> {
    let (began, from_us) = (Instant::now(), wall_micros());
    let idle = Idle::default();
    let mut running = Vec::new();
    for planned in requests.iter() {
        let due = began + planned.due;
        tokio::time::sleep_until(due).await;
        running.push(shutdown.spawn(ask(idle.clone(), gateway, *planned, due, answer_tokens)));
    }
    let mut seen = Vec::new();
    for request in running {
        seen.push(request.await?);
    }
    Ok((seen, Span { from_us, until_us: wall_micros() }))
}

async fn ask(idle: Idle, gateway: SocketAddr, planned: Planned, due: Instant, answer_tokens: u32) -> Seen {
    let answered = async {
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(gateway).await?,
        };
        let first_token = connection.first_token(&planned.body(answer_tokens)).await?;
        connection.rest(|_| {}).await?;
        idle.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
        anyhow::Ok(first_token - due)
    };
    Seen { due: planned.due, ttft: answered.await.ok() }
}
