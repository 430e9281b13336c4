//! `/api/runs`: runs of benchmarks and of probes.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::{Response, Uri};
use serde_json::Value;

use super::answer::json;
use super::query::question;
use super::reads::unread;
use crate::server::served_paths::ServedPaths;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_history::report::runs::{self, RunError, RunsQuestion};

pub async fn runs(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        // Its parts fit together always.
        let (question, _) = question::<RunsQuestion>(&uri, |_, _| None)?;
        let page = site.reads.read(move |reader| runs::page(reader, &question).map_err(unread)).await?;
        Ok(json(page.json().to_string()))
    };
    site.of_history(answer.await)
}

/// The name comes from the client and may be invalid text.
pub async fn run(
    State(site): State<ServedPaths>,
    name: Result<Path<String>, PathRejection>,
    client: Client,
) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let name = name.map(|Path(name)| name).unwrap_or_default();
        let read = move |reader: &photofinish_history::store::StoreReader| {
            runs::one(reader, &name).map_err(|error| match error {
                RunError::Read(error) => unread(error),
                RunError::Unknown { .. } | RunError::Several { .. } => Rejection::unknown_run(&error.to_string()),
            })
        };
        let run = site.reads.read(read).await?;
        Ok(json(Value::from(run).to_string()))
    };
    site.of_history(answer.await)
}
