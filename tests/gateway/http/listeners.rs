//! Listeners: TLS with certificates that change, several listeners, socket files, and reverse proxies.

use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::harness::process;
use crate::support::{FakeProvider, Gate, Identity, RawClient, Script, secured, soon, sse_events};

/// A folder with a certificate, and the line under `[server]` with its path.
fn certified(identity: &Identity) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), identity);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = format!("tls = {{ cert = \"{}\", key = \"{}\" }}", path("cert.pem"), path("key.pem"));
    (folder, line)
}

fn install(folder: &Path, identity: &Identity) {
    std::fs::write(folder.join("cert.pem"), &identity.cert).unwrap();
    std::fs::write(folder.join("key.pem"), &identity.key).unwrap();
}

/// A TLS connection to the gateway with this protocol. None: its certificate is not from this authority.
async fn connected(gateway: &TestGateway, ca: &str, alpn: &str) -> Option<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let stream = secured(stream, ca, &[alpn]).await.ok()?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
    Some(stream)
}

fn chat(stream: bool) -> hyper::Request<Full<Bytes>> {
    let body = json!({"model": "m", "stream": stream, "messages": [{}]}).to_string();
    let uri = if stream { format!("https://localhost{CHAT}") } else { CHAT.to_owned() };
    hyper::Request::post(uri).header("host", "localhost").body(Full::new(Bytes::from(body))).unwrap()
}

#[tokio::test]
async fn http2_and_http1_are_agreed_on_by_alpn() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let identity = Identity::new();
    let (_folder, line) = certified(&identity);
    let gateway = Setup::over(&[&fake]).server(&line).start().await;
    let mut tasks = JoinSet::new();

    let stream = connected(&gateway, &identity.ca, "h2").await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async { connection.await.unwrap() });
    let response = soon("an answer", sender.send_request(chat(true))).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
    let body = soon("the body", response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(sse_events(&body).last().unwrap(), "[DONE]");

    let stream = connected(&gateway, &identity.ca, "http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async { connection.await.unwrap() });
    let response = soon("an answer", sender.send_request(chat(true))).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_11));
    let body = soon("the body", response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(sse_events(&body).last().unwrap(), "[DONE]");

    assert!(connected(&gateway, &Identity::new().ca, "h2").await.is_none(), "it shows its certificate");
    drop(sender);
    assert_eq!(gateway.stop().await.races.len(), 2);
}

