//! How a question comes from a URL and its answer goes back: the query, the read on a blocking thread, the JSON.
//!
//! A few reads run at a time, and only as long as the client waits. The query is stricter than browsers: invalid text is refused
//! and not repaired, because the answer to a wrong question looks like any other answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use clap::Args;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, Uri};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use photofinish_base::clock::wall_micros;
use photofinish_base::printable::quoted;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, Reach, StoreAddress};
use photofinish_gateway::proxy::{Asker, Rejection};
use photofinish_history::recorder::Recorder;
use photofinish_history::report::members::write_json;
use photofinish_history::report::question::{BadParameter, from_pairs, time};
use photofinish_history::store::{Coverage, OpenError, ReadError, StoreReader};

/// Questions to `/api` that are read at once.
const READS_MAX: usize = 4;
/// How long a further one waits.
const WAIT_FOR: Duration = Duration::from_secs(5);

/// Answers questions to one database. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct DatabaseReads {
    store: StoreAddress,
    /// Called when the database cannot be read because it is damaged.
    recorder: Recorder,
    places: Arc<Semaphore>,
    shutdown: Shutdown,
}

/// Stops a read when it is dropped: with the request of a client that left, or at a shutdown.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl DatabaseReads {
    pub fn new(store: StoreAddress, recorder: Recorder, shutdown: Shutdown) -> DatabaseReads {
        DatabaseReads { store, recorder, places: Arc::new(Semaphore::new(READS_MAX)), shutdown }
    }

    /// Who writes the database.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Opens the database and reads an answer.
    ///
    /// # Errors
    /// 500 or 503: too many reads are running, the gateway shuts down, or the history cannot be read.
    pub async fn read<T, F>(&self, read: F) -> Result<T, Rejection>
    where
        F: FnOnce(&StoreReader) -> Result<T, Rejection> + Send + 'static,
        T: Send + 'static,
    {
        let place = tokio::time::timeout(WAIT_FOR, self.places.clone().acquire_owned());
        let Ok(Ok(place)) = place.await else { return Err(Rejection::busy(READS_MAX, WAIT_FOR)) };
        let stop = StopOnDrop(Arc::default());
        let (store, recorder, stopped) = (self.store.clone(), self.recorder.clone(), stop.0.clone());
        let answer = self.shutdown.run_blocking(move || {
            // Held until the read has really ended.
            let _place = place;
            let reader = recorder.read_history(&store).map_err(|error| unopened(&error))?.stopped_by(stopped);
            read(&reader)
        });
        tokio::select! {
            biased;
            answer = answer => {
                answer.unwrap_or_else(|_| Err(Rejection::history("reading the history failed: see the log".into(), false)))
            }
            () = self.shutdown.cancelled() => Err(Rejection::shutting_down()),
        }
    }
}

fn unopened(error: &OpenError) -> Rejection {
    let passes = matches!(error, OpenError::Absent { .. } | OpenError::Locked { .. });
    Rejection::history(error.to_string(), passes)
}

/// The error of a failed read, for an operator.
pub(super) fn unread(error: ReadError) -> Rejection {
    Rejection::history(error.to_string(), !matches!(error, ReadError::Failed { .. }))
}

/// Reads the query as a question, and returns it with the current time.
pub(super) fn question<Q: Args>(uri: &Uri, problem: fn(&Q, i64) -> Option<String>) -> Result<(Q, i64), Rejection> {
    read(pairs(uri.query().unwrap_or_default()).map_err(refused)?, problem)
}

/// The same of a question about rows, which have the names of models and not their aliases. It is cut to what the asker may see.
pub(super) fn question_of_rows<Q: Args>(
    uri: &Uri,
    config: &Config,
    asker: &Asker,
    problem: fn(&Q, i64) -> Option<String>,
) -> Result<(Q, i64), Rejection> {
    let mut pairs = pairs(uri.query().unwrap_or_default()).map_err(refused)?;
    for (_, value) in pairs.iter_mut().filter(|(name, _)| name == "model") {
        *value = config.model(value).map_or(std::mem::take(value), |model| model.name.clone());
    }
    let own = match (asker.reach, asker.user.as_deref()) {
        (Reach::Own, Some(user)) => Some(("user", &user.name)),
        (Reach::Team, Some(user)) => user.team.as_ref().map(|team| ("team", team)),
        _ => None,
    };
    if let Some((name, own)) = own {
        if pairs.iter().any(|(of, value)| of == name && value != own) {
            return Err(Rejection::out_of_reach(&format!("you see the figures of the {name} {} alone", quoted(own))));
        }
        pairs.retain(|(of, _)| of != name);
        pairs.push((name.to_owned(), own.clone()));
    }
    read(pairs, problem)
}

fn read<Q: Args>(pairs: Vec<(String, String)>, problem: fn(&Q, i64) -> Option<String>) -> Result<(Q, i64), Rejection> {
    let question = from_pairs::<Q>(&pairs).map_err(refused)?;
    let now_us = wall_micros();
    match problem(&question, now_us) {
        Some(problem) => Err(refused(BadParameter::of_problem(&problem))),
        None => Ok((question, now_us)),
    }
}

pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, BadParameter> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name);
        match (&name, decoded(value)) {
            (Some(name), Some(value)) => Ok((name.clone(), value)),
            _ => Err(BadParameter {
                message: format!(
                    "'{pair}' cannot be decoded: expected text in UTF-8, percent-encoded, such as %2F for / and %25 for %"
                ),
                name,
            }),
        }
    });
    pairs.collect()
}

/// None if it is not percent-encoded or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? * 16 + digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub fn refused(bad: BadParameter) -> Rejection {
    Rejection::parameter(bad.name, &bad.message)
}

/// Exactly the bytes that the command prints with `--json`.
pub fn as_printed(objects: &[Map<String, Value>], coverage: &Coverage) -> Result<Response<Body>, Rejection> {
    let mut bytes = Vec::new();
    write_json(objects, &mut bytes).map_err(|error| Rejection::history(error.to_string(), false))?;
    Ok(with_source(json(bytes), coverage))
}

/// Says until when roll-ups were read, and that a clock was ahead.
pub fn with_source(mut response: Response<Body>, coverage: &Coverage) -> Response<Body> {
    let said =
        [("x-photofinish-rolled-until", coverage.rolled_until), ("x-photofinish-ahead-until", coverage.ahead_until)];
    for (name, until) in said {
        if let Some(until) = until.and_then(|until| HeaderValue::try_from(time(until)).ok()) {
            response.headers_mut().insert(name, until);
        }
    }
    response
}

/// Says how many groups the answer has no room for.
pub fn leaving_out(mut response: Response<Body>, groups: usize) -> Response<Body> {
    if groups > 0 {
        response.headers_mut().insert("x-photofinish-left-out", HeaderValue::from(groups));
    }
    response
}

pub fn json(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_and_all_else_refused() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let query = "since=24h&&by=model%2Cuser&user=a+b%2b%C3%A9&exact&model==";
        let read = [("since", "24h"), ("by", "model,user"), ("user", "a b+é"), ("exact", ""), ("model", "=")];
        assert_eq!(pairs(query), Ok(read.map(|(name, value)| pair(name, value)).to_vec()));
        for (query, name) in [
            ("model=%", Some("model")),
            ("model=%4", Some("model")),
            ("model=%zz", Some("model")),
            ("since=1h&user=%ff", Some("user")),
            ("%ff=1", None),
        ] {
            let bad = pairs(query).unwrap_err();
            assert_eq!(bad.name.as_deref(), name, "{query}");
            assert!(bad.message.contains("cannot be decoded"), "{}", bad.message);
        }
    }
}
