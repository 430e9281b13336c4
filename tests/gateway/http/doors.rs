//! Requests as clients send them: encoded bodies, a WebSocket first, desktop apps with a token; and calls that are refused with a
//! true sentence.

use serde_json::json;

use crate::harness::answer::Response;
use crate::harness::coding::{deflate, gzip, zstd};
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Script};

/// `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, by Node's zlib.
const BROTLI: [u8; 53] = [
    0x1b, 0x38, 0x00, 0x40, 0x1c, 0x07, 0x76, 0x8c, 0xb3, 0x85, 0x39, 0x1c, 0x6c, 0xe7, 0xb5, 0xc8, 0x5e, 0xda, 0xd6,
    0x68, 0x6b, 0x16, 0x9d, 0xae, 0x3e, 0xe0, 0x90, 0x03, 0xa7, 0x03, 0x65, 0x6d, 0x81, 0x7c, 0x5e, 0x67, 0x36, 0x1d,
    0x96, 0x84, 0x7a, 0x82, 0x3c, 0xb9, 0x64, 0x96, 0x4c, 0x03, 0x80, 0xc5, 0x77, 0xef, 0x06,
];

async fn served(settings: &str, more: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{settings}{}[models.m]\nupstreams = [\"one/x\"]\n{more}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

async fn sent(served: &RunningGateway, coding: &str, body: &[u8]) -> Response {
    let headers = [("content-type", "application/json"), ("content-encoding", coding)];
    served.send("POST", CHAT, &headers, body).await
}

#[tokio::test]
async fn encoded_bodies_are_decoded() {
    let (fake, served) = served("", "").await;
    let small = asking("m").to_string();
    let large = json!({"model": "m", "messages": [{"role": "user", "content": "ab".repeat(200_000)}]}).to_string();
    for plain in [&small, &large] {
        for (coding, body) in [
            ("gzip", gzip(plain.as_bytes())),
            ("X-GZip", gzip(plain.as_bytes())),
            ("deflate", deflate(plain.as_bytes())),
            ("zstd", zstd(plain.as_bytes())),
            ("identity", plain.clone().into_bytes()),
            ("gzip, identity", gzip(plain.as_bytes())),
        ] {
            let answer = sent(&served, coding, &body).await;
            assert_eq!(answer.status, 200, "{coding}: {}", answer.body);
            let up = fake.requests().pop().unwrap();
            assert_eq!(up.header("content-encoding"), None, "{coding}");
            assert_eq!(
                up.json()["messages"],
                serde_json::from_str::<serde_json::Value>(plain).unwrap()["messages"],
                "{coding}"
            );
        }
    }
    assert_eq!(sent(&served, "br", &BROTLI).await.status, 200);
    assert_eq!(fake.requests().pop().unwrap().json()["messages"][0]["content"], "hi");
}

#[tokio::test]
async fn what_cannot_be_decoded_is_refused_and_no_provider_is_asked() {
    let (fake, served) = served("server.body_max = \"1MiB\"\n", "").await;
    let plain = asking("m").to_string();
    let (whole, bomb) = (gzip(plain.as_bytes()), vec![b' '; 8 << 20]);
    for (coding, body, status, code) in [
        ("gzip", &whole[..whole.len() - 3], 400, "photofinish_invalid_request"),
        ("gzip", plain.as_bytes(), 400, "photofinish_invalid_request"),
        ("br", plain.as_bytes(), 400, "photofinish_invalid_request"),
        ("zstd", plain.as_bytes(), 400, "photofinish_invalid_request"),
        ("gzip", &b""[..], 400, "photofinish_invalid_request"),
        ("zstd", &zstd(&bomb)[..], 413, "photofinish_too_large"),
        ("gzip", &gzip(&bomb)[..], 413, "photofinish_too_large"),
        ("deflate", &deflate(&bomb)[..], 413, "photofinish_too_large"),
    ] {
        let answer = sent(&served, coding, body).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (status, code), "{coding}: {}", answer.body);
    }
    for coding in ["gzip, zstd", "compress", "aws-chunked"] {
        let answer = sent(&served, coding, &whole).await;
        assert_eq!(
            (answer.status, answer.error_code().as_str()),
            (415, "photofinish_unsupported_encoding"),
            "{coding}"
        );
        assert_eq!(answer.header("accept-encoding"), "zstd, br, gzip, deflate");
    }
    assert!(fake.requests().is_empty());
    assert_eq!(sent(&served, "gzip", &whole).await.status, 200, "nothing of it stays");
}

#[tokio::test]
async fn forms_and_other_calls_may_be_encoded_too() {
    let fake =
        FakeProvider::answering(|_| Script::status(200, &[("content-type", "application/json")], "{\"text\":\"hi\"}"))
            .await;
    let config = format!("{}[models.m]\nupstreams = [\"one/x\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let form = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=b"), ("content-encoding", "gzip")];
    let answer = served.send("POST", "/v1/audio/transcriptions", &headers, gzip(form.as_bytes())).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let up = String::from_utf8(fake.requests()[0].body.to_vec()).unwrap();
    assert!(up.contains("RIFF") && up.contains("\r\n\r\nx\r\n"), "{up}");
    let shown = served.send("POST", "/api/show", &[("content-encoding", "gzip")], gzip(b"{\"model\":\"m\"}")).await;
    assert_eq!(shown.status, 200, "{}", shown.body);
}

#[tokio::test]
async fn a_websocket_is_refused_at_once_with_426() {
    let (_fake, served) = served("server.websocket = false\n", "").await;
    let handshake = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (path, plain) in [("/v1/responses", 405), ("/responses", 405), (CHAT, 405), ("/v1", 404)] {
        let answer = served.send("GET", path, &handshake, "").await;
        assert_eq!((answer.status, answer.error_code().as_str()), (426, "photofinish_no_websocket"), "{path}");
        assert_eq!(answer.header("upgrade"), "HTTP/1.1", "{path}");
        assert_eq!(served.get(path, &[]).await.status, plain, "{path}");
    }
}
