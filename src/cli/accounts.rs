//! `photofinish key`, `user` and `team`: they ask the running gateway, or where none runs work on its store. Not for what a
//! change means: see the server's `accounts`.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::outcome::WrongUse;
use super::routing::GatewayAddress;
use super::routing::ask::{self, NoGateway};
use super::text::{aligned, write_lines, write_paragraph};
use photofinish_base::clock::wall_micros;
use photofinish_base::machine;
use photofinish_config::{Config, UserRole};
use photofinish_history::report::question::choice;
use photofinish_history::store::{AccountKind, Author, Store};
use photofinish_serve::accounts::{AccountAction, AccountRefusal, AccountRequest, AccountScope};

/// What `key` takes.
#[derive(Args, Clone, Debug)]
pub struct KeyOptions {
    #[command(subcommand)]
    pub action: KeyAction,
}

/// What `user` and `team` take.
#[derive(Args, Clone, Debug)]
pub struct HolderOptions<M: Args> {
    #[command(subcommand)]
    pub action: HolderAction<M>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key and print it, once: it cannot be shown again.
    Create {
        /// Whose key it is; by default of the user whose token is sent.
        #[arg(long)]
        user: Option<String>,
        /// What it is for, such as ci.
        #[arg(long)]
        name: String,
        /// How long it lives (such as 12h or 90d), or until when (2026-01-31, 2026-01-31T09:00:00Z); by default for ever.
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        limits: Box<LimitOptions>,
        #[command(flatten)]
        at: AtOptions,
    },
    /// The keys, without their text.
    List {
        /// Only those of this user.
        #[arg(long)]
        user: Option<String>,
        /// Only those of the user whose token is sent.
        #[arg(long, conflicts_with = "user")]
        mine: bool,
        #[command(flatten)]
        at: AtOptions,
    },
    /// One key, without its text.
    Show {
        id: String,
        #[command(flatten)]
        at: AtOptions,
    },
    /// Make a key that replaces this one, and print it, once.
    Rotate {
        id: String,
        /// How long the old one still counts.
        #[arg(long, value_name = "DURATION", default_value = "24h")]
        grace: String,
        /// As of `create`; by default it lives as long as the old one was to.
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        at: AtOptions,
    },
    /// Take a key back: the next request with it is refused. Running answers go on.
    Revoke {
        id: String,
        /// Do not ask.
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        at: AtOptions,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub enum HolderAction<M: Args> {
    /// Make one.
    Create {
        name: String,
        #[command(flatten)]
        more: M,
        #[command(flatten)]
        limits: LimitOptions,
        #[command(flatten)]
        at: AtOptions,
    },
    /// All of them, those of the configuration too.
    List {
        #[command(flatten)]
        at: AtOptions,
    },
    /// One of those that were made at run time.
    Show {
        name: String,
        #[command(flatten)]
        at: AtOptions,
    },
    /// Change what is given; the rest stays.
    Set {
        name: String,
        #[command(flatten)]
        more: M,
        #[command(flatten)]
        limits: LimitOptions,
        #[command(flatten)]
        at: AtOptions,
    },
    /// Remove it. The keys of a user are revoked; running answers go on.
    Delete {
        name: String,
        #[command(flatten)]
        at: AtOptions,
    },
}

/// What a user has besides limits.
#[derive(Args, Clone, Debug)]
pub struct UserMembers {
    /// The team, which must be there.
    #[arg(long)]
    team: Option<String>,
    /// What the user may do apart from asking models.
    #[arg(long, value_parser = choice::<UserRole>())]
    role: Option<UserRole>,
}

/// What a team has besides limits.
#[derive(Args, Clone, Debug)]
pub struct TeamMembers {}

pub trait Members {
    fn put(&self, members: &mut Map<String, Value>);
}

impl Members for UserMembers {
    fn put(&self, members: &mut Map<String, Value>) {
        put(members, "team", self.team.as_ref());
        put(members, "role", self.role.map(UserRole::as_str));
    }
}

impl Members for TeamMembers {
    fn put(&self, _: &mut Map<String, Value>) {}
}

/// Limits, as in the configuration.
#[derive(Args, Clone, Debug)]
pub struct LimitOptions {
    /// Requests a minute.
    #[arg(long, value_name = "N")]
    rpm: Option<u64>,
    /// Tokens a minute.
    #[arg(long, value_name = "N")]
    tpm: Option<u64>,
    /// Requests at once.
    #[arg(long, value_name = "N")]
    streams: Option<u64>,
    /// USD of a day, UTC.
    #[arg(long, value_name = "USD")]
    budget_day: Option<f64>,
    /// USD of a week from Monday on, UTC.
    #[arg(long, value_name = "USD")]
    budget_week: Option<f64>,
    /// USD of a calendar month, UTC.
    #[arg(long, value_name = "USD")]
    budget_month: Option<f64>,
    /// USD for ever.
    #[arg(long, value_name = "USD")]
    budget_total: Option<f64>,
    /// USD of a period (day, week, month, total) for the models of a pattern, such as 'claude-opus-*=5/day'; separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "MODEL=USD/PERIOD", value_parser = model_budget)]
    model_budgets: Option<Vec<(String, String, f64)>>,
    /// The only models that may be used, separated by commas; * matches any text.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    models: Option<Vec<String>>,
    /// Models that may not be used.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    deny: Option<Vec<String>>,
    /// Any limits as JSON, such as '{"rpm": {"requests": 60, "burst": 5}}'; null takes one away.
    #[arg(long, value_name = "JSON", value_parser = object)]
    limits: Option<Map<String, Value>>,
}

impl LimitOptions {
    fn put(&self, members: &mut Map<String, Value>) {
        members.extend(self.limits.clone().unwrap_or_default());
        put(members, "rpm", self.rpm);
        put(members, "tpm", self.tpm);
        put(members, "streams", self.streams);
        put(members, "models", self.models.as_ref());
        put(members, "deny", self.deny.as_ref());
        let mut budget = Map::new();
        let of_periods = [self.budget_day, self.budget_week, self.budget_month, self.budget_total];
        for (period, usd) in ["day", "week", "month", "total"].into_iter().zip(of_periods) {
            put(&mut budget, period, usd);
        }
        if !budget.is_empty() {
            members.insert("budget".to_owned(), budget.into());
        }
        let mut of_models = json!({});
        for (models, period, usd) in self.model_budgets.iter().flatten() {
            of_models[models][period] = json!(usd);
        }
        put(members, "model_budgets", self.model_budgets.as_ref().map(|_| of_models));
    }
}

/// Whom it asks, and how it prints.
#[derive(Args, Clone, Debug)]
pub struct AtOptions {
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens, and where none
    /// runs its store.
    #[arg(long, value_name = "URL", value_parser = GatewayAddress::parse)]
    pub url: Option<GatewayAddress>,
    /// The token of a user who may do this: an admin, the lead of the team, or for own keys anybody. Needed where a gateway runs. Better
    /// in the variable, where others cannot see it.
    #[arg(long, value_name = "TOKEN", env = "PHOTOFINISH_TOKEN", hide_env_values = true)]
    token: Option<SecretString>,
    /// What the gateway answers, for programs.
    #[arg(long)]
    json: bool,
}

/// For clap: the pattern, the period and the amount.
fn model_budget(text: &str) -> Result<(String, String, f64), String> {
    let parts = text.rsplit_once('=').and_then(|(models, rest)| Some((models, rest.split_once('/')?)));
    let parts =
        parts.and_then(|(models, (usd, period))| Some((models.to_owned(), period.to_owned(), usd.parse().ok()?)));
    parts.ok_or_else(|| "expected a pattern, an amount and a period, such as claude-opus-*=5/day".to_owned())
}

/// For clap.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}

fn put(members: &mut Map<String, Value>, name: &str, value: Option<impl serde::Serialize>) {
    members.extend(value.map(|value| (name.to_owned(), json!(value))));
}

impl KeyAction {
    /// What it asks, and whom.
    pub fn request(&self) -> (AccountRequest, &AtOptions) {
        let mut members = Map::new();
        let (action, id, at) = match self {
            KeyAction::Create { user, name, expires, limits, at } => {
                limits.put(&mut members);
                put(&mut members, "user", user.as_ref());
                put(&mut members, "name", Some(name));
                put(&mut members, "expires", expires.as_ref());
                (AccountAction::Make, "", at)
            }
            KeyAction::List { user, mine, at } => {
                put(&mut members, "user", user.as_ref());
                put(&mut members, "mine", mine.then_some("true"));
                (AccountAction::List, "", at)
            }
            KeyAction::Show { id, at } => (AccountAction::Show, id.as_str(), at),
            KeyAction::Rotate { id, grace, expires, at } => {
                put(&mut members, "grace", Some(grace));
                put(&mut members, "expires", expires.as_ref());
                (AccountAction::Rotate, id.as_str(), at)
            }
            KeyAction::Revoke { id, at, .. } => (AccountAction::Remove, id.as_str(), at),
        };
        (AccountRequest { kind: AccountKind::Key, action, id: id.to_owned(), members }, at)
    }

    /// Asks on the terminal, where only a yes counts.
    ///
    /// # Errors
    /// There is no terminal.
    pub fn is_meant(&self) -> anyhow::Result<bool> {
        let KeyAction::Revoke { id, now: false, .. } = self else { return Ok(true) };
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(WrongUse("revoke asks first, and this is no terminal: add --now".to_owned()).into());
        }
        write!(io::stderr(), "Revoke the key {id}, for good? [y/N] ")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

impl<M: Args + Members> HolderAction<M> {
    /// What it asks, and whom.
    pub fn request(&self, kind: AccountKind) -> (AccountRequest, &AtOptions) {
        let mut members = Map::new();
        let (action, id, at) = match self {
            HolderAction::Create { name, more, limits, at } => {
                limits.put(&mut members);
                more.put(&mut members);
                put(&mut members, "name", Some(name));
                (AccountAction::Make, "", at)
            }
            HolderAction::Set { name, more, limits, at } => {
                limits.put(&mut members);
                more.put(&mut members);
                (AccountAction::Set, name.as_str(), at)
            }
            HolderAction::List { at } => (AccountAction::List, "", at),
            HolderAction::Show { name, at } => (AccountAction::Show, name.as_str(), at),
            HolderAction::Delete { name, at } => (AccountAction::Remove, name.as_str(), at),
        };
        (AccountRequest { kind, action, id: id.to_owned(), members }, at)
    }
}

/// Does it and prints what came of it. `config`: none where the gateway is at the URL of `at`.
///
/// # Errors
/// For the user, in words that say what to do. They quote no token.
pub async fn run(
    config: Option<&Config>,
    mut request: AccountRequest,
    at: &AtOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    if request.action == AccountAction::Set {
        let show = AccountRequest { action: AccountAction::Show, members: Map::new(), ..request.clone() };
        let now = answer(config, &show, at).await?;
        request.members.insert("version".to_owned(), now["version"].clone());
    }
    let answer = match request.action {
        AccountAction::List => all_pages(config, &mut request, at).await?,
        _ => answer(config, &request, at).await?,
    };
    if at.json {
        return Ok(writeln!(out, "{answer:#}")?);
    }
    write(&request, &answer, width, out)
}

/// A list, from its first page to its last.
async fn all_pages(config: Option<&Config>, request: &mut AccountRequest, at: &AtOptions) -> anyhow::Result<Value> {
    let list = format!("{}s", request.kind.as_str());
    let mut whole = Vec::new();
    loop {
        let mut page = answer(config, request, at).await?;
        whole.append(page[&list].as_array_mut().context("the answer is no list")?);
        match page["next"].take() {
            Value::Null => return Ok(json!({ list: whole })),
            next => drop(request.members.insert("after".to_owned(), next)),
        }
    }
}

async fn answer(config: Option<&Config>, request: &AccountRequest, at: &AtOptions) -> anyhow::Result<Value> {
    let running = match (config, &at.url) {
        (_, Some(url)) => Some(url.clone()),
        // Where the address cannot be known, the gateway finds what changed in its store within a second.
        (Some(config), None) => GatewayAddress::listening(&config.server.listen, config.server.tls.is_some()).ok(),
        (None, None) => None,
    };
    if let Some(running) = running {
        let (method, mut path) = request.target();
        let mut body = Bytes::new();
        if request.action == AccountAction::List {
            for (place, (name, value)) in request.members.iter().enumerate() {
                let mark = if place == 0 { '?' } else { '&' };
                path = format!("{path}{mark}{name}={}", ask::encoded(value.as_str().unwrap_or_default()));
            }
        } else if !request.members.is_empty() {
            body = Value::from(request.members.clone()).to_string().into();
        }
        match ask::ask(&running, (method, path, body), at.token.as_ref()).await {
            Err(error) if error.is::<NoGateway>() && at.url.is_none() => {}
            answered => return serde_json::from_slice(&answered?).context("the answer is no JSON"),
        }
    }
    let config = config.context("there is no configuration")?;
    let by = Author { who: machine::started_by(), origin: "command line".to_owned() };
    let store = Store::unopened(&config.store.address);
    let done = request.answer(config, &store, (&by, &AccountScope::all()), wall_micros());
    store.close();
    match done {
        Ok(answer) => Ok(answer.body),
        Err(AccountRefusal::Wrong(why)) => Err(WrongUse(why).into()),
        Err(refusal) => Err(refusal.into()),
    }
}

fn write(
    request: &AccountRequest,
    answer: &Value,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    if request.action == AccountAction::List {
        let (title, members): (&[&str], &[&str]) = match request.kind {
            AccountKind::Key => {
                (&["id", "name", "user", "state", "expires"], &["id", "name", "user", "state", "expires_at"])
            }
            AccountKind::User => (&["user", "team", "role", "made in"], &["name", "team", "role", "source"]),
            AccountKind::Team => (&["team", "made in"], &["name", "source"]),
        };
        let listed = answer[format!("{}s", request.kind.as_str())].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows = listed.iter().map(|of| members.iter().map(|member| text(of, member)).collect());
        let head: Vec<String> = title.iter().map(|title| (*title).to_owned()).collect();
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        return Ok(write_lines(&aligned(&rows, &|_| true), out)?);
    }
    if write_key(answer, width, out)? {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = answer
        .as_object()
        .into_iter()
        .flatten()
        .map(|(member, _)| vec![member.clone(), text(answer, member)])
        .collect();
    Ok(write_lines(&aligned(&rows, &|_| true), out)?)
}

fn text(of: &Value, member: &str) -> String {
    match &of[member] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Writes the text of a new key, and to standard error what it is. False: the answer has none.
///
/// # Errors
/// It cannot be written.
pub fn write_key(answer: &Value, width: Option<usize>, out: &mut impl io::Write) -> io::Result<bool> {
    let Some(key) = answer["key"].as_str() else { return Ok(false) };
    writeln!(out, "{key}")?;
    let (id, name, user) = (text(answer, "id"), text(answer, "name"), text(answer, "user"));
    let until = answer["expires_at"].as_str().map(|until| format!(", until {until}")).unwrap_or_default();
    let note = format!("The key {id} ({name}) of {user}{until}. It is shown only now.");
    write_paragraph(&note, width, &mut io::stderr())?;
    Ok(true)
}
