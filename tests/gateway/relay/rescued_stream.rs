//! A streamed answer that breaks off and is continued by another upstream within the same stream.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{advance_clock_until, ending, error_and_close, first_text, read_response, silent};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row, assert_rows};
use crate::harness::matrix::{Pair, rules};
use crate::harness::samples::calling;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    a_replayed_answer_continues_after_the_delivered_text,
    a_replayed_answer_with_other_text_is_never_delivered,
}
rules! { a_continuation_ends_as_its_upstream_did:
    chat_over_gemini: Chat, Gemini;
    messages_over_gemini: Messages, Gemini;
    responses_over_gemini: Responses, Gemini;
    ollama_over_gemini: Ollama, Gemini;
    gemini: Gemini, Gemini;
    chat_over_ollama: Chat, Ollama;
}
rules! { over_chat: a_prefixed_answer_continues_after_the_delivered_text }
rules! { of_four_hundred_calls_that_break_none_breaks_for_the_client:
    chat: Chat, OpenAi;
    messages: Messages, Anthropic;
    responses: Responses, Responses;
    messages_over_chat: Messages, OpenAi;
    responses_over_chat: Responses, OpenAi;
}

const CONTINUE: &str = "policy = \"fallback\"\nrescue = \"continue\"";

fn dies() -> Script {
    Script::sse().role().tokens(&["hel", "lo"]).close()
}

/// A gateway over `a` and `b`; `b` continues a given beginning.
async fn prefixing(a: &FakeProvider, b: &FakeProvider) -> TestGateway {
    Setup::new().provider("a", a, "").provider("b", b, "prefix = \"plain\"").race(CONTINUE).start().await
}

async fn a_replayed_answer_continues_after_the_delivered_text(pair: Pair) {
    let a = FakeProvider::start(vec![pair.open().role().tokens(&["hel", "lo"]).close()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["he", "llo wor", "ld"])]).await;
    let gateway = pair.over(&[&a, &b]).race(CONTINUE).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "hello world", "{}", response.body);
    // Lines of JSON have no comments, and Google's clients take one for an event.
    let marks = usize::from(!matches!(pair.surface, Surface::Ollama | Surface::Gemini));
    assert_eq!(response.body.matches(": photofinish rescued by b/m\n\n").count(), marks, "{}", response.body);
    assert_eq!(response.header("trailer"), "x-photofinish-rescued");
    let rows = gateway.stop().await;
    assert_eq!(rows.one("a")["outcome"], "failed_mid");
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "rescue", "ordinal": 1}));
    assert_row!(&rows.races[0], json!({"outcome": "ok", "winner": 0, "rescued_by": 1, "attempts": 2}));
}

async fn a_replayed_answer_with_other_text_is_never_delivered(pair: Pair) {
    let a = FakeProvider::start(vec![pair.open().role().tokens(&["hel", "lo"]).close(), silent()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["help", " yourself"])]).await;
    let gateway =
        pair.over(&[&a, &b]).race(&format!("{CONTINUE}\ntimeouts = {{ first_token = \"200ms\" }}")).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_broken(&response);
    assert_eq!(pair.surface.streamed_text(&response), "hello", "{}", response.body);
    let rows = gateway.stop().await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "failure": null, "start_reason": "rescue"}));
    let ends: Vec<&Value> = rows.of(0).iter().map(|row| &row["outcome"]).collect();
    assert_eq!(ends, ["failed_mid", "lost", "timeout"], "the one that broke is asked last");
    assert_row!(&rows.races[0], json!({"outcome": "error", "winner": 0, "rescued_by": null}));
}

async fn a_prefixed_answer_continues_after_the_delivered_text(pair: Pair) {
    let a = FakeProvider::start(vec![pair.open().role().tokens(&["hel", "lo"]).close()]).await;
    let b = FakeProvider::start(vec![pair.stream(&[" wor", "ld"])]).await;
    let gateway = prefixing(&a, &b).await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "hello world", "{}", response.body);
    let asked = b.requests()[0].json();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap(), &json!({"role": "assistant", "content": "hello"}));
    assert_eq!(messages.len(), a.requests()[0].json()["messages"].as_array().unwrap().len() + 1);
    gateway.stop().await;
}

