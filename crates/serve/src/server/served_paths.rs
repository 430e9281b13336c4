//! State and helpers that the handlers of all paths share. Not for the paths: see `routes`.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRef;
use http::{HeaderValue, Response};
use tokio::sync::Semaphore;

use super::reads::DatabaseReads;
use crate::accounts::AccountKeeper;
use crate::login::Logins;
use photofinish_gateway::proxy::{Gateway, Rejection};
use photofinish_history::store::Author;

/// Reads the configuration again; the arguments are the fingerprint of a text whose losses an administrator accepts, and who that is. The
/// error is for an operator; the old configuration is then still in force.
pub type ReloadCall =
    Arc<dyn Fn(Option<String>, Author) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct ServedPaths {
    pub gateway: Arc<Gateway>,
    pub reads: DatabaseReads,
    pub accounts: Arc<AccountKeeper>,
    pub logins: Arc<Logins>,
    pub reload: ReloadCall,
    /// The replays that may run.
    pub replays: Arc<Semaphore>,
}

impl ServedPaths {
    /// The answer to a question about the history. Says which damaged database was set aside: it has the rows before.
    pub(super) fn of_history(&self, answer: Result<Response<Body>, Rejection>) -> Response<Body> {
        let mut response = match answer {
            Ok(response) => response,
            Err(rejection) => return rejection.into_response(),
        };
        let (_, aside) = self.reads.recorder().problem_and_aside();
        if let Some(name) = aside.and_then(|name| HeaderValue::try_from(name).ok()) {
            response.headers_mut().insert("x-photofinish-set-aside", name);
        }
        response
    }
}

impl FromRef<ServedPaths> for Arc<Gateway> {
    fn from_ref(site: &ServedPaths) -> Arc<Gateway> {
        site.gateway.clone()
    }
}
