//! `POST /api/reload`: reads the configuration again, and answers with what came of it. Not for reloading: see `app`.

use axum::body::Body;
use axum::extract::State;
use clap::Args;
use http::{Response, Uri};
use serde_json::json;

use super::answer::json as json_answer;
use super::query::question;
use crate::server::served_paths::ServedPaths;
use photofinish_gateway::proxy::{self, Client, Rejection};

/// The parameters of the query.
#[derive(Args, Clone, Debug)]
pub struct ReloadQuestion {
    /// The fingerprint of the text that is in force from now on, whatever it drops: the refusal of that text has it.
    #[arg(long)]
    pub accept: Option<String>,
}

pub async fn reload(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, _) = question::<ReloadQuestion>(&uri, |_, _| None)?;
        // On a task of its own: a client that leaves must not end it half-way.
        let reloaded = site.gateway.shutdown().spawn((site.reload)(question.accept)).await;
        match reloaded {
            Ok(Ok(())) => Ok(json_answer(json!({ "reloaded": true }).to_string())),
            Ok(Err(problem)) => Err(Rejection::not_reloaded(&problem)),
            Err(_) => Err(Rejection::internal()),
        }
    };
    answer.await.unwrap_or_else(Rejection::into_response)
}