/// Gemini has no event for the end: its translation gives the last ones when the body ends.
async fn a_continuation_ends_as_its_upstream_did(pair: Pair) {
    let a = FakeProvider::start(vec![pair.open().role().tokens(&["hel", "lo"]).close()]).await;
    let script = pair.open().role().tokens(&["hello", " you"]).finish("length").done().end();
    let b = FakeProvider::start(vec![script]).await;
    let gateway = pair.over(&[&a, &b]).race(CONTINUE).start().await;
    let mut body = pair.surface.body("m", true);
    if pair.surface == Surface::Chat {
        body["stream_options"] = json!({"include_usage": true});
    }
    let response = read_response(&mut gateway.post(&pair.surface.path_for("m", true), &body).await).await;
    pair.surface.assert_complete(&response);
    let ends: [&str; 2] = match pair.surface {
        Surface::Chat => ["\"finish_reason\":\"length\"", "\"completion_tokens\":"],
        Surface::Messages => ["\"stop_reason\":\"max_tokens\"", "\"output_tokens\":"],
        Surface::Responses => ["\"reason\":\"max_output_tokens\"", "\"output_tokens\":"],
        Surface::Ollama => ["\"done_reason\":\"length\"", "\"eval_count\":"],
        Surface::Gemini => ["\"finishReason\":\"MAX_TOKENS\"", "\"candidatesTokenCount\":"],
    };
    ends.iter().for_each(|end| assert!(response.body.contains(end), "{end}: {}", response.body));
    gateway.stop().await;
}

#[tokio::test]
async fn an_anthropic_prefix_has_no_blank_at_its_end() {
    let pair = Pair { surface: Surface::Messages, dialect: Dialect::Anthropic };
    let a = FakeProvider::start(vec![pair.open().role().tokens(&["hello", " "]).close()]).await;
    let b = FakeProvider::start(vec![pair.stream(&[" wor", "ld"])]).await;
    let line = format!("{}\nprefix = \"plain\"", pair.lines());
    let gateway = Setup::new().provider("a", &a, &pair.lines()).provider("b", &b, &line).race(CONTINUE).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "hello world", "{}", response.body);
    assert_eq!(b.requests()[0].json()["messages"][1], json!({"role": "assistant", "content": "hello"}));
    // Both reported usage: 10 input tokens each; output tokens 1 so far in the first and 2 in the second.
    let delta = response.events().into_iter().find(|event| event.contains("message_delta")).unwrap();
    let usage = &serde_json::from_str::<Value>(&delta).unwrap()["usage"];
    assert_eq!(pick_usage(usage), [14, 6, 3]);
    gateway.stop().await;
}

fn pick_usage(usage: &Value) -> [i64; 3] {
    ["input_tokens", "cache_read_input_tokens", "output_tokens"].map(|name| usage[name].as_i64().unwrap_or(-1))
}

