//! `/api/keys`, `/api/users` and `/api/teams`, which admins change; `/api/usage` and `/api/audit`, which they read; and `/api/me`,
//! which describes its caller.
//!
//! Not for what a change means: see `accounts`.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::routing::{MethodRouter, get, post};
use clap::Args;
use http::{Request, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};

use crate::accounts::members::{MEMBERS, SOURCE};
use crate::accounts::{AccountAction, AccountAnswer, AccountRefusal, AccountRequest, AccountScope, author, root_of};
use crate::server::reads::{json as json_answer, pairs, refused, unread, with_source};
use crate::server::served_paths::ServedPaths;
use photofinish_base::clock::wall_micros;
use photofinish_config::{Limits, User, UserRole, limits_of};
use photofinish_gateway::proxy::{Asker, Client, Rejection};
use photofinish_history::report::members::members;
use photofinish_history::report::question::{RaceWindow, moment, time};
use photofinish_history::report::usage::{self, UsageDimension, UsageQuestion};
use photofinish_history::store::{AccountKind, AuditLine, ReadError, StoreReader};
use photofinish_limits::{Calendar, LevelName, LimitClock, LimitUse};

/// Bytes of a request that makes or changes a key, user or team.
const BODY_MAX: usize = 64 << 10;
/// Lines of the audit in one answer.
const AUDIT_MAX: u16 = 1_000;

