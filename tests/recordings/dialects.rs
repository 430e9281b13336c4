//! The recordings of the other dialects, each replayed for clients of three surfaces: the first payload is at the recorded index,
//! usage and finish are as recorded, and the client's stream and whole answer have the recorded content. An upstream of the
//! caller's own dialect passes unchanged. If OpenAI's and Anthropic's Python SDKs are installed, they parse every answer.

use std::path::Path;
use std::sync::Arc;

use photofinish_serve::app::App;
use serde_json::{Value, json};

use super::plain::{self, Said};
use super::recording::of_anthropic;
use super::support::{FakeProvider, RawClient, Request, Script};
use super::{Expected, rows_are, sdk, transcripts};

/// The dialect's name in the index, its name in the gateway, and its native surface, if any.
const DIALECTS: [(&str, &str, Option<&str>); 6] = [
    ("anthropic-messages", "anthropic", Some("messages")),
    ("openai-responses", "responses", Some("responses")),
    ("gemini", "gemini", Some("gemini")),
    ("bedrock-eventstream", "bedrock", None),
    ("ollama-ndjson", "ollama", Some("ollama")),
    ("legacy-completions", "openai", Some("completions")),
];

struct Recording {
    file: String,
    protocol: &'static str,
    dialect: &'static str,
    own_surface: Option<&'static str>,
    status: u16,
    content_type: String,
    bytes: Vec<u8>,
    entry: Value,
}

impl Recording {
    fn read(folder: &Path, entry: Value) -> Option<Recording> {
        let protocol = entry["protocol"].as_str().unwrap();
        let (protocol, dialect, own_surface) = DIALECTS.into_iter().find(|(name, ..)| *name == protocol)?;
        let file = entry["file"].as_str().unwrap().to_owned();
        let bytes = std::fs::read(folder.join(&file)).unwrap();
        let status = entry["http_status"].as_u64().map_or(200, |status| u16::try_from(status).unwrap());
        let usual = match protocol {
            "bedrock-eventstream" if status == 200 => "application/vnd.amazon.eventstream",
            "ollama-ndjson" => "application/x-ndjson",
            _ if file.ends_with(".json") => "application/json",
            _ => "text/event-stream",
        };
        let content_type = entry["response_headers"]["content-type"].as_str().unwrap_or(usual).to_owned();
        Some(Recording { file, protocol, dialect, own_surface, status, content_type, bytes, entry })
    }

