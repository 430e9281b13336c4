//! The questions of `/api` that have one answer: the history, runs, the state of routing, and a reload.
//!
//! Not for the figures: see `report`.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use clap::Args;
use http::{Response, Uri};
use serde_json::{Value, json};

use crate::accounts::author;
use crate::server::reads::{
    as_printed, json, json as json_answer, leaving_out, question, question_of_rows, refused, unread, with_source,
};
use crate::server::served_paths::ServedPaths;
use photofinish_config::Reach;
use photofinish_gateway::proxy::{Asker, Client, Rejection};
use photofinish_history::report::costs::{self, CostsQuestion};
use photofinish_history::report::distribution::{self, DistributionQuestion};
use photofinish_history::report::incidents::{self, IncidentsQuestion};
use photofinish_history::report::question::BadParameter;
use photofinish_history::report::races::{self, RacesQuestion};
use photofinish_history::report::runs::{self, RunError, RunsQuestion};
use photofinish_history::report::series::{self, SeriesError, SeriesQuestion};
use photofinish_history::report::stats::{self, ReportQuestion};
use photofinish_history::report::{compare, figures, replicas as gateways, verdicts as found};
use photofinish_history::store::{Coverage, StoreReader};

/// Answers a question about the history, of what the asker may see.
pub(super) async fn ask<Q, F>(
    (site, asker, uri): (ServedPaths, Asker, Uri),
    problem: fn(&Q, i64) -> Option<String>,
    read: F,
) -> Response<Body>
where
    Q: Args + Send + 'static,
    F: FnOnce(&StoreReader, &Q, i64) -> Result<Response<Body>, Rejection> + Send + 'static,
{
    let answer = async {
        let (question, now_us) = question_of_rows(&uri, &site.gateway.live().config, &asker, problem)?;
        site.reads.read(move |reader| read(reader, &question, now_us)).await
    };
    site.of_history(answer.await)
}

pub async fn stats(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    let live = site.gateway.live();
    ask((site, asker, uri), ReportQuestion::problem, move |reader, question, now_us| {
        if question.compare {
            let answer = compare::ask(reader, &question.figures.window, &live.config, now_us).map_err(unread)?;
            return as_printed(&answer.objects(), &Coverage::default());
        }
        let question = &question.figures;
        let answer = stats::ask(reader, question, now_us).map_err(unread)?;
        as_printed(&figures::objects(&question.by, &answer.groups), &answer.coverage)
    })
    .await
}

pub async fn history(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    ask((site, asker, uri), SeriesQuestion::problem, |reader, question, now_us| {
        let answer = series::ask(reader, question, now_us).map_err(|error| match error {
            SeriesError::Steps(problem) => refused(BadParameter::of_problem(&problem)),
            SeriesError::Read(error) => unread(error),
            error @ SeriesError::Damaged(_) => Rejection::history(error.to_string(), false),
        })?;
        let response = as_printed(&series::objects(question, &answer), &answer.coverage)?;
        Ok(leaving_out(response, answer.left_out.0))
    })
    .await
}

pub async fn distribution(
    State(site): State<ServedPaths>,
    Extension(asker): Extension<Asker>,
    uri: Uri,
) -> Response<Body> {
    let problem = |question: &DistributionQuestion, now_us| question.window.problem(now_us);
    ask((site, asker, uri), problem, |reader, question, now_us| {
        let answer = distribution::ask(reader, question, now_us).map_err(unread)?;
        Ok(with_source(json(answer.json().to_string()), &answer.coverage))
    })
    .await
}

pub async fn costs(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    let problem = |question: &CostsQuestion, now_us| question.window.problem(now_us);
    let live = site.gateway.live();
    ask((site, asker, uri), problem, move |reader, question, now_us| {
        let answer = costs::ask(reader, question, now_us).map_err(unread)?;
        Ok(with_source(json(answer.json(&live.config).to_string()), &answer.coverage))
    })
    .await
}

pub async fn incidents(
    State(site): State<ServedPaths>,
    Extension(asker): Extension<Asker>,
    uri: Uri,
) -> Response<Body> {
    ask((site, asker, uri), IncidentsQuestion::problem, |reader, question, now_us| {
        let answer = incidents::ask(reader, question, now_us).map_err(unread)?;
        Ok(json(format!("{}\n", answer.json())))
    })
    .await
}

