//! A gateway in the test's process, over fake providers, with its own database that is read after the end. Not for
//! commands: their tests start the program (`process`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use photofinish_config::{self as config, Listen};
use photofinish_facts::record::Record;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::Recorder;
use photofinish_history::store::Store;
use photofinish_routing::learning::Learning;
use photofinish_serve::app::{App, Listening};
use photofinish_transport::upstream::{Resolver, system_resolver};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Column as _, ConnectOptions as _, Row as _, SqliteConnection, TypeInfo as _, ValueRef as _};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::harness::answer::advance_clock;
use crate::support::{FakeProvider, RawClient, soon};

pub const CHAT: &str = "/v1/chat/completions";

/// A config, table by table. Unset keys keep their default; no losers are audited.
#[derive(Debug)]
pub struct Setup {
    listen: String,
    server: String,
    race: String,
    tables: String,
    upstreams: Vec<String>,
    has_model: bool,
}

/// A running gateway. Dropping it removes its directory.
pub struct TestGateway {
    app: App,
    directory: TempDir,
}

/// One row: its columns by name. NULL is null.
pub type Row = BTreeMap<String, Value>;

/// All recorded rows.
#[derive(Debug)]
pub struct Rows {
    /// In the order of their start.
    pub races: Vec<Row>,
    /// By race, then by ordinal.
    pub attempts: Vec<Row>,
}

impl Setup {
    pub fn new() -> Setup {
        Setup {
            listen: "\"127.0.0.1:0\"".to_owned(),
            server: String::new(),
            race: String::new(),
            tables: String::new(),
            upstreams: Vec::new(),
            has_model: false,
        }
    }

    /// Providers `a`, `b`, … behind the model `m`, in this order, as `a/m`, `b/m`, ….
    pub fn over(fakes: &[&FakeProvider]) -> Setup {
        ('a'..='z').zip(fakes).fold(Setup::new(), |setup, (name, fake)| setup.provider(&name.to_string(), fake, ""))
    }

    /// The value of `listen`; the default is a free port.
    pub fn listen(mut self, value: &str) -> Setup {
        self.listen = value.to_owned();
        self
    }

    /// A line under `[server]`.
    pub fn server(mut self, line: &str) -> Setup {
        self.server.push_str(line);
        self.server.push('\n');
        self
    }

    /// A line under `[race]`.
    pub fn race(mut self, line: &str) -> Setup {
        self.race.push_str(line);
        self.race.push('\n');
        self
    }

    /// A provider, with further lines of its table; `NAME/m` joins the model `m`.
    pub fn provider(self, name: &str, fake: &FakeProvider, lines: &str) -> Setup {
        self.provider_at(name, &fake.base_url(), lines)
    }

    /// A provider at any address.
    pub fn provider_at(mut self, name: &str, base_url: &str, lines: &str) -> Setup {
        self.upstreams.push(format!("\"{name}/m\""));
        self.table(&format!("[providers.{name}]\nbase_url = \"{base_url}\"\n{lines}"))
    }

    /// The model `m` as in this text, instead of the model made from the providers.
    pub fn model(mut self, text: &str) -> Setup {
        self.has_model = true;
        self.table(text)
    }

    /// Any tables, such as `[users.…]`.
    pub fn table(mut self, text: &str) -> Setup {
        self.tables.push_str(text);
        self.tables.push('\n');
        self
    }

    /// The whole file.
    pub fn text(&self, database: &Path) -> String {
        let (listen, server, database) = (&self.listen, &self.server, database.display());
        let mut text = format!("[server]\nlisten = {listen}\n{server}[store]\nurl = \"sqlite:{database}\"\n");
        // Most tests are about one attempt at each upstream, all at once.
        let usual = [
            ("policy", "policy = \"race\"\n"),
            ("audit", "audit = 0.0\n"),
            ("look", "look = 0.0\n"),
            ("retries", "retries = 0\n"),
            ("rescue", "rescue = \"off\"\n"),
        ];
        let usual: String =
            usual.into_iter().filter(|(key, _)| !self.race.contains(key)).map(|(_, line)| line).collect();
        write!(text, "[race]\n{usual}{}{}", self.race, self.tables).unwrap();
        if !self.has_model && !self.upstreams.is_empty() {
            write!(text, "[models.m]\nupstreams = [{}]\n", self.upstreams.join(", ")).unwrap();
        }
        text
    }

    pub async fn start(&self) -> TestGateway {
        self.start_resolving(system_resolver()).await
    }

    /// Starts with this history.
    pub async fn start_after(&self, rows: &[Record]) -> TestGateway {
        let directory = with_database().await;
        let store = Store::open(directory.path().join("test.db")).unwrap();
        store.write(rows).unwrap();
        store.close();
        self.start_by(directory, system_resolver()).await
    }

    /// Starts with this resolver for names.
    pub async fn start_resolving(&self, resolver: Resolver) -> TestGateway {
        self.start_by(with_database().await, resolver).await
    }