#[tokio::test]
async fn a_refused_prefix_is_replayed() {
    let a = FakeProvider::start(vec![dies(), error_and_close(500, "{}")]).await;
    let refusal = error_and_close(400, r#"{"error":{"message":"no prefill","type":"invalid_request_error"}}"#);
    let b = FakeProvider::start(vec![refusal, Script::stream(&["hello", " you"])]).await;
    let gateway = prefixing(&a, &b).await;
    let response = read_response(&mut gateway.streaming().await).await;
    Surface::Chat.assert_complete(&response);
    assert_eq!(response.streamed_text(), "hello you");
    assert!(!response.body.contains("no prefill"), "{}", response.body);
    assert_eq!(b.requests()[1].json()["messages"], json!([{}]));
    let rows = gateway.stop().await;
    assert_rows(
        &rows.of(0),
        &[
            json!({"provider": "a", "outcome": "failed_mid", "failure": "closed"}),
            json!({"provider": "b", "outcome": "failed", "failure": "bad_request"}),
            json!({"provider": "b", "outcome": "won", "failure": null}),
        ],
    );
    assert_eq!(rows.races[0]["rescued_by"], 2);
}

#[tokio::test]
async fn a_refusal_on_policy_ends_a_rescue_unless_others_may_be_asked() {
    let refusal = r#"{"error":{"message":"flagged","type":"invalid_request_error","code":"content_policy_violation"}}"#;
    for (content_policy, asks_c) in [("stop", false), ("continue", true)] {
        let a = FakeProvider::start(vec![dies(), error_and_close(500, "{}")]).await;
        let b = FakeProvider::start(vec![error_and_close(400, refusal)]).await;
        let c = FakeProvider::start(vec![Script::stream(&["hello", " you"])]).await;
        let setup = Setup::over(&[&a, &b, &c]).race(CONTINUE);
        let gateway = setup.race(&format!("content_policy = \"{content_policy}\"")).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        assert_eq!(
            response.streamed_text(),
            if asks_c { "hello you" } else { "hello" },
            "{content_policy}: {}",
            response.body
        );
        assert_eq!((response.is_done(), c.requests().len()), (asks_c, usize::from(asks_c)), "{content_policy}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_rescuing_stream_may_break_off_too() {
    let a = FakeProvider::start(vec![dies(), error_and_close(500, "{}")]).await;
    let b = FakeProvider::start(vec![Script::sse().role().tokens(&["hello", " wor"]).error().close()]).await;
    let c = FakeProvider::start(vec![Script::stream(&["hello world", "!"])]).await;
    let gateway = Setup::over(&[&a, &b, &c]).race(CONTINUE).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    Surface::Chat.assert_complete(&response);
    assert_eq!(response.streamed_text(), "hello world!", "{}", response.body);
    let rows = gateway.stop().await;
    let ended = |provider: &str, outcome: &str| json!({"provider": provider, "outcome": outcome});
    assert_rows(
        &rows.of(0),
        &[ended("a", "failed_mid"), ended("b", "failed_mid"), ended("a", "failed"), ended("c", "won")],
    );
    assert_row!(&rows.races[0], json!({"winner": 0, "rescued_by": 3, "outcome": "ok"}));
}

#[tokio::test]
async fn an_error_frame_and_an_idle_upstream_are_rescued() {
    let frames = [
        Script::sse().role().tokens(&["hel", "lo"]).error().until_closed(),
        Script::sse().role().tokens(&["hel", "lo"]).until_closed(),
    ];
    for script in frames {
        let a = FakeProvider::start(vec![script]).await;
        let b = FakeProvider::start(vec![Script::stream(&["hello", " you"])]).await;
        let gateway =
            Setup::over(&[&a, &b]).race(&format!("{CONTINUE}\ntimeouts = {{ idle = \"300ms\" }}")).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        Surface::Chat.assert_complete(&response);
        assert_eq!(response.streamed_text(), "hello you", "{}", response.body);
        a.closed(0).await;
        gateway.stop().await;
    }
}

/// The fragments of a call, without its finish. OpenAI's first one has no arguments.
fn fragments() -> [Value; 3] {
    let more = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let begins = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}});
    [json!({"tool_calls": [begins]}), more("{\"x\":"), more("\"broken\"}")]
}

#[tokio::test]
async fn a_call_that_breaks_off_is_replayed_unseen() {
    for (words, count) in [("hm", 1), ("hm", 2), ("hm", 3), ("", 1), ("", 3)] {
        let spoken = |script: Script| if words.is_empty() { script } else { script.token(words) };
        // Some send their role with the first fragment.
        let begun = |begins: Script| fragments().into_iter().take(count).fold(spoken(begins), Script::delta);
        let a = FakeProvider::start(vec![
            begun(if words.is_empty() { Script::sse() } else { Script::sse().role() }).close(),
        ])
        .await;
        let whole = json!({"tool_calls": [{"index": 0, "id": "c2", "type": "function", "function": {"name": "g", "arguments": "{\"x\":1}"}}]});
        let b = FakeProvider::start(vec![
            spoken(Script::sse().role()).delta(whole).finish("tool_calls").usage(3, 4).done().end(),
        ])
        .await;
        let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        Surface::Chat.assert_complete(&response);
        assert_eq!(response.streamed_text(), words, "{}", response.body);
        assert!(!response.body.contains("c1") && !response.body.contains("broken"), "{count}: {}", response.body);
        assert_eq!(response.body.matches("\"c2\"").count(), 1, "{count}: {}", response.body);
        assert!(!response.body.contains("\"usage\":{"), "the client did not ask for it: {}", response.body);
        let rows = gateway.stop().await;
        assert_row!(&rows.races[0], json!({"outcome": "ok", "rescued_by": 1}));
    }
}

