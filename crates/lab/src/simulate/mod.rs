//! A simulated provider for trials without keys and for tests: OpenAI chat completions, legacy completions and embeddings over
//! real HTTP, with paced tokens and failures on demand. Every answer says that it is simulated.
//!
//! Not for imitating one vendor: it accepts every model name and all credentials.

mod answer;
mod call;
mod obedient;
mod request;
mod service;
pub mod source;
mod stream;
mod tally;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use answer::Answers;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use service::SharedServer;
use tally::Tally;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use photofinish_base::shutdown::Shutdown;
use photofinish_config::{SimulatedFailure, Simulation};

pub use tally::{FinishedRequest, RequestOutcome, TallyCounts, TruthFile};

/// Connections open at once; more wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 16_384;
/// Streams at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1024;
/// Bytes of a request's head.
const HEAD_MAX: usize = 64 * 1024;
/// Header lines of a request.
const HEADERS_MAX: usize = 100;
/// The time for a request's head; it also closes idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Pause after a failed accept, for example without free descriptors, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running simulated provider. Dropping it stops nothing: it runs until its [`Shutdown`] drains.
#[derive(Clone)]
pub struct Simulator {
    addr: SocketAddr,
    answers: Arc<Answers>,
    tally: Arc<Tally>,
}

impl Simulator {
    /// Serves on `listener` until `shutdown` drains; running streams continue until it is cancelled.
    ///
    /// A gateway gives its simulated providers a separate [`Shutdown`] and drains it last: the gateway needs its
    /// upstreams while it drains.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        name: &str,
        simulation: Simulation,
        listener: TcpListener,
        shutdown: &Shutdown,
    ) -> io::Result<Simulator> {
        Simulator::start_with_truth(name, simulation, listener, shutdown, None)
    }

    /// The same, with a line for each request in the truth file. The last lines need a [`TruthFile::flush`] at the end.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start_with_truth(
        name: &str,
        simulation: Simulation,
        listener: TcpListener,
        shutdown: &Shutdown,
        truth: Option<Arc<TruthFile>>,
    ) -> io::Result<Simulator> {
        let addr = listener.local_addr()?;
        let server = Arc::new(SharedServer::new(&simulation));
        if let Some(truth) = &truth {
            truth.begin(name, server.started(), shutdown);
        }
        let tally = Arc::new(Tally::new(server.started(), truth));
        let answers = Arc::new(Answers::new(name, simulation, server, Arc::clone(&tally)));
        shutdown.spawn(accept_until_drained(listener, Arc::clone(&answers), shutdown.clone()));
        Ok(Simulator { addr, answers, tally })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address with the version path, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// From now on every new request fails like this; None ends it. Simulates an outage.
    pub fn break_down(&self, how: Option<SimulatedFailure>) {
        self.answers.break_down(how);
    }

    /// Requests so far, by how they ended.
    pub fn counts(&self) -> TallyCounts {
        self.tally.counts()
    }

    /// The latest ended requests, oldest first; at most 4096.
    pub fn ended(&self) -> Vec<FinishedRequest> {
        self.tally.ended()
    }

    /// Waits until the counts satisfy `wanted`. For tests, instead of a sleep.
    pub async fn counts_are(&self, wanted: impl FnMut(&TallyCounts) -> bool) -> TallyCounts {
        self.tally.counts_are(wanted).await
    }
}

async fn accept_until_drained(listener: TcpListener, answers: Arc<Answers>, shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.draining() => {}
        () = accept_all(&listener, &answers, &shutdown) => {}
    }
}

async fn accept_all(listener: &TcpListener, answers: &Arc<Answers>, shutdown: &Shutdown) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                shutdown.spawn(serve(stream, Arc::clone(answers), shutdown.clone(), permit));
            }
            Err(error) => {
                tracing::warn!(%error, "a simulated provider cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end, then returns the permit.
async fn serve(stream: TcpStream, answers: Arc<Answers>, shutdown: Shutdown, _permit: OwnedSemaphorePermit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let builder = builder(&shutdown);
    let service = service_fn(move |request| Arc::clone(&answers).answer(request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        () = shutdown.draining() => connection.as_mut().graceful_shutdown(),
        _ = connection.as_mut() => return,
    }
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = connection => {}
    }
}

fn builder(shutdown: &Shutdown) -> Builder<Spawner> {
    let mut builder = Builder::new(Spawner(shutdown.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_MAX).unwrap_or(u32::MAX));
    builder
}

/// Runs hyper's tasks, one per HTTP/2 stream, as tasks that the shutdown waits for.
#[derive(Clone)]
struct Spawner(Shutdown);

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

#[cfg(test)]
mod tests;
