//! Providers that answer over HTTP/2 that they want HTTP/1.1.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::http2::{Secure, Tls, answer, ok};
use crate::harness::answer::read_response;
use crate::harness::gateway::assert_row;
use crate::support::{FakeProvider, Script};

#[tokio::test]
async fn a_provider_that_requires_http1_gets_http1() {
    let asked_over_http2 = Arc::new(AtomicUsize::new(0));
    let count = asked_over_http2.clone();
    let fake = FakeProvider::by_hand(&["h2", "http/1.1"], move |stream: Tls, _| {
        let count = count.clone();
        async move {
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    let _: &mut SendResponse<Bytes> = &mut respond;
                    respond.send_reset(Reason::HTTP_1_1_REQUIRED);
                }
                return;
            }
            let service = service_fn(|_| async {
                let body = Full::new(Bytes::from(Script::stream(&["hello"]).body()));
                Ok::<_, std::convert::Infallible>(ok().map(|()| body))
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let gateway = Secure::over(&fake).await;
    for _ in 0..3 {
        assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    }
    let rows = gateway.end().await;
    assert_eq!(asked_over_http2.load(Ordering::Relaxed), 1, "it is remembered");
    assert_eq!(rows.attempts.len(), 3);
    for attempt in &rows.attempts {
        assert_row!(attempt, json!({"outcome": "won", "http_version": "1.1"}));
    }
}

#[tokio::test]
async fn a_provider_that_requires_http1_and_does_not_speak_it_gets_http2_again() {
    // Without HTTP/1.1 in TLS, and with a server of HTTP/1.1 that hangs up.
    for protocols in [&["h2"][..], &["h2", "http/1.1"]] {
        let asked_over_http2 = Arc::new(AtomicUsize::new(0));
        let count = asked_over_http2.clone();
        let fake = FakeProvider::by_hand(protocols, move |stream: Tls, _| {
            let count = count.clone();
            async move {
                if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    return;
                }
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_, respond))) = connection.accept().await {
                    let mut respond: SendResponse<Bytes> = respond;
                    match count.fetch_add(1, Ordering::Relaxed) {
                        0 => respond.send_reset(Reason::HTTP_1_1_REQUIRED),
                        _ => answer(respond),
                    }
                }
            }
        })
        .await;
        let gateway = Secure::over(&fake).await;
        assert_eq!(read_response(&mut gateway.ask(true).await).await.status, 502, "{protocols:?}");
        assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello", "{protocols:?}");
        let rows = gateway.end().await;
        assert_eq!((rows.attempts.len(), asked_over_http2.load(Ordering::Relaxed)), (2, 2), "{protocols:?}");
    }
}