/// A quarter of the streams breaks off after its first token: within the call, and before the answer's end.
async fn of_four_hundred_calls_that_break_none_breaks_for_the_client(pair: Pair) {
    const REQUESTS: usize = 400;
    const ARGUMENTS: &str = r#"{"path":"a"}"#;
    let breaking = AtomicUsize::new(0);
    let a = FakeProvider::answering(move |_| {
        let ordinal = breaking.fetch_add(1, Ordering::Relaxed);
        let mut script = calling(pair.dialect, ARGUMENTS);
        if ordinal % 4 != 3 {
            return script;
        }
        // The head, the opening and the beginning of the call; half of them its arguments too.
        script.steps.truncate(3 + ordinal / 4 % 2);
        script.close()
    })
    .await;
    let b = FakeProvider::answering(move |_| calling(pair.dialect, ARGUMENTS)).await;
    // The one that breaks stays the first one.
    let race = "policy = \"fallback\"\nrescue = \"replay\"\nbreaker = { failures = 0 }\nkeepalive = \"off\"";
    let gateway = pair.over(&[&a, &b]).race(race).start().await;
    let mut broken = 0;
    for _ in 0..REQUESTS {
        let response = read_response(&mut pair.streaming(&gateway).await).await;
        let is_whole = response.body.contains(r#"{\"path\":\"a\"}"#) && !response.body.contains("photofinish_");
        if is_whole {
            pair.surface.assert_complete(&response);
        }
        broken += usize::from(!is_whole);
    }
    assert_eq!(broken, 0, "of {REQUESTS}");
    let rows = gateway.stop().await;
    let rescued = rows.races.iter().filter(|race| !race["rescued_by"].is_null()).count();
    assert_eq!(rescued, REQUESTS / 4, "all of them had begun");
}

#[tokio::test]
async fn a_client_hears_something_while_a_call_is_held_and_another_upstream_is_asked() {
    let (held, answers) = (Gate::new(), Gate::new());
    let begun = fragments().into_iter().take(2).fold(Script::sse().role().token("hm"), Script::delta);
    let a = FakeProvider::start(vec![begun.wait(&held).close()]).await;
    let whole = json!({"tool_calls": [{"index": 0, "id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]});
    let b = FakeProvider::start(vec![
        Script::new()
            .wait(&answers)
            .then(Script::sse().role().token("hm").delta(whole).finish("tool_calls").done().end()),
    ])
    .await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nrescue = \"replay\"").start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "hm");
    // Not a byte comes from the first one, and then none from the second.
    for gate in [held, answers] {
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            assert_eq!(advance_clock_until(client.chunk()).await.unwrap().unwrap(), ": keep-alive\n\n");
            assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
        }
        gate.open();
        b.request(0).await;
    }
    let mut rest = String::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        rest.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(rest.contains("\"c2\"") && rest.contains("[DONE]") && !rest.contains("c1"), "{rest}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_whole_call_of_the_winner_comes_as_it_was_and_is_not_replayed() {
    let call = fragments().into_iter().fold(Script::sse().role(), Script::delta);
    let a = FakeProvider::start(vec![call.clone().finish("tool_calls").done().end()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["no"])]).await;
    let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    Surface::Chat.assert_complete(&response);
    let arguments: String = response
        .events()
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(arguments, r#"{"x":"broken"}"#, "{}", response.body);
    assert!(b.requests().is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn several_choices_are_not_rescued() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
    let body = json!({"model": "m", "stream": true, "n": 2, "messages": [{}]});
    let response = read_response(&mut gateway.ask(&body).await).await;
    Surface::Chat.assert_broken(&response);
    assert!(b.requests().is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_completion_is_rescued_by_a_longer_prompt() {
    let chunk = |text: &str| json!({"id": "c", "object": "text_completion", "created": 1, "model": "f", "choices": [{"index": 0, "text": text, "finish_reason": null}]});
    let last = json!({"id": "d", "choices": [{"index": 0, "text": "", "finish_reason": "length"}]});
    let a = FakeProvider::start(vec![Script::sse().event(chunk("once upon")).close()]).await;
    let b = FakeProvider::start(vec![Script::sse().event(chunk(" a time")).event(last).done().end()]).await;
    let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
    let body = json!({"model": "m", "stream": true, "prompt": "Tell:"});
    let response = read_response(&mut gateway.post("/v1/completions", &body).await).await;
    let chunks: Vec<Value> = response.events().iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let said: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!((said.as_str(), response.is_done()), ("once upon a time", true), "{}", response.body);
    assert!(chunks.iter().all(|chunk| chunk["id"] == "c"), "{}", response.body);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
    assert_eq!(b.requests()[0].json()["prompt"], "Tell:once upon");
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_rescue() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::new().until_closed()]).await;
    let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "hel");
    b.request(0).await;
    client.close();
    b.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "client_gone", "ttft_event": 0, "censor_cause": "client_gone"})
    );
    assert_row!(&rows.races[0], json!({"outcome": "client_gone", "rescued_by": null}));
}