/// It has no parameters.
#[derive(Args, Clone, Debug)]
pub struct VerdictsQuestion {}

pub async fn verdicts(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    ask(
        (site, asker, uri),
        |_: &VerdictsQuestion, _| None,
        |reader, _, now_us| Ok(json(found::json(&found::ask(reader).map_err(unread)?, now_us).to_string())),
    )
    .await
}

/// It has no parameters.
#[derive(Args, Clone, Debug)]
pub struct ReplicasQuestion {}

pub async fn replicas(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    ask(
        (site, asker, uri),
        |_: &ReplicasQuestion, _| None,
        |reader, _, _| Ok(json(gateways::ask(reader).map_err(unread)?.json().to_string())),
    )
    .await
}

pub async fn races(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    let problem = |question: &RacesQuestion, now_us| question.window.problem(now_us);
    ask((site, asker, uri), problem, |reader, question, now_us| {
        let page = races::page(reader, question, now_us).map_err(unread)?;
        Ok(json(page.json().to_string()))
    })
    .await
}

/// The id comes from the client and may be invalid text.
pub async fn race(
    State(site): State<ServedPaths>,
    id: Result<Path<String>, PathRejection>,
    Extension(asker): Extension<Asker>,
) -> Response<Body> {
    let answer = async {
        let typed = id.map(|Path(id)| id).unwrap_or_default();
        let race_id = races::race_id(&typed).map_err(|expected| {
            let message = format!("invalid value '{typed}' for 'race_id': {expected}");
            Rejection::parameter(Some("race_id".to_owned()), &message)
        })?;
        let read = move |reader: &StoreReader| {
            let race = races::one(reader, &race_id).map_err(unread)?.filter(|race| is_seen(race, &asker));
            Ok(json(race.ok_or_else(|| Rejection::unknown_race(&race_id))?.to_string()))
        };
        site.reads.read(read).await
    };
    site.of_history(answer.await)
}

/// Whether the race is of whom the asker may see. Before its own row is written its caller is unknown.
fn is_seen(race: &Value, asker: &Asker) -> bool {
    let is = |member: &str, name: Option<&String>| name.is_some_and(|name| race["race"][member] == name.as_str());
    match (asker.reach, asker.user.as_deref()) {
        (Reach::All, _) => true,
        (Reach::Team, Some(user)) => is("team", user.team.as_ref()),
        (Reach::Own, Some(user)) => is("user", Some(&user.name)),
        (_, None) => false,
    }
}

pub async fn runs(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    ask(
        (site, asker, uri),
        |_: &RunsQuestion, _| None,
        |reader, question, _| {
            let page = runs::page(reader, question).map_err(unread)?;
            Ok(json(page.json().to_string()))
        },
    )
    .await
}

/// The name comes from the client and may be invalid text.
pub async fn run(State(site): State<ServedPaths>, name: Result<Path<String>, PathRejection>) -> Response<Body> {
    let answer = async {
        let name = name.map(|Path(name)| name).unwrap_or_default();
        let read = move |reader: &StoreReader| {
            let run = runs::one(reader, &name).map_err(|error| match error {
                RunError::Read(error) => unread(error),
                RunError::Unknown { .. } | RunError::Several { .. } => Rejection::unknown_run(&error.to_string()),
            })?;
            Ok(json(Value::from(run).to_string()))
        };
        site.reads.read(read).await
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

pub async fn routing(State(site): State<ServedPaths>, uri: Uri) -> Response<Body> {
    let answer = || {
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

pub async fn reload(
    State(site): State<ServedPaths>,
    client: Client,
    Extension(asker): Extension<Asker>,
    uri: Uri,
) -> Response<Body> {
    let answer = async {
        let (question, _) = question::<ReloadQuestion>(&uri, |_, _| None)?;
        // On a task of its own: a client that leaves must not end it half-way.
        let reloaded =
            site.gateway.shutdown().spawn((site.reload)(question.accept, author(&asker, client.address))).await;
        match reloaded {
            Ok(Ok(())) => Ok(json_answer(json!({ "reloaded": true }).to_string())),
            Ok(Err(problem)) => Err(Rejection::not_reloaded(&problem)),
            Err(_) => Err(Rejection::internal()),
        }
    };
    answer.await.unwrap_or_else(Rejection::into_response)
}
