//! Answers that a provider compresses although it was not asked to: decoded for good answers and errors alike, at once, and within
//! the bounds of plain ones.

use serde_json::json;

use crate::harness::answer::{ending, first_text, read_response};
use crate::harness::coding::{deflate, flushed, from_hex, gzip, zstd};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

const BEGIN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const WHOLE: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
const ERROR: &str = r#"{"error":{"message":"too hot","type":"invalid_request_error"}}"#;

/// The four above, by Node's zlib.
const BROTLI: [&str; 4] = [
    "0b2700309c05766b4bea6d9625ef18d28fdf21ad45f6b660a6024b5f8374a1a569119dafbeb00107ecf33478f2a08387ac3459b42edf48881c9c9e6c5a\
     d051ec4b7b76791d114fef18",
    "800200d1aa7817903818a5c4c3626e4ad43dd6225b307b0b84ac1558bafab68e085ddf14d9eb4b91af30d88003f679a07c5a07a03de0bab5a204398484\
     6b5b0aaf2c3b263f099d1830fdbef34d5f62860103",
    "1b5d00609c077683f3055a58c0e968d1f4b5c8de16cc424b6b1d96aebe25f2e53636f695ef123c4204dd68bcc06df8bcaae028e7e196a7fb581c43d636\
     4096843ff4dc1803098841d00e",
    "1b3d00909c07b6739c5d59109abd733e2d45bef61a2dcd8d4eeab0f4f59b08085dd880139096079e06b16103ce200c1ef03329c38f192e2b0bbb5125053f",
];
const CODINGS: [&str; 4] = ["gzip", "deflate", "zstd", "br"];

fn head(status: u16, content_type: &str, coding: &str) -> Script {
    Script::new().head(status, &[("content-type", content_type), ("content-encoding", coding)])
}

fn stream(coding: &str) -> [Vec<u8>; 2] {
    if coding == "br" { [from_hex(BROTLI[0]), from_hex(BROTLI[1])] } else { flushed(coding, [BEGIN, END]) }
}

fn whole(coding: &str, plain: &str) -> Vec<u8> {
    match coding {
        "gzip" => gzip(plain.as_bytes()),
        "deflate" => deflate(plain.as_bytes()),
        "zstd" => zstd(plain.as_bytes()),
        _ if plain == WHOLE => from_hex(BROTLI[2]),
        _ => from_hex(BROTLI[3]),
    }
}