#[tokio::test]
async fn plain_http_on_a_tls_listener_gets_an_explanation() {
    let (_folder, line) = certified(&Identity::new());
    let gateway = Setup::new().server(&line).start().await;
    for path in ["/v1/models", CHAT, "/v1/messages", "/healthz"] {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("GET", path, &[], "").await;
        let response = read_response(&mut client).await;
        assert_eq!((response.status, response.header("connection")), (400, "close"), "{path}");
        assert!(response.body.contains("https://"), "{}", response.body);
        client.closed().await;
    }
    let mut client = RawClient::connect(gateway.addr()).await;
    client.send([0x80, 0x2e, 1, 0, 2].repeat(20)).await;
    client.closed().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_certificate_changes_while_streams_run_and_a_bad_one_does_not_count() {
    let gate = Gate::new();
    let middle = gate.clone();
    let fake = FakeProvider::answering(move |request| match request.number {
        0 => Script::sse().role().token("first").wait(&middle).token("second").finish("stop").done().end(),
        _ => Script::stream(&["hello"]),
    })
    .await;
    let (old, new) = (Identity::new(), Identity::new());
    let (folder, line) = certified(&old);
    let setup = Setup::over(&[&fake]).server(&line);
    let gateway = setup.start().await;
    let mut tasks = JoinSet::new();
    let stream = connected(&gateway, &old.ca, "h2").await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async { connection.await.unwrap() });
    let running = soon("an answer", sender.send_request(chat(true))).await.unwrap();

    install(folder.path(), &new);
    gateway.reload(&setup).await;
    assert!(connected(&gateway, &old.ca, "h2").await.is_none());
    assert!(connected(&gateway, &new.ca, "h2").await.is_some());

    // Half of a pair, a mismatched pair, missing files: the certificate in force stays.
    std::fs::write(folder.path().join("cert.pem"), &old.cert).unwrap();
    gateway.reload(&setup).await;
    assert!(connected(&gateway, &new.ca, "http/1.1").await.is_some());
    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    gateway.reload(&setup).await;
    std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
    gateway.reload(&setup).await;
    assert!(connected(&gateway, &new.ca, "http/1.1").await.is_some());
    // Without tls in the file, the listener does not switch to plain text.
    gateway.reload(&Setup::over(&[&fake])).await;
    assert!(connected(&gateway, &old.ca, "h2").await.is_some(), "the certificate of the start");

    gate.open();
    let body = soon("the body", running.into_body().collect()).await.unwrap().to_bytes();
    let events = sse_events(&body);
    assert!(body.windows(6).any(|part| part == b"second") && events.last().unwrap() == "[DONE]");
    // The connection that began with the old certificate still works.
    let response = soon("an answer", sender.send_request(chat(true))).await.unwrap();
    assert_eq!(response.status(), 200);
    drop((response, sender));
    gateway.stop().await;
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_taken_up() {
    let (old, new) = (Identity::new(), Identity::new());
    let setup = process::Setup::new("server.tls = { cert = \"cert.pem\", key = \"key.pem\" }\n");
    install(&setup.path(""), &old);
    let process = setup.spawn(&["serve"]);
    let addr = process.address("listening on https://").await;
    let connect = async |ca: String| {
        let stream = TcpStream::connect(addr).await.unwrap();
        secured(stream, &ca, &["h2"]).await.is_ok()
    };
    assert!(connect(old.ca.clone()).await);
    // As tools do: each file in one step, one after the other.
    for (name, text) in [("cert.pem", &new.cert), ("key.pem", &new.key)] {
        setup.write("new.pem", text);
        std::fs::rename(setup.path("new.pem"), setup.path(name)).unwrap();
    }
    process.logged("the new configuration is in force").await;
    assert!(connect(new.ca).await && !connect(old.ca).await);
    setup.write("key.pem", "no key");
    process.signal("HUP");
    process.logged("the old one stays in force").await;
    let check = setup.run(&["check"]).await;
    assert!(check.code == Some(2) && check.err.contains("config.toml:7:41: \"key\""), "{}", check.err);
    process.signal("TERM");
    assert_eq!(process.ended().await, Some(0));
}

#[tokio::test]
async fn several_listeners_serve_the_same() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    // Left by a gateway that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listen = format!("[\"127.0.0.1:0\", \"unix:{}\", \"127.0.0.1:0\"]", path.display());
    let gateway = Setup::over(&[&fake]).listen(&listen).start().await;
    let addrs = gateway.addrs();
    assert_eq!(addrs.len(), 2);
    let mut clients = vec![RawClient::connect_file(&path).await.unwrap()];
    for addr in addrs {
        clients.push(RawClient::connect(addr).await);
    }
    for client in &mut clients {
        client.post(CHAT, &json!({"model": "m", "stream": true, "messages": [{}]})).await;
        assert_eq!(read_response(client).await.streamed_text(), "hello");
        // A socket file counts as this machine: without users its client may read metrics.
        client.request("GET", "/metrics", &[], "").await;
        assert_eq!(read_response(client).await.status, 200);
    }
    // A client that leaves a socket file is detected like any other.
    let rows = gateway.stop().await;
    assert_eq!(rows.races.len(), 3);
    assert!(!path.exists(), "removed at the end");
    assert!(RawClient::connect_file(&path).await.is_err());
}

