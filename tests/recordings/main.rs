//! Recorded streams of real providers, replayed by a local server through the whole gateway: the first payload is at
//! the recorded index, usage and finish are as recorded, kinds, counts and times match the content, and the client gets
//! the bytes unchanged. Not for cases that were never recorded: other tests have those, written by hand.
//!
//! The recordings lie outside the repository, in `../shared/transcripts` (or under `PHOTOFINISH_SHARED`). Without them
//! the tests print that they were skipped, and pass.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helper fails by panicking")]
#![expect(clippy::print_stdout, reason = "says what was checked, or that it was skipped")]

mod content;
mod dialects;
mod plain;
mod recording;
mod sdk;
#[expect(dead_code, unused_imports, reason = "these tests need a part of what is shared")]
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{Connection as _, Row as _};

use photofinish_routing::health::windows::PromptLength;
use photofinish_serve::app::App;
use recording::Recording;
use support::{FakeProvider, RawClient, Request, Script};

/// Bytes. Larger recordings are not cut into pieces of one or seven bytes, to keep the test fast.
const SINGLE_BYTES_MAX: usize = 4_000;
const SEVENS_MAX: usize = 40_000;

/// The expected columns of one attempt's row.
struct Expected {
    race_id: String,
    what: String,
    columns: Vec<(&'static str, Value)>,
}

/// One replay: which recording, how it is split into reads, and how much of it.
struct Replay {
    number: usize,
    size: usize,
    /// Bytes; the rest is left out, and the body ends normally.
    end: usize,
    stream: bool,
    include_usage: bool,
}

struct Answer {
    status: u16,
    race_id: String,
    content_type: String,
    body: Vec<u8>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_chat_stream_passes_as_it_was() {
    let Some(recordings) = recordings() else { return };
    let provider = replaying(recordings.clone()).await;
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("history.db");
    let app = App::start(config(&provider, &database)).await.unwrap();
    let mut expected = Vec::new();
    for (number, recording) in recordings.iter().enumerate() {
        if recording.status == 200 {
            streaming(&app, number, recording, &mut expected).await;
            cut_at_the_first_payload(&app, number, recording, &mut expected).await;
            whole(&app, number, recording, &mut expected).await;
        } else {
            refused(&app, number, recording, &mut expected).await;
        }
    }
    assert_eq!(app.stop().await, 0, "rows that could not be written");
    rows_are(&database, &expected).await;
    println!("{} recordings, {} requests checked against their rows", recordings.len(), expected.len());
}

/// Recordings whose count is not that of their text: the results of a search on the provider's side are text and not counted; a
/// proxy reported 50 for 700 characters; a count from the middle of an answer.
const COUNTED_OTHERWISE: [&str; 3] =
    ["chat-test-groq-model-web-search-tool-stream.sse", "chat-test-chat-streaming.sse", "chat-vercel-xai-text.sse"];

/// Upstreams are left out by this estimate, so it must never be above the provider's own count.
#[test]
fn a_text_has_at_least_the_estimated_tokens() {
    let Some(recordings) = recordings() else { return };
    let (mut compared, mut tokens, mut least) = (0, 0, 0);
    for recording in recordings.iter() {
        let usage = recording.usage();
        let counted = usage.iter().find(|(column, _)| *column == "output_tokens").and_then(|(_, count)| count.as_u64());
        let text = recording.text();
        let differs = COUNTED_OTHERWISE.iter().any(|file| recording.file.ends_with(file));
        let Some(counted) = counted.filter(|_| !text.is_empty() && !differs) else { continue };
        for text in [json!(text).to_string(), text] {
            let estimate = PromptLength::of(&[text.as_bytes()]).tokens_at_least();
            assert!(estimate <= counted, "{}: {estimate} of {counted} tokens", recording.file);
            (compared, tokens, least) = (compared + 1, tokens + counted, least + estimate);
        }
    }
    assert!(compared > 50, "only {compared} texts have a count");
    println!("{compared} texts, {tokens} tokens counted, {least} estimated");
}

/// The chat recordings. None: this machine has no recordings.
fn recordings() -> Option<Arc<Vec<Recording>>> {
    let (folder, index) = transcripts()?;
    let chats = index.into_iter().filter(|entry| entry["protocol"] == "openai-chat");
    Some(Arc::new(chats.map(|entry| Recording::read(&folder, entry)).collect()))
}

/// The path of the recordings, and their index. None: this machine has no recordings.
fn transcripts() -> Option<(PathBuf, Vec<Value>)> {
    let shared = match std::env::var_os("PHOTOFINISH_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let folder = shared.join("transcripts");
    let Ok(index) = std::fs::read(folder.join("index.json")) else {
        println!("skipped: no recordings in {}", folder.display());
        return None;
    };
    Some((folder, serde_json::from_slice(&index).unwrap()))
}

/// Answers with the recording whose number is the model's name, split as `replay` in the request states.
async fn replaying(recordings: Arc<Vec<Recording>>) -> FakeProvider {
    FakeProvider::answering(move |request: &Request| {
        let asked = request.json();
        let number: usize = asked["model"].as_str().unwrap().parse().unwrap();
        let recording = &recordings[number];
        let (size, end) = (asked["replay"]["size"].as_u64().unwrap(), asked["replay"]["end"].as_u64().unwrap());
        let mut headers = recording.telling_headers();
        headers.push(("content-type", &recording.content_type));
        let head = Script::new().head(recording.status, &headers);
        let pieces = recording.bytes[..usize::try_from(end).unwrap()].chunks(usize::try_from(size).unwrap());
        pieces.fold(head, |script, piece| script.chunk(piece)).end()
    })
    .await
}

fn config(provider: &FakeProvider, database: &Path) -> photofinish_config::Config {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"sqlite:{}\"\n\
         [race]\nretries = 0\n[providers.recorded]\nbase_url = \"{}\"\ndialect = \"openai\"\napi_key = \"sk-recorded\"\n\
         [models.any]\nupstreams = [\"recorded/0\"]\n",
        database.display(),
        provider.base_url()
    );
    photofinish_config::parse(&text, Path::new("config.toml"), &|_| None)
        .map_err(|problems| problems.to_string())
        .unwrap()
}

async fn ask(app: &App, replay: &Replay) -> Answer {
    let mut body = json!({
        "model": format!("recorded/{}", replay.number),
        "messages": [{"role": "user", "content": "Hello"}],
        "replay": {"size": replay.size, "end": replay.end},
    });
    if replay.stream {
        body["stream"] = json!(true);
    }
    if replay.include_usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    let mut client = RawClient::connect(app.listens()[0].address().unwrap()).await;
    client.post("/v1/chat/completions", &body).await;
    let head = client.head().await;
    let header = |name: &str| head.header(name).unwrap_or_default().to_owned();
    let (race_id, content_type) = (header("x-photofinish-race"), header("content-type"));
    let body = client.body(&head).await.unwrap().to_vec();
    Answer { status: head.status, race_id, content_type, body }
}

/// The whole recording, in pieces of several sizes, for a client that requested usage and for one that did not.
async fn streaming(app: &App, number: usize, recording: &Recording, expected: &mut Vec<Expected>) {
    let end = recording.bytes.len();
    let mut sizes = vec![end, 1460];
    sizes.extend((end <= SEVENS_MAX).then_some(7));
    sizes.extend((end <= SINGLE_BYTES_MAX).then_some(1));
    for size in sizes {
        for include_usage in [true, false] {
            let what = format!("{} in pieces of {size}, usage asked for: {include_usage}", recording.file);
            let answer = ask(app, &Replay { number, size, end, stream: true, include_usage }).await;
            assert_eq!(answer.status, 200, "{what}");
            assert!(answer.content_type.starts_with("text/event-stream"), "{what}: {}", answer.content_type);
            let (passed, should) = (String::from_utf8(answer.body).unwrap(), recording.passed_on(include_usage));
            let same = passed.bytes().zip(should.bytes()).take_while(|(a, b)| a == b).count();
            let (got, wanted) = (excerpt(&passed, same), excerpt(&should, same));
            assert!(passed == should, "{what}: from byte {same} the client got {got:?} instead of {wanted:?}");
            let mut columns = recording.usage();
            columns.push(("outcome", json!(if recording.breaks() { "failed_mid" } else { "won" })));
            columns.push(("finish_reason", recording.finish()));
            columns.push(("first_kind", json!(recording.first_kind)));
            columns.extend(recording.content(size));
            columns.extend(recording.reports());
            expected.push(Expected { race_id: answer.race_id, what, columns });
        }
    }
}

fn excerpt(text: &str, from: usize) -> String {
    String::from_utf8_lossy(&text.as_bytes()[from..]).chars().take(200).collect()
}

/// If the recording is cut just before the first payload, nothing was generated; just after it, something was.
async fn cut_at_the_first_payload(app: &App, number: usize, recording: &Recording, expected: &mut Vec<Expected>) {
    let (before, behind) = recording.around_first_payload();
    for (end, outcome, events, kind) in
        [(before, "failed", 0, Value::Null), (behind, "failed_mid", 1, json!(recording.first_kind))]
    {
        let what = format!("{} cut at byte {end}", recording.file);
        let size = end.max(1);
        let answer = ask(app, &Replay { number, size, end, stream: true, include_usage: true }).await;
        let mut columns = vec![("payload_events", json!(events)), ("first_kind", kind)];
        // If the finish comes with the first payload, the answer is complete after it.
        if events == 0 || !recording.finishes_by_first_payload() {
            columns.push(("outcome", json!(outcome)));
        }
        expected.push(Expected { race_id: answer.race_id, what, columns });
    }
}

/// For a client that does not stream: the assembled answer.
async fn whole(app: &App, number: usize, recording: &Recording, expected: &mut Vec<Expected>) {
    let end = recording.bytes.len();
    let answer = ask(app, &Replay { number, size: 1460, end, stream: false, include_usage: false }).await;
    let file = &recording.file;
    let json: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.content_type, "application/json", "{file}");
    if recording.breaks() {
        assert!(answer.status >= 400 && json["error"]["message"].is_string(), "{file}: {} {json}", answer.status);
        return;
    }
    assert_eq!(answer.status, 200, "{file}: {json}");
    assert_eq!(recording::said_whole(&json), recording.said(), "{file}: {json}");
    if let Some(usage) = recording.last_usage() {
        assert_eq!(json["usage"], usage, "{file}");
    }
    // Only a client that streams gets something of reasoning alone.
    let is_empty = recording.said().values().all(recording::Said::says_nothing);
    let mut columns = recording.usage();
    columns.push(("outcome", json!(if is_empty { "empty" } else { "won" })));
    columns.push(("finish_reason", recording.finish()));
    columns.push(("first_kind", json!(recording.first_kind)));
    expected.push(Expected { race_id: answer.race_id, what: format!("{file}, whole"), columns });
}

/// An error status is passed on with its body.
async fn refused(app: &App, number: usize, recording: &Recording, expected: &mut Vec<Expected>) {
    let end = recording.bytes.len();
    for stream in [true, false] {
        let what = format!("{}, streaming: {stream}", recording.file);
        let answer = ask(app, &Replay { number, size: end, end, stream, include_usage: stream }).await;
        assert_eq!(answer.status, recording.status, "{what}");
        assert_eq!(answer.content_type, recording.content_type, "{what}");
        assert!(answer.body == recording.bytes, "{what}: {}", String::from_utf8_lossy(&answer.body));
        let columns = vec![("outcome", json!("failed")), ("http_status", json!(recording.status))];
        expected.push(Expected { race_id: answer.race_id, what, columns });
    }
}

async fn rows_are(database: &Path, expected: &[Expected]) {
    let mut connection = sqlx::SqliteConnection::connect(&format!("sqlite:{}", database.display())).await.unwrap();
    let mut wrong = Vec::new();
    for Expected { race_id, what, columns } in expected {
        let pairs: Vec<String> = columns.iter().map(|(name, _)| format!("'{name}', {name}")).collect();
        let query = format!("SELECT json_object({}) AS row FROM attempt WHERE race_id = ?", pairs.join(", "));
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).bind(race_id).fetch_all(&mut connection).await.unwrap();
        assert_eq!(rows.len(), 1, "{what}: attempts of race {race_id:?}");
        let row: Value = serde_json::from_str(rows[0].get("row")).unwrap();
        let differ = columns.iter().filter(|(name, value)| row[name] != *value);
        wrong.extend(differ.map(|(name, value)| format!("{what}: {name} is {}, not {value}", row[name])));
    }
    assert!(wrong.is_empty(), "{} rows' columns:\n{}", wrong.len(), wrong.join("\n"));
}
