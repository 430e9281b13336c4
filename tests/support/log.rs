//! The requests that a fake provider has received, and functions that wait for more.

use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::soon;

/// One received request.
#[derive(Clone, Debug)]
pub struct Request {
    /// From 0, over all connections of the provider.
    pub number: usize,
    /// From 0.
    pub connection: usize,
    /// `HTTP/1.1` or `HTTP/2.0`
    pub version: String,
    pub method: String,
    pub path: String,
    /// In order; names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Request {
    /// The first header of this name, lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

/// A request and its progress.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub request: Request,
    pub arrived: Instant,
    /// When each chunk of the body was about to be written; only over HTTP/1.1.
    pub chunks: Vec<Instant>,
    /// When its last step was done.
    pub answered: Option<Instant>,
    /// When the provider noticed that the client had left: closed or reset the connection, or reset the stream. With
    /// HTTP/1.1 this may also be after the answer.
    pub closed: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Log(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    connections: usize,
    /// TLS handshakes that continued an earlier session.
    resumed: usize,
}

impl Log {
    /// Returns the number of the new connection.
    pub(super) fn connected(&self) -> usize {
        let mut number = 0;
        self.0.send_modify(|state| {
            number = state.connections;
            state.connections += 1;
        });
        number
    }

    /// Assigns a number to the request.
    pub(super) fn arrived(&self, request: &mut Request) {
        self.0.send_modify(|state| {
            request.number = state.exchanges.len();
            let exchange = Exchange {
                request: request.clone(),
                arrived: Instant::now(),
                chunks: Vec::new(),
                answered: None,
                closed: None,
            };
            state.exchanges.push(exchange);
        });
    }

    pub(super) fn writes_chunk(&self, number: usize) {
        self.0.send_modify(|state| state.exchanges[number].chunks.push(Instant::now()));
    }

    pub(super) fn answered(&self, number: usize) {
        self.0.send_modify(|state| state.exchanges[number].answered = Some(Instant::now()));
    }

    /// The client broke off this exchange.
    pub(super) fn closed(&self, number: usize) {
        self.0.send_modify(|state| state.exchanges[number].closed = Some(Instant::now()));
    }

    /// The client closed a connection, and with it all its exchanges.
    pub(super) fn closed_connection(&self, connection: usize) {
        self.0.send_modify(|state| {
            for exchange in state.exchanges.iter_mut().filter(|exchange| exchange.request.connection == connection) {
                exchange.closed = Some(Instant::now());
            }
        });
    }

    pub(super) fn connections(&self) -> usize {
        self.0.borrow().connections
    }

    pub(super) fn resumes(&self) {
        self.0.send_modify(|state| state.resumed += 1);
    }

    pub(super) fn resumed(&self) -> usize {
        self.0.borrow().resumed
    }

    /// Waits for this many connections.
    pub(super) async fn connects(&self, count: usize) {
        let mut seen = self.0.subscribe();
        let found = async { seen.wait_for(|state| state.connections >= count).await.map(drop) };
        soon(&format!("connection {count}"), found).await.expect("the log outlives this");
    }

    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.0.borrow().exchanges.clone()
    }

    /// Waits until `wanted` returns a value for the exchange with this number.
    pub(super) async fn wait<T>(&self, number: usize, what: &str, wanted: impl Fn(&Exchange) -> Option<T>) -> T {
        let mut seen = self.0.subscribe();
        let found = async {
            let state = seen.wait_for(|state| state.exchanges.get(number).and_then(&wanted).is_some()).await;
            state.ok().and_then(|state| state.exchanges.get(number).and_then(&wanted)).expect("the log outlives this")
        };
        soon(&format!("request {number} {what}"), found).await
    }
}