#[tokio::test]
async fn a_client_of_a_socket_file_that_leaves_is_noticed() {
    let fake = FakeProvider::answering(|_| Script::sse().role().token("x").until_closed()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Setup::over(&[&fake]).listen(&format!("\"unix:{}\"", path.display())).start().await;
    let mut client = RawClient::connect_file(&path).await.unwrap();
    client.post(CHAT, &json!({"model": "m", "stream": true, "messages": [{}]})).await;
    client.head().await;
    client.close();
    fake.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts[0]["outcome"], "client_gone");
}

#[tokio::test]
async fn a_socket_file_in_use_is_not_taken_over() {
    let setup = process::Setup::new("");
    setup.write("config.toml", "server.listen = [\"127.0.0.1:0\", \"unix:gateway.sock\"]\n");
    let served = setup.serve().await;
    served.process.logged("listening on unix:/").await;
    served.setup.write("second.toml", "server.listen = \"unix:gateway.sock\"\nstore.url = \"sqlite:second.db\"\n");
    let ran = served.setup.run(&["serve", "--config", "second.toml"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cannot listen on unix:/") && ran.err.contains("another process"), "{}", ran.err);
    let check = served.setup.run(&["check"]).await;
    assert!(check.out.contains("http://127.0.0.1:0") && check.out.contains("unix:/"), "{}", check.out);
    let setup = served.stop().await;
    assert!(!setup.path("gateway.sock").exists());
}

#[tokio::test]
async fn only_a_trusted_proxy_may_set_the_client_address() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let body = json!({"model": "m", "stream": true, "messages": [{}]});
    for (trusted, forwarded, expected) in [
        // No proxy is trusted: the header is ignored.
        ("[]", &["192.0.2.7"][..], 200),
        ("[\"10.0.0.0/8\"]", &["192.0.2.7"], 200),
        // Without users only this machine is served; a request that a proxy forwards does not count as local.
        ("[\"127.0.0.1\"]", &[], 200),
        ("[\"127.0.0.1\"]", &["127.0.0.1"], 200),
        ("[\"127.0.0.0/8\"]", &["192.0.2.7"], 403),
        ("[\"127.0.0.0/8\"]", &["127.0.0.1, 192.0.2.7"], 403),
        ("[\"127.0.0.0/8\"]", &["127.0.0.1", "192.0.2.7"], 403),
        ("[\"127.0.0.0/8\"]", &["192.0.2.7, 127.0.0.5"], 403),
        ("[\"127.0.0.0/8\"]", &["unknown"], 403),
    ] {
        let gateway = Setup::over(&[&fake]).server(&format!("trusted_proxies = {trusted}")).start().await;
        let headers: Vec<_> = forwarded.iter().map(|value| ("x-forwarded-for", *value)).collect();
        for path in ["/metrics", "/v1/models", "/api/stats"] {
            let mut client = RawClient::connect(gateway.addr()).await;
            client.request("GET", path, &headers, "").await;
            assert_eq!(read_response(&mut client).await.status, expected, "{path} {trusted} {forwarded:?}");
        }
        let response = read_response(&mut gateway.request(CHAT, &headers, &body).await).await;
        assert_eq!(response.status, expected, "{trusted} {forwarded:?}");
        assert!(expected == 200 || response.error_code() == "photofinish_remote_client", "{}", response.body);
        gateway.stop().await;
    }
    let users = "[users.ann]\ntoken = \"ann-token\"\n";
    let gateway = Setup::over(&[&fake]).server("trusted_proxies = \"127.0.0.1\"").table(users).start().await;
    let headers = [("x-forwarded-for", "192.0.2.7"), ("x-api-key", "ann-token")];
    assert_eq!(
        read_response(&mut gateway.request(CHAT, &headers, &body).await).await.status,
        200,
        "users are served from anywhere"
    );
    gateway.stop().await;
    assert!(fake.requests().iter().all(|request| request.header("x-forwarded-for").is_none()), "it does not go up");
}
