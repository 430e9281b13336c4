//! HTTP/2 on the listener by prior knowledge: the same answers as over HTTP/1.1, several at once on one connection.

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, Script, soon, sse_events};

async fn connect(served: &RunningGateway, tasks: &mut JoinSet<()>) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(served.addr).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async move {
        // Either side may end it; the requests on it show the result.
        let _ = connection.await;
    });
    sender
}

fn request(served: &RunningGateway, method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
    let uri = format!("http://{}{path}", served.addr);
    Request::builder().method(method).uri(uri).body(Full::from(body)).unwrap()
}

async fn body(response: Response<Incoming>) -> Bytes {
    soon("the body", response.into_body().collect()).await.unwrap().to_bytes()
}

#[tokio::test]
async fn streams_run_side_by_side_and_one_that_is_dropped_stops_alone() {
    let gate = Gate::new();
    let script = Script::sse().role().token("a").wait(&gate).token("b").finish("stop").done().end();
    let fake = FakeProvider::answering(move |_| script.clone()).await;
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let mut tasks = JoinSet::new();
    let mut sender = connect(&served, &mut tasks).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let request = request(&served, "POST", CHAT, asking("m").to_string());
        let response = soon("a head", sender.send_request(request)).await.unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
        open.push(response);
    }
    drop(open.remove(0));
    fake.closed(0).await;
    assert!(fake.exchanges()[1].closed.is_none() && fake.exchanges()[2].closed.is_none());
    gate.open();
    for response in open {
        assert_eq!(response.headers()["x-photofinish-upstream"], "one/m");
        let body = body(response).await;
        assert_eq!(sse_events(&body).last().map(String::as_str), Some("[DONE]"));
    }
    drop(sender);
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["client_gone 1 200", "ok 1 200", "ok 1 200"]);
    assert_eq!(setup.attempts().await, ["one client_gone", "one won", "one won"]);
}

#[tokio::test]
async fn errors_have_the_same_shape() {
    let served = Setup::new("server.body_max = \"1KiB\"\n[providers.sim]\nsimulate = {}\n").serve().await;
    let mut tasks = JoinSet::new();
    let mut sender = connect(&served, &mut tasks).await;
    for (method, path, sent, status, code) in [
        ("POST", CHAT, "{".to_owned(), 400, "photofinish_invalid_request"),
        ("POST", CHAT, asking("nobody").to_string(), 404, "model_not_found"),
        ("POST", CHAT, " ".repeat(2_000), 413, "photofinish_too_large"),
        ("GET", CHAT, String::new(), 405, "photofinish_method_not_allowed"),
        ("GET", "/nowhere", String::new(), 404, "photofinish_not_found"),
    ] {
        let request = request(&served, method, path, sent);
        let response = soon("a head", sender.send_request(request)).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
        let error: Value = serde_json::from_slice(&body(response).await).unwrap();
        assert_eq!(error["error"]["code"], code);
    }
}
