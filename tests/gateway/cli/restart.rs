//! A new gateway while an old one runs: under a service manager that keeps the socket, and with `--take-over`.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use crate::harness::answer::{Response, read_response, read_rest};
use crate::harness::process::{CHAT, Process, Setup, asking, provider, words_of};
use crate::support::{FakeProvider, Gate, RawClient, Script};

const DONE: &str = "every row is written";

/// A provider that answers "ab"; of the first request the "b" waits for the gate.
async fn slow_first(gate: &Gate) -> FakeProvider {
    let gate = gate.clone();
    FakeProvider::answering(move |request| match request.number {
        0 => Script::sse().role().token("a").wait(&gate).token("b").finish("stop").done().end(),
        _ => Script::stream(&["a", "b"]),
    })
    .await
}

fn config(fake: &FakeProvider) -> String {
    format!("server.drain = \"1h\"\n{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", fake))
}

/// A stream that has begun.
async fn begun(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address).await;
    client.post(CHAT, &asking("m")).await;
    assert_eq!(client.head().await.status, 200);
    while !client.event().await.unwrap().unwrap().contains("\"a\"") {}
    client
}

async fn rest(client: &mut RawClient) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = client.event().await.unwrap() {
        events.push(event);
    }
    events
}

async fn ask(client: &mut RawClient) -> Response {
    client.post(CHAT, &asking("m")).await;
    read_response(client).await
}

/// The answer on a new connection. An old gateway may close one whose request comes late, on a slow machine.
async fn answer(address: SocketAddr) -> Response {
    loop {
        let mut client = RawClient::connect(address).await;
        client.post(CHAT, &asking("m")).await;
        if let Ok(head) = client.try_head().await {
            return read_rest(&mut client, head).await;
        }
    }
}

async fn ended(process: &Process) {
    assert_eq!(process.ended().await, Some(0), "{}", process.log());
    assert!(process.log().contains(DONE), "{}", process.log());
}

#[tokio::test]
async fn a_service_manager_keeps_the_socket_from_one_gateway_to_the_next() {
    let gate = Gate::new();
    let fake = slow_first(&gate).await;
    let manager = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = manager.local_addr().unwrap();
    let setup = Setup::new(&config(&fake));
    let old = setup.spawn_activated(&["serve"], manager.try_clone().unwrap());
    old.logged(&format!("listening on http://{address}")).await;
    let mut running = begun(address).await;

    // The new one has the same queue, and serves alone as soon as the old one drains.
    let new = setup.spawn_activated(&["serve"], manager.try_clone().unwrap());
    new.logged("listening on http://").await;
    old.signal("TERM");
    old.logged("stopping: running streams go on").await;
    for _ in 0..20 {
        assert_eq!(answer(address).await.streamed_text(), "ab");
    }
    gate.open();
    assert_eq!(rest(&mut running).await.last().map(String::as_str), Some("[DONE]"));
    ended(&old).await;

    // Without any gateway clients wait in the queue of the manager.
    new.signal("TERM");
    ended(&new).await;
    let mut waiting = RawClient::connect(address).await;
    waiting.post(CHAT, &asking("m")).await;
    let last = setup.spawn_activated(&["serve"], manager.try_clone().unwrap());
    assert_eq!(read_response(&mut waiting).await.streamed_text(), "ab");
    last.signal("TERM");
    ended(&last).await;
    let rows = setup.number("SELECT count(*) FROM attempt WHERE outcome = 'won'").await;
    assert_eq!(usize::try_from(rows).unwrap(), fake.requests().len());
    assert_eq!(setup.number("SELECT count(*) FROM race WHERE outcome = 'ok' AND attempts = 1").await, rows);
}

#[tokio::test]
async fn a_socket_file_of_the_service_manager_stays() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a", "b"])).await;
    let setup = Setup::new(&config(&fake));
    let path = setup.path("manager.sock");
    let manager = UnixListener::bind(&path).unwrap();
    for _ in 0..2 {
        let process = setup.spawn_activated(&["serve"], manager.try_clone().unwrap());
        let mut client = RawClient::connect_file(&path).await.unwrap();
        assert_eq!(ask(&mut client).await.streamed_text(), "ab");
        assert!(process.log().contains("listening on unix:/"), "{}", process.log());
        process.signal("TERM");
        ended(&process).await;
        assert!(path.exists());
    }
}

#[tokio::test]
async fn sockets_of_the_service_manager_are_checked() {
    let setup = Setup::new("");
    let manager = TcpListener::bind("127.0.0.1:0").unwrap();
    for args in [&["serve", "--take-over"][..], &["serve", "--listen", "127.0.0.2:0"]] {
        let process = setup.spawn_activated(args, manager.try_clone().unwrap());
        assert_eq!(process.ended().await, Some(1));
        assert!(words_of(&process.log()).contains("the service manager passes the sockets"), "{}", process.log());
    }
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let process = setup.spawn_activated(&["serve"], open);
    assert_eq!(process.ended().await, Some(1));
    assert!(words_of(&process.log()).contains("which others can reach, and there are no [users]"), "{}", process.log());
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let process = setup.spawn_activated(&["serve"], datagrams);
    assert_eq!(process.ended().await, Some(1));
    assert!(
        words_of(&process.log()).contains("does not listen for connections: use ListenStream="),
        "{}",
        process.log()
    );
}

#[tokio::test]
async fn a_new_gateway_takes_over_from_an_old_one() {
    let gate = Gate::new();
    let fake = slow_first(&gate).await;
    let config = config(&fake);
    let setup = Setup::new(&config);
    // The address of the old one, for the new one.
    setup.write("config.toml", format!("server.listen = [\"127.0.0.1:0\", \"unix:gateway.sock\"]\n{config}"));
    let old = setup.spawn(&["serve"]);
    let address = old.address("listening on http://").await;
    let listen = format!("server.listen = [\"{address}\", \"unix:gateway.sock\"]\n{config}");
    setup.write("config.toml", listen);
    let mut running = begun(address).await;
    let path = setup.path("gateway.sock");
    assert_eq!(ask(&mut RawClient::connect_file(&path).await.unwrap()).await.streamed_text(), "ab");

    // Started by mistake, a second one takes no clients from the first.
    let refused = setup.run(&["serve"]).await;
    assert_eq!(refused.code, Some(1));
    for words in ["Address already in use", "photofinish (process ", "start beside it with `--take-over`"] {
        assert!(refused.said().contains(words), "{}", refused.err);
    }

    let new = setup.spawn(&["serve", "--take-over"]);
    new.logged("listening on unix:").await;
    old.signal("TERM");
    old.logged("stopping: running streams go on").await;
    for _ in 0..20 {
        assert_eq!(answer(address).await.streamed_text(), "ab");
        let mut client = RawClient::connect_file(&path).await.unwrap();
        assert_eq!(ask(&mut client).await.header("connection"), "", "served by the new one");
    }
    gate.open();
    assert_eq!(rest(&mut running).await.last().map(String::as_str), Some("[DONE]"));
    ended(&old).await;
    assert!(path.exists());
    let answer = answer(address).await;
    assert_eq!((answer.header("connection"), answer.streamed_text().as_str()), ("", "ab"));
    new.signal("TERM");
    ended(&new).await;
    assert!(!path.exists());
    let rows = setup.number("SELECT count(*) FROM attempt WHERE outcome = 'won'").await;
    assert_eq!(usize::try_from(rows).unwrap(), fake.requests().len());
    assert!(!setup.path("photofinish.db.spill").exists());
}
