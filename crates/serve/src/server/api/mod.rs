//! `/api`: the history over HTTP, for admins. The URL parameters are the options of the commands, and the answers are
//! JSON; `openapi` describes both.
//!
//! Reads URLs, waits for answers and reports errors. Not for the questions and figures: see `report`.

mod answer;
mod config;
mod live;
mod openapi;
mod query;
mod reads;
mod reload;
mod replay;
mod routing;
mod runs;
mod schema;

pub use answer::json as json_answer;
use answer::{as_printed, json, leaving_out, refused, with_source};
pub use config::config;
pub use live::live;
pub use openapi::openapi;
pub use reads::DatabaseReads;
use reads::unread;
pub use reload::reload;
pub use replay::{REPLAYS_MAX, replay};
pub use routing::routing;
pub use runs::{run, runs};

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::{Response, Uri};
use query::question;

use super::served_paths::ServedPaths;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_history::report::question::BadParameter;
use photofinish_history::report::series::{self, SeriesError};
use photofinish_history::report::{costs, distribution, export, races, regressions, report_question, stats};
use photofinish_history::store::StoreReader;

pub async fn stats(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, report_question::ReportQuestion::problem)?;
        let read = move |reader: &StoreReader| {
            if let Some(question) = question.of_regressions() {
                let answer = regressions::ask(reader, &question, now_us).map_err(unread)?;
                return Ok((answer.objects(), None));
            }
            let question = &question.figures;
            let answer = stats::ask(reader, question, now_us).map_err(unread)?;
            Ok((export::objects(&question.by, &answer.groups), answer.rolled_until))
        };
        let (objects, rolled_until) = site.reads.read(read).await?;
        as_printed(&objects, rolled_until)
    };
    site.of_history(answer.await)
}

pub async fn history(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, series::SeriesQuestion::problem)?;
        let read = move |reader: &StoreReader| match series::ask(reader, &question, now_us) {
            Ok(answer) => Ok((series::objects(&question, &answer), answer.rolled_until, answer.left_out.0)),
            Err(SeriesError::Steps(problem)) => Err(refused(BadParameter::of_problem(&problem))),
            Err(SeriesError::Read(error)) => Err(unread(error)),
            Err(error @ SeriesError::Damaged(_)) => Err(Rejection::history(error.to_string(), false)),
        };
        let (objects, rolled_until, left_out) = site.reads.read(read).await?;
        Ok(leaving_out(as_printed(&objects, rolled_until)?, left_out))
    };
    site.of_history(answer.await)
}

pub async fn distribution(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, distribution::DistributionQuestion::problem)?;
        let read = move |reader: &StoreReader| distribution::ask(reader, &question, now_us).map_err(unread);
        let answer = site.reads.read(read).await?;
        Ok(with_source(json(answer.json().to_string()), answer.rolled_until))
    };
    site.of_history(answer.await)
}

pub async fn costs(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, costs::CostsQuestion::problem)?;
        let read = move |reader: &StoreReader| costs::ask(reader, &question, now_us).map_err(unread);
        let answer = site.reads.read(read).await?;
        Ok(with_source(json(answer.json().to_string()), answer.rolled_until))
    };
    site.of_history(answer.await)
}

pub async fn races(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, races::RacesQuestion::problem)?;
        let page = site.reads.read(move |reader| races::page(reader, &question, now_us).map_err(unread)).await?;
        Ok(json(page.json().to_string()))
    };
    site.of_history(answer.await)
}

/// The id comes from the client and may be invalid text.
pub async fn race(
    State(site): State<ServedPaths>,
    id: Result<Path<String>, PathRejection>,
    client: Client,
) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let typed = id.map(|Path(id)| id).unwrap_or_default();
        let race_id = races::race_id(&typed).map_err(|expected| {
            Rejection::parameter(
                Some("race_id".to_owned()),
                &format!("invalid value '{typed}' for 'race_id': {expected}"),
            )
        })?;
        let asked = race_id.clone();
        let found = site.reads.read(move |reader| races::one(reader, &asked).map_err(unread)).await?;
        let race = found.ok_or_else(|| Rejection::unknown_race(&race_id))?;
        Ok(json(race.to_string()))
    };
    site.of_history(answer.await)
}

/// Built at the first request.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| openapi().to_string().into());

pub async fn document(State(site): State<ServedPaths>, client: Client) -> Response<Body> {
    match proxy::admin(&site.gateway, &client) {
        Ok(()) => json(DOCUMENT.clone()),
        Err(rejection) => rejection.into_response(),
    }
}

#[cfg(test)]
mod tests;
