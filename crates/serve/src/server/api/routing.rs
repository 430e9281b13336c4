//! `/api/routing`: the state of every upstream, read from memory. Not for the history.

use axum::body::Body;
use axum::extract::State;
use clap::Args;
use http::{Response, Uri};

use super::answer::json;
use super::query::question;
use crate::server::served_paths::ServedPaths;
use photofinish_gateway::proxy::{self, Client, Rejection};

/// The parameters of the query.
#[derive(Args, Clone, Debug)]
pub struct RoutingQuestion {
    /// Only this model: a name, an alias, or upstreams as PROVIDER/MODEL, separated by commas.
    #[arg(long)]
    pub model: Option<String>,
}

pub async fn routing(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = || {
        proxy::admin(&site.gateway, &client)?;
        let (question, _) = question::<RoutingQuestion>(&uri, |_, _| None)?;
        let report = site.gateway.routing(question.model.as_deref())?;
        let mut text =
            serde_json::to_string_pretty(&report).map_err(|error| Rejection::history(error.to_string(), false))?;
        text.push('\n');
        Ok(json(text))
    };
    answer().unwrap_or_else(Rejection::into_response)
}