#[tokio::test]
async fn a_token_goes_down_as_soon_as_it_is_flushed() {
    for coding in CODINGS {
        let read = Gate::new();
        let [begin, end] = stream(coding);
        let script = head(200, "text/event-stream", coding).chunk(begin).wait(&read).chunk(end).end();
        let fake = FakeProvider::start(vec![script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let mut client = gateway.streaming().await;
        let answer = client.head().await;
        assert_eq!((answer.status, answer.header("content-encoding")), (200, None), "{coding}");
        assert_eq!(first_text(&mut client).await, "hi", "{coding}");
        read.open();
        let rest = client.body(&answer).await.unwrap();
        assert!(rest.ends_with(b"data: [DONE]\n\n"), "{coding}: {rest:?}");
        drop(client);
        assert_row!(&gateway.stop().await.attempts[0], json!({"outcome": "won", "finish_reason": "stop"}), "{coding}");
    }
}

#[tokio::test]
async fn whole_answers_and_errors_are_decoded_too() {
    for coding in CODINGS {
        let good = || head(200, "application/json", coding).chunk(whole(coding, WHOLE)).end();
        let bad = |status| head(status, "application/json", coding).chunk(whole(coding, ERROR)).end();
        let fake = FakeProvider::start(vec![good(), bad(400), bad(500)]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let answer = read_response(&mut gateway.whole().await).await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "hi", "{coding}: {}", answer.body);
        let refused = read_response(&mut gateway.whole().await).await;
        assert_eq!((refused.status, refused.body.as_str()), (400, ERROR), "{coding}");
        assert_eq!(refused.header("content-encoding"), "", "{coding}");
        let failed = read_response(&mut gateway.streaming().await).await;
        assert_eq!(failed.json()["error"]["attempts"][0]["message"], "too hot", "{coding}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn byte_by_byte_it_is_the_same() {
    let single = head(200, "text/event-stream", "x-gzip").chunk(stream("gzip").concat()).end().byte_by_byte();
    let fake = FakeProvider::start(vec![single]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let answer = read_response(&mut gateway.streaming().await).await;
    assert_eq!((answer.streamed_text().as_str(), answer.is_done()), ("hi", true));
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_decoded_fails_and_says_so() {
    let cut = || flushed("gzip", [BEGIN, END])[0].clone();
    for (coding, body, streams, message) in [
        ("gzip", gzip(b": hm\n\n")[..12].to_vec(), true, "the answer ends too early: its gzip is not complete"),
        ("gzip", cut(), false, "the answer ends too early: its gzip is not complete"),
        ("gzip", END.into(), true, "the answer is not valid gzip, as its content-encoding says"),
        ("br", END.into(), true, "the answer is not valid br, as its content-encoding says"),
        ("compress", END.into(), true, "the answer has the content-encoding compress, which cannot be decoded"),
        ("gzip, gzip", gzip(&cut()), true, "the answer has more than one content-encoding, which cannot be decoded"),
    ] {
        let fake = FakeProvider::start(vec![head(200, "text/event-stream", coding).chunk(body).end()]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let mut client = if streams { gateway.streaming().await } else { gateway.whole().await };
        let answer = read_response(&mut client).await;
        assert_eq!(answer.status, 502, "{coding}: {}", answer.body);
        assert_eq!(answer.json()["error"]["attempts"][0]["message"], message, "{coding}");
        assert_row!(&gateway.stop().await.attempts[0], json!({"failure": "malformed"}), "{coding}");
    }
    // An error keeps its status.
    let fake = FakeProvider::start(vec![head(500, "application/json", "compress").chunk(ERROR).end()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let answer = read_response(&mut gateway.streaming().await).await;
    let attempt = &answer.json()["error"]["attempts"][0];
    assert_eq!((attempt["failure"].as_str(), attempt["status"].as_u64()), (Some("server_error"), Some(500)));
    assert!(attempt["message"].as_str().unwrap().contains("compress"), "{attempt}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_after_a_token_is_broken() {
    let [begin, end] = stream("gzip");
    let cut = head(200, "text/event-stream", "gzip").chunk(begin).chunk(&end[..5]).end();
    let fake = FakeProvider::start(vec![cut]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let answer = read_response(&mut gateway.streaming().await).await;
    assert!(answer.body.contains("photofinish_stream_broken") && !answer.is_done(), "{}", answer.body);
    assert_eq!(
        ending(&gateway.stop().await.attempts[0]),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "malformed", "failure_phase": "stream"})
    );
}

#[tokio::test]
async fn a_bomb_takes_no_more_than_a_plain_answer_may() {
    let event = [&b"data: "[..], &vec![b'a'; 96 << 20]].concat();
    let empty = ": hm\n\n".repeat(1 << 20).into_bytes();
    let spaces = [&b"{"[..], &vec![b' '; 96 << 20]].concat();
    for (content_type, plain, kind) in [
        ("text/event-stream", &event, "malformed"),
        ("text/event-stream", &empty, "malformed"),
        ("application/json", &spaces, "malformed"),
    ] {
        for (coding, bomb) in [("gzip", gzip(plain)), ("zstd", zstd(plain))] {
            let fake = FakeProvider::start(vec![head(200, content_type, coding).chunk(bomb).end()]).await;
            // A busy machine may read a bomb for longer than the interval.
            let gateway = Setup::over(&[&fake]).race("keepalive = \"off\"").start().await;
            let answer = read_response(&mut gateway.streaming().await).await;
            assert_eq!(answer.status, 502, "{coding}: {}", answer.body);
            let message = answer.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
            assert!(message.contains("bytes"), "{coding}: {message}");
            assert_row!(&gateway.stop().await.attempts[0], json!({"failure": kind}), "{coding}");
        }
    }
}
