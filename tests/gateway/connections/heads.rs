//! The heads of answers over HTTP/1.1 and HTTP/2: how many headers they may have, how long they may be, and what they say of the body.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http2::Secure;
use crate::harness::answer::read_response;
use crate::harness::coding::gzip;
use crate::harness::gateway::Setup;
use crate::support::{FakeProvider, Script, Step};

#[tokio::test]
async fn an_answer_has_256_headers_and_no_more() {
    // The fake provider adds one for a chunked body.
    for (more, bytes, is_good) in
        [(253, 1, true), (254, 1, true), (256, 1, false), (5_000, 1, false), (1, 300_000, false)]
    {
        let value = "v".repeat(bytes);
        let names: Vec<String> = (0..more).map(|n| format!("x-h-{n}")).collect();
        let mut headers = vec![("content-type", "text/event-stream")];
        headers.extend(names.iter().map(|name| (name.as_str(), value.as_str())));
        let fake = FakeProvider::start(vec![
            Script::new().head(200, &headers).token("hello").finish("stop").done().end(),
            Script::stream(&["hello"]),
        ])
        .await;
        let gateway = Setup::over(&[&fake]).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        if is_good {
            assert_eq!(response.streamed_text(), "hello", "{more}");
        } else {
            let message = response.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
            assert_eq!((response.status, message.contains("more than 256 headers")), (502, true), "{more}: {message}");
            assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_compressed_answer_is_decoded() {
    let plain =
        "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")];
    let script = Script::new().head(200, &headers).chunk(gzip(plain.as_bytes())).end();
    let fake = FakeProvider::start_tls(&["h2"], vec![script]).await;
    let gateway = Secure::over(&fake).await;
    assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    gateway.end().await;
}

#[tokio::test]
async fn an_answer_has_as_many_headers_as_over_http1() {
    let fake = FakeProvider::by_hand(&["h2"], move |stream, _| async move {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        let mut more = [255, 256, 1_500].into_iter();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut head = http::Response::builder().header("content-type", "text/event-stream");
            for n in 0..more.next().unwrap_or(0) {
                head = head.header(format!("x-h-{n}"), "v");
            }
            let Ok(mut body) = respond.send_response(head.body(()).unwrap(), false) else { continue };
            for step in Script::stream(&["hello"]).steps {
                if let Step::Chunk(bytes) = step {
                    let _ = body.send_data(bytes, false);
                }
            }
            let _ = body.send_data(Bytes::new(), true);
        }
    })
    .await;
    let gateway = Secure::over(&fake).await;
    assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    for _ in 0..2 {
        let response = read_response(&mut gateway.ask(true).await).await;
        let message = response.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
        assert_eq!((response.status, message.contains("256 headers")), (502, true), "{message}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_named() {
    let fake = FakeProvider::by_hand(&["h2"], move |mut stream, _| async move {
        let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| {
            let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
            [&length[1..], &[kind, flags, 0, 0, 0, id], payload].concat()
        };
        // Its preface, and frames up to the request.
        let mut head = [0; 24];
        let _ = stream.read_exact(&mut head).await;
        let id = loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return;
            }
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            let _ = stream.read_exact(&mut payload).await;
            if head[3] == 1 {
                break head[8];
            }
        };
        // `:status: 200`, and `x` with 70,000 letters.
        let mut block = vec![0x88, 0x00, 1, b'x', 0x7F, 0xF1, 0xA1, 0x04];
        block.extend_from_slice(&[b'a'; 70_000]);
        let mut sent = [frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat();
        let parts: Vec<&[u8]> = block.chunks(16_000).collect();
        for (n, part) in parts.iter().enumerate() {
            sent.extend(frame(if n == 0 { 1 } else { 9 }, if n + 1 == parts.len() { 4 } else { 0 }, id, part));
        }
        let _ = stream.write_all(&sent).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let response = read_response(&mut gateway.ask(true).await).await;
    let message = response.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!((response.status, message.contains("256 headers")), (502, true), "{message}");
    gateway.end().await;
}