    async fn start_by(&self, directory: TempDir, resolver: Resolver) -> TestGateway {
        let text = self.text(&directory.path().join("test.db"));
        let config = match config::parse(&text, &directory.path().join("config.toml"), &|_| None) {
            Ok(config) => config,
            Err(problems) => panic!("{problems}\nin\n{text}"),
        };
        let app = soon("the start", App::start_with(config, Listening::Alone, resolver)).await.unwrap();
        TestGateway { app, directory }
    }
}

/// A directory with an empty database. The database is created once and copied: running the migrations would take most
/// of the time of most tests. Tests of the program start without a file.
async fn with_database() -> TempDir {
    static EMPTY: OnceCell<Vec<u8>> = OnceCell::const_new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let empty = EMPTY.get_or_init(|| async {
        Store::open(&path).unwrap().close();
        std::fs::read(&path).unwrap()
    });
    std::fs::write(&path, empty.await).unwrap();
    directory
}

impl TestGateway {
    /// The first address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addrs()[0]
    }

    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.app.listens().iter().filter_map(Listen::address).collect()
    }

    /// For requests of this process.
    pub fn gateway(&self) -> Arc<Gateway> {
        self.app.gateway().clone()
    }

    pub fn recorder(&self) -> &Recorder {
        self.app.recorder()
    }

    /// Its learned state.
    pub fn learning(&self) -> &Learning {
        self.app.gateway().learning()
    }

    /// Upstreams whose breaker is open.
    pub fn open_breakers(&self) -> BTreeSet<String> {
        self.app.gateway().open_breakers()
    }

    /// Puts another config in force.
    pub async fn reload(&self, setup: &Setup) {
        let text = setup.text(&self.directory.path().join("test.db"));
        std::fs::write(self.directory.path().join("config.toml"), text).unwrap();
        soon("the reload", self.app.reload()).await;
    }

    /// A connection with a streaming request for the model `m`.
    pub async fn streaming(&self) -> RawClient {
        self.ask(&json!({"model": "m", "stream": true, "messages": [{}]})).await
    }

    /// A connection with a request for a whole answer of the model `m`.
    pub async fn whole(&self) -> RawClient {
        self.ask(&json!({"model": "m", "messages": [{}]})).await
    }

    pub async fn ask(&self, body: &Value) -> RawClient {
        self.post(CHAT, body).await
    }

    /// A connection with this request.
    pub async fn post(&self, path: &str, body: &Value) -> RawClient {
        let mut client = RawClient::connect(self.addr()).await;
        client.post(path, body).await;
        client
    }

    /// A connection with this request and these headers.
    pub async fn request(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> RawClient {
        let mut client = RawClient::connect(self.addr()).await;
        client.request("POST", path, headers, body.to_string()).await;
        client
    }

    /// Waits until this many rows are in the database.
    pub async fn recorded(&self, rows: u64) {
        let recorder = self.app.recorder().clone();
        soon("the rows", async {
            while recorder.written() < rows {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Waits until nothing runs and all memory is returned.
    pub async fn settled(&self, context: &str) {
        let gateway = self.app.gateway();
        let settled = async {
            // A client may keep its connection.
            let kept = || gateway.memory().clients() + gateway.stored_bytes();
            let bodies = || gateway.memory().used().saturating_sub(kept());
            while gateway.races() > 0 || bodies() > 0 {
                tokio::task::yield_now().await;
            }
        };
        soon(&format!("nothing runs and no memory is used: {context}"), settled).await;
    }

    /// Stops the gateway when all running work has ended, and reads its rows. The rows must be valid in every test.
    pub async fn stop(self) -> Rows {
        const STEP: Duration = Duration::from_millis(500);
        const REAL: Duration = Duration::from_millis(5);
        let gateway = self.app.gateway().clone();
        let mut ending = pin!(soon("the end", self.app.stop()));
        let mut ended = tokio::time::timeout(REAL, &mut ending).await.ok();
        // Most tests still hold their clients, and a gateway waits a moment for those. Nothing else has to happen meanwhile.
        for _ in 0..4 {
            if ended.is_none() && gateway.races() == 0 {
                advance_clock(STEP).await;
                ended = tokio::time::timeout(REAL, &mut ending).await.ok();
            }
        }
        let lost = match ended {
            Some(lost) => lost,
            None => ending.await,
        };
        sound_rows(lost, &self.directory).await
    }

    /// [`TestGateway::stop`], but nothing moves the clock, except for what runs meanwhile.
    pub async fn stop_while(self, meanwhile: impl Future<Output = ()>) -> Rows {
        let (lost, ()) = tokio::join!(self.app.stop(), meanwhile);
        sound_rows(lost, &self.directory).await
    }
}

async fn sound_rows(lost: usize, directory: &TempDir) -> Rows {
    assert_eq!(lost, 0, "rows that could not be written");
    let rows = Rows::read(&directory.path().join("test.db")).await;
    rows.assert_sound();
    rows
}

impl Rows {
    pub async fn read(database: &Path) -> Rows {
        let mut connection =
            SqliteConnectOptions::new().filename(PathBuf::from(database)).read_only(true).connect().await.unwrap();
        Rows {
            races: select(&mut connection, "SELECT * FROM race ORDER BY race_id").await,
            attempts: select(&mut connection, "SELECT * FROM attempt ORDER BY race_id, ordinal").await,
        }
    }

    /// The attempts of the race with this number, from 0, in the order of their start.
    pub fn of(&self, race: usize) -> Vec<&Row> {
        let race_id = &self.races[race]["race_id"];
        self.attempts.iter().filter(|attempt| attempt["race_id"] == *race_id).collect()
    }

    /// The only attempt of a provider.
    pub fn one(&self, provider: &str) -> &Row {
        let mut found = self.attempts.iter().filter(|attempt| attempt["provider"] == provider);
        match (found.next(), found.next()) {
            (Some(row), None) => row,
            _ => panic!("not one attempt of {provider}: {:#?}", self.attempts),
        }
    }

    /// Checks rules for single rows, and between the two tables.
    pub fn assert_sound(&self) {
        for race in 0..self.races.len() {
            let (row, attempts) = (&self.races[race], self.of(race));
            assert_eq!(row["attempts"], attempts.len(), "as many rows as attempts: {row:#?} {attempts:#?}");
            for (ordinal, attempt) in attempts.iter().enumerate() {
                assert_eq!(attempt["ordinal"], ordinal);
                assert_attempt_sound(attempt);
            }
            let won = attempts.iter().filter(|attempt| attempt["outcome"] == "won").count();
            assert!(won <= 1, "one winner at most: {attempts:#?}");
        }
        let known = |attempt: &Row| self.races.iter().any(|race| race["race_id"] == attempt["race_id"]);
        assert!(self.attempts.iter().all(known), "every attempt has its race");
    }
}

/// These columns of a row, by name.
pub fn pick(row: &Row, columns: &[&str]) -> Value {
    let value = |column: &str| row.get(column).cloned().unwrap_or_else(|| panic!("no column {column}"));
    columns.iter().map(|column| ((*column).to_owned(), value(column))).collect()
}

/// Checks the named columns of a row, such as `assert_row!(row, json!({"outcome": "won", "failure": null}))`; a message
/// may follow, as in `assert_eq!`.
macro_rules! assert_row {
    ($row:expr, $expected:expr $(, $($message:tt)+)?) => {
        match ($row, $expected) {
            (row, expected) => {
                let columns: Vec<&str> = expected.as_object().unwrap().keys().map(String::as_str).collect();
                assert_eq!($crate::harness::gateway::pick(row, &columns), expected $(, $($message)+)?);
            }
        }
    };
}
pub(crate) use assert_row;

/// Checks several rows, in order.
#[track_caller]
pub fn assert_rows(rows: &[&Row], expected: &[Value]) {
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, expected) in rows.iter().zip(expected) {
        assert_row!(row, expected.clone(), "{rows:#?}");
    }
}

fn assert_attempt_sound(attempt: &Row) {
    let times =
        ["connect_us", "headers_us", "first_byte_us", "first_event_us", "first_token_us", "last_token_us", "eof_us"];
    let known: Vec<i64> = times.iter().filter_map(|time| attempt[*time].as_i64()).collect();
    assert!(known.is_sorted(), "times in order: {attempt:#?}");
    assert_eq!(attempt["ttft_event"] == 1, !attempt["first_token_us"].is_null(), "{attempt:#?}");
    if attempt["ttft_event"] == 1 {
        assert_eq!(attempt["ttft_obs_us"], attempt["first_token_us"], "{attempt:#?}");
    }
    if attempt["ttft_event"] == 0 {
        assert!(!attempt["ttft_obs_us"].is_null() && !attempt["censor_cause"].is_null(), "{attempt:#?}");
    }
}

async fn select(connection: &mut SqliteConnection, query: &'static str) -> Vec<Row> {
    let rows = sqlx::query(query).fetch_all(connection).await.unwrap();
    let value = |row: &sqlx::sqlite::SqliteRow, index: usize| {
        let raw = row.try_get_raw(index).unwrap();
        if raw.is_null() {
            return Value::Null;
        }
        let kind = raw.type_info().name().to_owned();
        match kind.as_str() {
            "INTEGER" => json!(row.get::<i64, _>(index)),
            "REAL" => json!(row.get::<f64, _>(index)),
            "TEXT" => json!(row.get::<String, _>(index)),
            other => panic!("a column of type {other}"),
        }
    };
    rows.iter()
        .map(|row| {
            row.columns().iter().map(|column| (column.name().to_owned(), value(row, column.ordinal()))).collect()
        })
        .collect()
}
