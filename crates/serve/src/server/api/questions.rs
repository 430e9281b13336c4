//! The questions of `/api` that have one answer: the history, runs, the state of routing, and a reload.
//!
//! Not for the figures: see `report`.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use clap::Args;
use http::{Response, Uri};
use serde_json::{Value, json};

use super::ask::{as_printed, json, json as json_answer, leaving_out, question, refused, unread, with_source};
use crate::server::served_paths::ServedPaths;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_history::report::question::BadParameter;
use photofinish_history::report::runs::{self, RunError, RunsQuestion};
use photofinish_history::report::series::{self, SeriesError};
use photofinish_history::report::{costs, distribution, export, races, regressions, stats};
use photofinish_history::store::StoreReader;

pub async fn stats(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    let answer = async {
        proxy::admin(&site.gateway, &client)?;
        let (question, now_us) = question(&uri, stats::ReportQuestion::problem)?;
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
        let read = move |reader: &StoreReader| {
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
