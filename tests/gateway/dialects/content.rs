//! Content: what a request is about is never dropped unless the operator says so. Not for settings and forms: see `requests`.

use serde_json::{Value, json};

use super::requests::with;
use crate::harness::answer::read_response;
use crate::harness::gateway::Setup;
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

/// What a chat or a message is about, and no upstream of the dialect can take.
fn of_messages() -> Vec<(Surface, Dialect, Value, &'static str)> {
    use Surface::{Chat, Messages};
    let parts = |parts: Value| json!({"messages": [{"role": "user", "content": parts}]});
    vec![
        (Chat, Dialect::Anthropic, parts(json!([{"type": "file", "file": {"file_id": "file-1"}}])), "file_id"),
        (
            Chat,
            Dialect::Ollama,
            parts(json!([{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}])),
            "image_url",
        ),
        (
            Chat,
            Dialect::Bedrock,
            parts(json!([{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}])),
            "messages[0]",
        ),
        (
            Chat,
            Dialect::Anthropic,
            parts(json!([{"type": "text", "text": "x", "attached": "more"}])),
            "messages[0].content[0].attached",
        ),
        (Chat, Dialect::Gemini, json!({"web_search_options": {}}), "web_search_options"),
        (
            Chat,
            Dialect::Anthropic,
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "audio": {"id": "a"}}]}),
            "messages[1].audio",
        ),
        (
            Messages,
            Dialect::OpenAi,
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
            "web_search",
        ),
        (
            Messages,
            Dialect::OpenAi,
            parts(json!([{"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}}])),
            "source.url",
        ),
        (
            Messages,
            Dialect::Gemini,
            parts(json!([{"type": "search_result", "source": "s", "title": "t", "content": []}])),
            "messages[0].content[0]",
        ),
        (
            Messages,
            Dialect::OpenAi,
            json!({"mcp_servers": [{"type": "url", "url": "https://x.test", "name": "n"}]}),
            "mcp_servers",
        ),
    ]
}

/// The same of the other surfaces.
fn of_others() -> Vec<(Surface, Dialect, Value, &'static str)> {
    use Surface::{Gemini, Ollama, Responses};
    let items = |items: Value| json!({"input": items});
    vec![
        (Responses, Dialect::Anthropic, json!({"input": null, "prompt": {"id": "p"}}), "prompt"),
        (Responses, Dialect::OpenAi, json!({"tools": [{"type": "web_search"}]}), "web_search"),
        (
            Responses,
            Dialect::OpenAi,
            items(
                json!([{"role": "user", "content": "x"}, {"type": "compaction", "encrypted_content": "of a vendor"}]),
            ),
            "compaction",
        ),
        (
            Responses,
            Dialect::Gemini,
            items(json!([{"role": "user", "content": "x"}, {"type": "of_tomorrow", "x": 1}])),
            "of_tomorrow",
        ),
        (Gemini, Dialect::OpenAi, json!({"cachedContent": "cachedContents/x"}), "cachedContent"),
        (Gemini, Dialect::OpenAi, json!({"tools": [{"googleSearch": {}}]}), "googleSearch"),
        (
            Ollama,
            Dialect::Bedrock,
            json!({"messages": [{"role": "user", "content": "x", "attached": ["y"]}]}),
            "messages[0].attached",
        ),
    ]
}

/// The default loses nothing of it, and neither does `refuse`. Only `drop` does.
#[tokio::test]
async fn content_is_refused_by_name_unless_the_operator_lets_it_go() {
    for (surface, dialect, members, name) in of_messages().into_iter().chain(of_others()) {
        let pair = Pair { surface, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        let ask = with(surface, &members);
        for lossy in ["prefer", "refuse"] {
            let mut client = gateway.request(surface.path(), &[("x-photofinish-lossy", lossy)], &ask).await;
            let response = read_response(&mut client).await;
            assert_eq!(response.status, 400, "{lossy} {members}: {}", response.body);
            let (_, message) = surface.error(&response);
            assert!(message.contains(&format!("`{name}")), "{members}: {message}");
            assert!(message.contains(dialect.name()), "the reason: {message}");
            assert!(message.contains("lossy: drop"), "what would help: {message}");
        }
        assert!(fake.requests().is_empty(), "{members}");
        let mut client = gateway.request(surface.path(), &[("x-photofinish-lossy", "drop")], &ask).await;
        let response = read_response(&mut client).await;
        assert_eq!(response.status, 200, "{members}: {}", response.body);
        assert!(response.header("x-photofinish-dropped").contains(name), "{members}");
        gateway.stop().await;
    }
}

/// While the only upstream that can take a picture cools down or is broken, the answer is its 429 or 502, not another model's
/// guess without it.
#[tokio::test]
async fn content_waits_for_the_upstream_that_can_take_it() {
    for (dialect, status, expected) in
        [(Dialect::Ollama, 429, 429), (Dialect::Bedrock, 429, 429), (Dialect::Ollama, 500, 502)]
    {
        let sees = FakeProvider::answering(move |_| Script::status(status, &[("retry-after", "60")], "{}")).await;
        let blind = FakeProvider::start(vec![]).await;
        let setup = Setup::new().provider("sees", &sees, "");
        let setup = setup.provider("blind", &blind, &format!("dialect = \"{}\"", dialect.name()));
        let gateway = setup.start().await;
        let image = json!([{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]);
        let ask = json!({"model": "m", "messages": [{"role": "user", "content": image}]});
        // Five failures open the breaker.
        for _ in 0..7 {
            let response = read_response(&mut gateway.ask(&ask).await).await;
            assert_eq!(response.status, expected, "{}", response.body);
            assert_eq!(response.header("retry-after").is_empty(), expected == 502, "{:?}", response.headers);
        }
        gateway.stop().await;
        assert!(blind.requests().is_empty());
    }
}