#[tokio::test]
async fn shutdown_starts_no_rescue() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::new().until_closed()]).await;
    let gateway = Setup::over(&[&a, &b]).server("drain = \"100ms\"").race(CONTINUE).start().await;
    let mut client = gateway.streaming().await;
    b.request(0).await;
    let (rows, response) = tokio::join!(gateway.stop(), read_response(&mut client));
    Surface::Chat.assert_broken(&response);
    assert_eq!(rows.one("b")["outcome"], "shutdown");
    assert_eq!(rows.races[0]["outcome"], "shutdown");
}

#[tokio::test]
async fn a_trailer_names_the_rescuing_upstream() {
    let gate = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().tokens(&["hel", "lo"]).wait(&gate).close()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello", " you"])]).await;
    let gateway = Setup::over(&[&a, &b]).race(CONTINUE).start().await;
    let body = json!({"model": "m", "stream": true, "messages": [{}]});
    let mut client = gateway.request(CHAT, &[("te", "trailers"), ("connection", "te")], &body).await;
    client.head().await;
    gate.open();
    let trailer = client.read_until("0\r\nx-photofinish-rescued: b/m\r\n\r\n").await;
    assert!(trailer.contains("[DONE]"), "{trailer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_continuation_is_cut_to_what_is_new_or_refused() {
    let dies = || Script::sse().role().tokens(&["The capital of ", "France is"]).close();
    let finished = |script: Script| script.finish("stop").done().end();
    for (says, text, outcome) in [
        (&["The capital of France", " is Paris."][..], Some("The capital of France is Paris."), "won"),
        (&["capital of France is", " Paris."], Some("The capital of France is Paris."), "won"),
        (&[" Paris."], Some("The capital of France is Paris."), "won"),
        // The first one broke off: an empty answer does not say that it was whole.
        (&[], None, "empty"),
        (&["", " ", "\n"], None, "lost"),
        (&["The capital of France"], None, "lost"),
    ] {
        let a = FakeProvider::start(vec![dies(), silent()]).await;
        let b = FakeProvider::answering(move |_| finished(Script::sse().role().tokens(says))).await;
        let race = format!("{CONTINUE}\nmax_attempts = 1\ntimeouts = {{ first_token = \"200ms\" }}");
        let gateway =
            Setup::new().provider("a", &a, "").provider("b", &b, "prefix = \"plain\"").race(&race).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        match text {
            Some(text) => {
                assert_eq!(response.streamed_text(), text, "{says:?}");
                Surface::Chat.assert_complete(&response);
            }
            None => {
                Surface::Chat.assert_broken(&response);
                assert_eq!(response.streamed_text(), "The capital of France is", "{says:?}");
            }
        }
        let rows = gateway.stop().await;
        assert_eq!(rows.of(0).iter().find(|row| row["provider"] == "b").unwrap()["outcome"], outcome, "{says:?}");
        let rescued_by = if text.is_some() { json!(1) } else { Value::Null };
        assert_eq!(rows.races[0]["rescued_by"], rescued_by, "{says:?}");
    }
}