/// Whether it is below one of these paths, which no page but the gateway's own may ask for.
pub fn is_account_path(path: &str) -> bool {
    let below = |kind: &AccountKind| {
        path.strip_prefix(&root_of(*kind)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    AccountKind::ALL.iter().any(below)
}

/// All entries of a kind.
pub fn of_kind(kind: AccountKind) -> MethodRouter<ServedPaths> {
    let on = |action| {
        move |State(site): State<ServedPaths>,
              client: Client,
              Extension(asker): Extension<Asker>,
              request: Request<Body>| { answer(site, (client, asker), (kind, action, String::new()), request) }
    };
    get(on(AccountAction::List)).post(on(AccountAction::Make))
}

/// One of them.
pub fn one_of_kind(kind: AccountKind) -> MethodRouter<ServedPaths> {
    let on = |action| {
        move |State(site): State<ServedPaths>,
              client: Client,
              Extension(asker): Extension<Asker>,
              id: PathId,
              request: Request<Body>| {
            answer(site, (client, asker), (kind, action, id.map(|Path(id)| id).unwrap_or_default()), request)
        }
    };
    get(on(AccountAction::Show)).patch(on(AccountAction::Set)).delete(on(AccountAction::Remove))
}

pub fn rotation() -> MethodRouter<ServedPaths> {
    post(
        |State(site): State<ServedPaths>,
         client: Client,
         Extension(asker): Extension<Asker>,
         id: PathId,
         request: Request<Body>| {
            answer(
                site,
                (client, asker),
                (AccountKind::Key, AccountAction::Rotate, id.map(|Path(id)| id).unwrap_or_default()),
                request,
            )
        },
    )
}

/// It comes from the client and may be invalid text.
type PathId = Result<Path<String>, PathRejection>;

async fn answer(
    site: ServedPaths,
    (client, asker): (Client, Asker),
    of: (AccountKind, AccountAction, String),
    request: Request<Body>,
) -> Response<Body> {
    done(site, (client, asker), of, request).await.unwrap_or_else(Rejection::into_response)
}

async fn done(
    site: ServedPaths,
    (client, asker): (Client, Asker),
    (kind, action, id): (AccountKind, AccountAction, String),
    request: Request<Body>,
) -> Result<Response<Body>, Rejection> {
    let scope = AccountScope::of(&asker);
    let members = members(request).await?;
    let by = author(&asker, client.address);
    let request = AccountRequest { kind, action, id, members };
    // On a thread of its own: a client that leaves must not end it half-way.
    let accounts = site.accounts.clone();
    let done = site.gateway.shutdown().run_blocking(move || accounts.answer(&request, &by, &scope)).await;
    let AccountAnswer { mut body, .. } =
        done.map_err(|_| Rejection::internal())?.map_err(|refusal| match &refusal {
            AccountRefusal::Wrong(why) => Rejection::parameter(None, why),
            AccountRefusal::Unknown(why) => Rejection::unknown_account(why),
            AccountRefusal::Conflict(why) => Rejection::conflict(why),
            AccountRefusal::Forbidden(why) => Rejection::out_of_reach(why),
            AccountRefusal::Away(why) => Rejection::history(why.clone(), true),
        })?;
    if matches!(action, AccountAction::List | AccountAction::Show) {
        add_standing(&site, kind, &mut body);
    }
    let mut response = json_answer(body.to_string());
    if matches!(action, AccountAction::Make | AccountAction::Rotate) {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// Of the body, and of the query.
async fn members(request: Request<Body>) -> Result<Map<String, Value>, Rejection> {
    let query = pairs(request.uri().query().unwrap_or_default()).map_err(refused)?;
    let body = to_bytes(request.into_body(), BODY_MAX).await.map_err(|_| Rejection::too_large(BODY_MAX))?;
    let mut members = match serde_json::from_slice(&body) {
        _ if body.is_empty() => Map::new(),
        Ok(Value::Object(members)) => members,
        _ => return Err(Rejection::parameter(None, "the body is not a JSON object")),
    };
    for (name, text) in query {
        let value =
            if name == "version" { serde_json::from_str(&text).unwrap_or_else(|_| json!(text)) } else { json!(text) };
        members.insert(name, value);
    }
    Ok(members)
}

/// What a caller may know of itself.
pub async fn me(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>) -> Response<Body> {
    let live = site.gateway.live();
    let user = asker.user.as_deref();
    let book = site.gateway.usage();
    let now = now(&site);
    let levels = book.levels(&live.config, user).with_models(book, |_| Some(Vec::new()));
    let levels = levels.iter().map(|level| standing(level.name(), level.limits(), &site, now));
    let levels = levels.collect::<Vec<Value>>();
    let keys = user.map_or(0, |user| live.callers.keys_of(&user.name, now.wall_us));
    let spent = spent(&site, &asker, now.wall_us).await;
    json_answer(Value::from(caller(user, levels, keys, spent)).to_string())
}

/// What the caller used today and this month, UTC. None: the history cannot be read now.
async fn spent(site: &ServedPaths, asker: &Asker, now_us: i64) -> Option<[Value; 2]> {
    let user = asker.user.as_ref()?.name.clone();
    let read = move |reader: &StoreReader| {
        let since = |calendar: Calendar| {
            let window = RaceWindow {
                since: moment(&time(calendar.period_us(now_us).0)).ok(),
                user: Some(user.clone()),
                ..RaceWindow::default()
            };
            let answer = usage::ask(reader, &UsageQuestion { window, by: vec![UsageDimension::User] }, now_us);
            Ok::<Value, Rejection>(usage::used(&answer.map_err(unread)?.total).into())
        };
        Ok([since(Calendar::Day)?, since(Calendar::Month)?])
    };
    site.reads.read(read).await.ok()
}

members! {
    /// A caller, its limits, and what it used.
    pub CALLER: caller(user: Option<&User>, levels: Vec<Value>, keys: usize, spent: Option<[Value; 2]>) {
        /// null without users
        user: Text or_null = user.map(|user| &user.name);
        /// `admin`, `viewer`, `lead` or `user`; without users everybody is an admin
        role: Text = user.map_or(UserRole::Admin, |user| user.role).as_str();
        team: Text or_null = user.and_then(|user| user.team.as_ref());
        /// the id of its key
        key: Text or_null = user.and_then(|user| user.key.as_ref()).map(|key| &key.id);
        /// how many keys it has that count
        keys: Integer = keys;
        /// each level that limits it: what it allows, what is left, and when it comes back
        limits: OpenList = levels;
        /// what it used since the day began, UTC; null without users, and while the history cannot be read
        today: Object("UsedAmounts") or_null = spent.as_ref().map(|spent| &spent[0]);
        /// the same since the month began, UTC
        month: Object("UsedAmounts") or_null = spent.as_ref().map(|spent| &spent[1]);
    }
}

/// Adds to each what its limits leave now.
fn add_standing(site: &ServedPaths, kind: AccountKind, body: &mut Value) {
    let live = site.gateway.live();
    let (config, now) = (live.as_read(), now(site));
    let stored = MEMBERS.map(|member| member.field.name);
    let add = |entry: &mut Map<String, Value>| {
        let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = text(if kind == AccountKind::Key { "id" } else { "name" });
        let of_file = entry.contains_key(SOURCE.name);
        let limits = match kind {
            AccountKind::Team if of_file => config.teams.get(name).map(|team| team.limits.clone()),
            AccountKind::User if of_file => {
                config.users.iter().find(|user| user.name == name).map(|user| user.limits.clone())
            }
            _ => limits_of(entry, &stored, name).ok().map(Arc::new),
        };
        let level = match kind {
            AccountKind::Team => LevelName::Team(name.into()),
            AccountKind::User => LevelName::User(name.into()),
            // What it replaces goes on in it.
            AccountKind::Key => LevelName::Key(entry.get("first").and_then(Value::as_str).unwrap_or(name).into()),
        };
        if let Some(limits) = limits.filter(|limits| !limits.is_empty()) {
            let told = standing(&level, &limits, site, now);
            entry.insert("standing".to_owned(), told);
        }
    };
    match body.get_mut(format!("{}s", kind.as_str())).map(Value::as_array_mut) {
        Some(list) => list.into_iter().flatten().filter_map(Value::as_object_mut).for_each(add),
        None => body.as_object_mut().into_iter().for_each(add),
    }
}

fn now(site: &ServedPaths) -> LimitClock {
    LimitClock { us: site.gateway.learning().now_us(), wall_us: wall_micros() }
}

/// What one level allows, and what is left of it.
fn standing(level: &LevelName, limits: &Limits, site: &ServedPaths, now: LimitClock) -> Value {
    let uses = site.gateway.usage().usage_of(level, limits, now).uses();
    let uses: Vec<Value> = uses.iter().map(|of| used(of, now)).collect();
    json!({ "level": level.kind(), "name": level.name(), "set": limits.settings(), "uses": uses })
}

fn used(of: &LimitUse, now: LimitClock) -> Value {
    let mut used = json!({
        "limit": of.key, "unit": of.unit, "allowed": of.allowed, "used": of.used, "left": of.left,
        "full_in_ms": of.full_in_us.map(|us| (us + 999) / 1_000),
    });
    if let Some(period) = &of.period {
        used["reserved"] = period.reserved.into();
        used["estimated"] = period.estimated.into();
        used["ends_at"] = json!((period.calendar != Calendar::Total).then(|| time(period.end_us)));
        used["runs_out_at"] = json!(period.runs_out_us(now.wall_us).map(time));
    }
    used
}

pub async fn usage(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    let problem = |question: &UsageQuestion, now_us| question.window.problem(now_us);
    let live = site.gateway.live();
    super::questions::ask((site, asker, uri), problem, move |reader, question, now_us| {
        let answer = usage::ask(reader, question, now_us).map_err(unread)?;
        Ok(with_source(json_answer(answer.json(&live.config).to_string()), &answer.coverage))
    })
    .await
}

/// The parameters of the query.
#[derive(Args, Clone, Debug)]
pub struct AuditQuestion {
    /// Only changes of this one: key:ID, user:NAME or team:NAME.
    #[arg(long)]
    pub subject: Option<String>,
    /// Only lines before the one with this id.
    #[arg(long)]
    pub before: Option<u64>,
    /// At most this many, the newest.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=i64::from(AUDIT_MAX)))]
    pub limit: u16,
}

impl AuditQuestion {
    /// The lines, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn ask(&self, reader: &StoreReader) -> Result<Vec<AuditLine>, ReadError> {
        let before = self.before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        reader.audit(self.subject.as_deref(), before, usize::from(self.limit))
    }
}

members! {
    /// A line of the audit.
    pub AUDIT_LINE: audit_members(line: &AuditLine) {
        id: Integer = line.id;
        /// in the format of RFC 3339
        at: Text = time(line.at);
        /// the user, and the key that was sent
        who: Text = line.by.who;
        /// the address of the client, the command, or what made the gateway read its file
        origin: Text = line.by.origin;
        /// `key:ID`, `user:NAME` or `team:NAME`
        subject: Text = line.subject;
        /// its settings before, without its hash; null if it was made
        before: Open or_null = line.before;
        /// its settings after; null if it was removed
        after: Open or_null = line.after;
    }
}

/// One line, for programs.
pub fn audit_line(line: &AuditLine) -> Value {
    audit_members(line).into()
}

pub async fn audit(State(site): State<ServedPaths>, Extension(asker): Extension<Asker>, uri: Uri) -> Response<Body> {
    super::questions::ask(
        (site, asker, uri),
        |_: &AuditQuestion, _| None,
        |reader, question, _| {
            let lines = question.ask(reader).map_err(unread)?;
            let lines: Vec<Value> = lines.iter().map(audit_line).collect();
            Ok(json_answer(Value::from(lines).to_string()))
        },
    )
    .await
}