    /// The surfaces that support this request.
    fn surfaces(&self) -> &'static [&'static str] {
        let legacy = self.protocol == "legacy-completions";
        if legacy { &["completions"] } else { &["chat", "messages", "responses", "ollama", "gemini"] }
    }

    /// The stream contains an error.
    fn breaks(&self) -> bool {
        self.status == 200 && !self.entry["error"].is_null()
    }

    /// Bytes before the first payload, bytes including it, and its kind, by the index. None if the index lacks it.
    fn first_payload(&self) -> Option<(usize, usize, &'static str)> {
        let at = |name: &str| self.entry[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let kinds =
            [("text", "first_content_event"), ("tool", "first_tool_event"), ("reasoning", "first_reasoning_event")];
        let first = kinds.iter().filter_map(|(kind, name)| Some((at(name)?, *kind))).min_by_key(|(number, _)| *number);
        let ends = plain::events(self.protocol, &self.bytes);
        // The index has no kind for images.
        let is_image = |(_, _, event): &(usize, String, Value)| event["item"]["result"].is_string();
        let (number, kind) = match ends.iter().position(is_image) {
            Some(number) => (number, "image"),
            None => first?,
        };
        // The index points at the first of a call's arguments; its name, in the event before, is generated too.
        let is_named = |event: &Value| {
            ["tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call"]
                .iter()
                .any(|kind| event["content_block"]["type"] == *kind || event["item"]["type"] == *kind)
        };
        let number = if kind == "tool" && number > 0 && is_named(&ends[number - 1].2) { number - 1 } else { number };
        let before = if number == 0 { 0 } else { ends[number - 1].0 };
        Some((before, ends[number].0, kind))
    }

    /// The columns that are the same for a streamed and a whole answer that says this.
    fn row(&self, said: &Said) -> Vec<(&'static str, Value)> {
        let generated = *said != Said::default() || self.first_payload().is_some();
        let nothing = if self.entry["finish"].to_string().contains("refusal") { "refused" } else { "empty" };
        let mut columns = self.usage();
        columns.push(("outcome", json!(if generated { "won" } else { nothing })));
        columns.extend(self.first_payload().map(|(_, _, kind)| ("first_kind", json!(kind))));
        columns
    }

    /// The columns of usage, by the index.
    fn usage(&self) -> Vec<(&'static str, Value)> {
        let usage = &self.entry["usage"];
        if !usage.is_object() || self.breaks() {
            return Vec::new();
        }
        let count = |names: &[&str]| names.iter().find_map(|name| usage.pointer(name)?.as_i64());
        let (input, output) = match self.protocol {
            "anthropic-messages" => of_anthropic(usage, &self.entry["usage_start"]),
            "gemini" => {
                let thoughts = count(&["/thoughtsTokenCount"]).unwrap_or(0);
                let by_tools = count(&["/toolUsePromptTokenCount"]).unwrap_or(0);
                let input = count(&["/promptTokenCount"]).map(|prompt| prompt + by_tools);
                (input, count(&["/candidatesTokenCount"]).map(|candidates| candidates + thoughts))
            }
            "ollama-ndjson" => (count(&["/prompt_eval_count"]), count(&["/eval_count"])),
            _ => (count(&["/input_tokens", "/prompt_tokens"]), count(&["/output_tokens", "/completion_tokens"])),
        };
        let columns = [("input_tokens", input), ("output_tokens", output)];
        columns.into_iter().filter_map(|(column, value)| Some((column, json!(value?)))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_stream_of_another_dialect_is_understood_and_translated() {
    let Some((folder, index)) = transcripts() else { return };
    let recordings: Arc<Vec<Recording>> =
        Arc::new(index.into_iter().filter_map(|entry| Recording::read(&folder, entry)).collect());
    assert!(recordings.len() > 60, "{}", recordings.len());
    let provider = replaying(recordings.clone()).await;
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("history.db");
    let answers = dir.path().join("answers");
    std::fs::create_dir(&answers).unwrap();
    let app = App::start(config(&provider, &database)).await.unwrap();
    let (mut expected, mut wrong, mut requests) = (Vec::new(), Vec::new(), 0);
    for (number, recording) in recordings.iter().enumerate() {
        for &surface in recording.surfaces() {
            let asked = Asked { app: &app, recording, number, surface };
            for found in asked.check(&mut expected, &answers).await {
                wrong.push(format!("{} for {surface}: {found}", recording.file));
            }
            requests += 1;
        }
    }
    assert_eq!(app.stop().await, 0, "rows that could not be written");
    assert!(wrong.is_empty(), "{} of {requests}:\n{}", wrong.len(), wrong.join("\n"));
    rows_are(&database, &expected).await;
    println!("{} recordings for {requests} clients, {} rows", recordings.len(), expected.len());
    sdk::parse(&answers);
}

/// Answers with the recording whose number, piece size and length are in the model's name: in the body, or in the path.
async fn replaying(recordings: Arc<Vec<Recording>>) -> FakeProvider {
    FakeProvider::answering(move |request: &Request| {
        let in_path = request.path.split('/').find_map(|part| part.split(':').next()?.strip_prefix("r-"));
        let body = request.json();
        let name = in_path.map(str::to_owned).unwrap_or_else(|| body["model"].as_str().unwrap()[2..].to_owned());
        let mut numbers = name.split('-').map(|number| number.parse::<usize>().unwrap());
        let mut next = || numbers.next().unwrap();
        let (number, size, end) = (next(), next(), next());
        let recording = &recordings[number];
        let head = Script::new().head(recording.status, &[("content-type", &recording.content_type)]);
        recording.bytes[..end].chunks(size).fold(head, |script, piece| script.chunk(piece)).end()
    })
    .await
}

fn config(provider: &FakeProvider, database: &Path) -> photofinish_config::Config {
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"sqlite:{}\"\n[race]\nretries = 0\nlossy = \"drop\"\nbreaker = {{ failures = 0 }}\n",
        database.display()
    );
    for (_, dialect, _) in DIALECTS {
        let url = provider.base_url();
        text.push_str(&format!(
            "[providers.of-{dialect}]\nbase_url = \"{url}\"\ndialect = \"{dialect}\"\napi_key = \"sk-recorded\"\n"
        ));
    }
    text.push_str("[models.any]\nupstreams = [\"of-openai/0\"]\n");
    photofinish_config::parse(&text, Path::new("config.toml"), &|_| None)
        .map_err(|problems| problems.to_string())
        .unwrap()
}

/// The content in the surface's terms: without generated images, an image becomes Markdown text; without free-form
/// tools, their input becomes the only argument of a function.
fn in_common_words(mut said: Said) -> Said {
    for (_, arguments) in &mut said.calls {
        if let Some(input) =
            arguments.get("input").filter(|input| input.as_str().is_some_and(|text| text.contains('\n')))
        {
            *arguments = input.clone();
        }
    }
    while let Some(start) = said.text.find("![image](data:") {
        let end = said.text[start..].find(')').map_or(said.text.len(), |end| start + end + 1);
        said.text.replace_range(start..end, "");
    }
    said
}

/// One recording requested on one surface.
struct Asked<'a> {
    app: &'a App,
    recording: &'a Recording,
    number: usize,
    surface: &'static str,
}

struct Answer {
    status: u16,
    race_id: String,
    content_type: String,
    body: Vec<u8>,
}

impl Asked<'_> {
    /// The name of its answers for the SDKs. An untranslated answer may be as old as its recording.
    fn name(&self) -> String {
        let native = if self.recording.own_surface == Some(self.surface) { "native-" } else { "" };
        format!("{native}{}", self.number)
    }

    async fn send(&self, size: usize, end: usize, stream: bool) -> Answer {
        let model = format!("of-{}/r-{}-{size}-{end}", self.recording.dialect, self.number);
        let call = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let in_path = format!("/v1beta/models/{model}:{call}");
        let (path, mut body) = match self.surface {
            "chat" => ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "Hello"}]})),
            "messages" => {
                ("/v1/messages", json!({"max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]}))
            }
            "responses" => ("/v1/responses", json!({"input": "Hello"})),
            "ollama" => ("/api/chat", json!({"messages": [{"role": "user", "content": "Hello"}]})),
            "gemini" => (in_path.as_str(), json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]})),
            _ => ("/v1/completions", json!({"prompt": "Hello"})),
        };
        if self.surface != "gemini" {
            body["model"] = json!(model);
            body["stream"] = json!(stream);
        }
        if self.surface == "chat" && stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        // A separate key, because a recorded 401 puts its key in a cool-down.
        let key_header = format!("x-photofinish-key-of-{}", self.recording.dialect);
        let key = format!("sk-{}", uuid::Uuid::now_v7());
        let mut client = RawClient::connect(self.app.listens()[0].address().unwrap()).await;
        client.request("POST", path, &[(&key_header, &key)], body.to_string()).await;
        let head = client.head().await;
        let header = |name: &str| head.header(name).unwrap_or_default().to_owned();
        let (race_id, content_type) = (header("x-photofinish-race"), header("content-type"));
        let body = client.body(&head).await.unwrap().to_vec();
        Answer { status: head.status, race_id, content_type, body }
    }

    /// Returns the problems.
    async fn check(&self, expected: &mut Vec<Expected>, answers: &Path) -> Vec<String> {
        let recording = self.recording;
        let end = recording.bytes.len();
        let mut wrong = Vec::new();
        if recording.status != 200 || recording.breaks() {
            return self.refused(expected).await;
        }
        // A second message begins in the middle of a call. Anthropic's own clients drop the first call; other clients
        // would receive it.
        if recording.file.contains("spliced-message-start") && self.surface != "messages" {
            return self.broken(expected).await;
        }
        let mut said = plain::said(recording.protocol, &recording.bytes);
        if recording.file.ends_with(".json") {
            let whole: Value = serde_json::from_slice(&recording.bytes).unwrap();
            said.text = whole[0]["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap().to_owned();
        }
        let is_native = recording.own_surface == Some(self.surface) && !recording.file.ends_with(".json");
        let content_type = if self.surface == "ollama" { "application/x-ndjson" } else { "text/event-stream" };
        for size in [end, 7] {
            let answer = self.send(size, end, true).await;
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            if answer.status != 200 || !answer.content_type.starts_with(content_type) {
                wrong.push(format!("{} {} {body:.300}", answer.status, answer.content_type));
                continue;
            }
            wrong.extend(self.streamed(&said, &answer.body, is_native));
            std::fs::write(answers.join(format!("{}-{}.{}", self.name(), size, self.surface)), &answer.body).unwrap();
            let columns = recording.row(&said);
            let what = format!("{} for {} in pieces of {size}", recording.file, self.surface);
            expected.push(Expected { race_id: answer.race_id, what, columns });
        }
        self.around_the_first_payload(expected).await;
        let answer = self.send(1460, end, false).await;
        let whole: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != 200 {
            wrong.push(format!("whole: {} {whole}", answer.status));
        // If a second message begins within a stream, Anthropic's own clients drop the first one.
        } else if self.surface != "completions"
            && !recording.file.contains("spliced-message-start")
            && in_common_words(plain::of_whole(self.surface, &whole)) != said
        {
            wrong.push(format!("whole says {:?}, not {said:?}", plain::of_whole(self.surface, &whole)));
        }
        std::fs::write(answers.join(format!("{}-whole.{}.json", self.name(), self.surface)), &answer.body).unwrap();
        let what = format!("{} for {}, whole", recording.file, self.surface);
        expected.push(Expected { race_id: answer.race_id, what, columns: recording.row(&said) });
        wrong
    }

    /// The differences between a streamed answer and the recording.
    fn streamed(&self, said: &Said, body: &[u8], is_native: bool) -> Vec<String> {
        let text = String::from_utf8_lossy(body);
        let mut wrong = Vec::new();
        // Nothing is sent after the last event of the native dialect.
        let recorded = String::from_utf8_lossy(&self.recording.bytes);
        let recorded = recorded.trim_end();
        let recorded =
            if self.surface == "responses" { recorded.trim_end_matches("data: [DONE]").trim_end() } else { recorded };
        if is_native && !text.starts_with(recorded) {
            wrong.push("it did not pass as it was".to_owned());
        }
        let events = plain::events("", body);
        let values = || events.iter().map(|(_, _, value)| value);
        let (got, ended) = match self.surface {
            "messages" => (plain::of_messages(values()), values().any(|event| event["type"] == "message_stop")),
            "responses" => (
                plain::of_responses(values()),
                values().any(|event| event["type"] == "response.completed" || event["type"] == "response.incomplete"),
            ),
            "gemini" => (plain::said("gemini", body), text.contains(r#""finishReason":"#)),
            "ollama" => (plain::said("ollama-ndjson", body), text.contains(r#""done":true"#)),
            _ => (plain::of_chat(values()), text.ends_with("data: [DONE]\n\n")),
        };
        let got = in_common_words(got);
        if got != *said {
            wrong.push(format!("it says {got:?}, not {said:?}"));
        }
        if !ended {
            wrong.push(format!("it has no end: {:.200}", text));
        }
        wrong
    }

    /// If the recording is cut just before the first payload, nothing was generated; just after it, something was.
    async fn around_the_first_payload(&self, expected: &mut Vec<Expected>) {
        let Some((before, behind, _)) = self.recording.first_payload() else { return };
        for (end, has_token) in [(before, 0), (behind, 1)] {
            let answer = self.send(end.max(1), end, true).await;
            let what = format!("{} for {} cut at byte {end}", self.recording.file, self.surface);
            let columns = vec![("first_token_us IS NOT NULL", json!(has_token))];
            expected.push(Expected { race_id: answer.race_id, what, columns });
        }
    }

    /// It is not an answer, so the client gets an error.
    async fn broken(&self, expected: &mut Vec<Expected>) -> Vec<String> {
        let mut wrong = Vec::new();
        for stream in [true, false] {
            let answer = self.send(1460, self.recording.bytes.len(), stream).await;
            let text = String::from_utf8_lossy(&answer.body);
            let is_whole = ["[DONE]", "response.completed"].iter().any(|end| text.contains(end));
            if is_whole || !text.contains("arguments of a tool call") {
                wrong.push(format!("streaming {stream}: {text}"));
            }
            let what = format!("{} for {}, streaming {stream}", self.recording.file, self.surface);
            let columns = vec![("outcome", json!("failed_mid")), ("failure", json!("malformed"))];
            expected.push(Expected { race_id: answer.race_id, what, columns });
        }
        wrong
    }

    /// An error status, or an error in the stream, is sent in the surface's shape.
    async fn refused(&self, expected: &mut Vec<Expected>) -> Vec<String> {
        let mut wrong = Vec::new();
        for stream in [true, false] {
            let end = self.recording.bytes.len();
            let answer = self.send(end, end, stream).await;
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let is_told = if self.surface == "messages" && self.recording.own_surface != Some("messages") {
                body["type"] == "error" && body["error"]["message"].is_string() && body["error"]["type"].is_string()
            } else if self.surface == "gemini" && self.recording.own_surface != Some("gemini") {
                body["error"]["status"].is_string() && body["error"]["code"] == answer.status
            } else if self.surface == "ollama" && self.recording.own_surface != Some("ollama") {
                body["error"].is_string()
            } else {
                body["error"].is_object() || body["detail"].is_string() || body["detail"].is_object()
            };
            if answer.status < 400 || !is_told {
                wrong.push(format!("streaming {stream}: {} {body}", answer.status));
            }
            let what = format!("{} for {}, streaming {stream}", self.recording.file, self.surface);
            let columns = vec![("outcome", json!("failed")), ("first_token_us", Value::Null)];
            expected.push(Expected { race_id: answer.race_id, what, columns });
        }
        wrong
    }
}
