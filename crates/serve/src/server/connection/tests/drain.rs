//! A gateway that drains: which requests are still answered, and when connections and listeners close.

use std::io::Write as _;

use http::Response;
use tokio::io::AsyncRead;

use super::*;

/// A connection with this request sent. All of it is there before the server can look.
fn waiting(address: SocketAddr, request: &str) -> TcpStream {
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.write_all(format!("{request} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).unwrap();
    client.set_nonblocking(true).unwrap();
    TcpStream::from_std(client).unwrap()
}

/// The next answer, in lower case, up to and including `end`.
async fn answer(client: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        answer.push(client.read_u8().await.unwrap());
    }
    String::from_utf8(answer).unwrap().to_lowercase()
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_has_one_more_answer_or_is_closed_after_a_while() {
    for asks in [true, false] {
        let (mut client, serving, shutdown) = served(HttpVersion::Http1, router().0).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
        assert!(!answer(&mut client, "here").await.contains("connection: close"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        shutdown.drain();
        let began = Instant::now();
        if asks {
            tokio::time::sleep(Duration::from_millis(400)).await;
            client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
            assert!(answer(&mut client, "here").await.contains("connection: close"));
        }
        assert_eq!(client.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
        assert_eq!(began.elapsed().as_millis(), if asks { 400 } else { 500 });
        drop(client);
        serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_request_is_answered_and_its_client_told() {
    let (mut client, _serving, shutdown) = served(HttpVersion::Http1, router().0).await;
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    shutdown.drain();
    assert!(answer(&mut client, "late").await.contains("connection: close"));
    assert!(client.read_u8().await.is_err());
}

/// Its head goes out at once, its end after a minute.
fn begun() -> Body {
    let end = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok::<_, Infallible>(Bytes::from_static(b"end"))
    };
    Body::from_stream(stream::once(end))
}

#[tokio::test(start_paused = true)]
async fn after_a_stream_that_had_begun_there_is_one_more_answer() {
    let router = router().0.route("/begun", get(async || Response::new(begun())));
    let (mut client, _serving, shutdown) = served(HttpVersion::Http1, router).await;
    client.write_all(b"GET /begun HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert!(!answer(&mut client, "\r\n\r\n").await.contains("connection: close"));
    shutdown.drain();
    assert!(answer(&mut client, "0\r\n\r\n").await.contains("end"));
    client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert!(answer(&mut client, "here").await.contains("connection: close"));
    assert!(client.read_u8().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn over_http2_what_was_asked_is_answered_and_the_client_is_told() {
    let (client, serving, shutdown) = served(HttpVersion::Http2, router().0).await;
    let (mut sender, connection) = http2::handshake(shutdown.clone(), TokioIo::new(client)).await.unwrap();
    let connection = shutdown.spawn(connection);
    let request = || Request::get("http://test/slow").body(Empty::<Bytes>::new()).unwrap();
    let asked = [sender.send_request(request()), sender.send_request(request())];
    tokio::time::sleep(Duration::from_secs(1)).await;
    shutdown.drain();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sender.send_request(request()).await.is_err(), "it knows, and does not send this one");
    for answer in asked {
        assert_eq!(answer.await.unwrap().into_body().collect().await.unwrap().to_bytes(), "late");
    }
    connection.await.unwrap().unwrap();
    serving.await.unwrap();
}

#[tokio::test]
async fn without_clients_a_draining_listener_closes_at_once() {
    let (address, shutdown) = listening(places(2, 1)).await;
    let mut client = asked(address, "GET /").await;
    assert!(heard(&mut client, "here").await.contains("200 OK"));
    drop(client);
    shutdown.drain();
    assert!(shutdown.finished(Duration::from_secs(5)).await);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn clients_that_come_during_the_drain_do_not_keep_it_open() {
    let (address, shutdown) = listening(places(100, 1)).await;
    let mut before = asked(address, "GET /endless").await;
    assert!(heard(&mut before, "xxxx").await.contains("200 OK"));
    shutdown.drain();
    let mut late = waiting(address, "GET /endless");
    assert!(answer(&mut late, "xxxx").await.contains("200 ok"));
    drop(before);
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), refused).await.expect("it closes");
    assert_eq!(answer(&mut late, "xxxx").await, "xxxx", "it goes on");
}

#[tokio::test]
async fn whoever_waits_for_a_draining_listener_is_served() {
    let (address, shutdown) = listening(places(100, 1)).await;
    let mut clients: Vec<_> = (0..30).map(|_| waiting(address, "GET /")).collect();
    shutdown.drain();
    for client in &mut clients {
        let answer = answer(client, "here").await;
        assert!(answer.contains(" 200 ok") && answer.contains("connection: close"), "{answer}");
    }
    drop(clients);
    assert!(shutdown.finished(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn a_draining_listener_takes_new_clients_for_half_of_the_drain_at_most() {
    let (address, shutdown) = listening(places(100, 1)).await;
    let mut working = asked(address, "GET /endless").await;
    assert!(heard(&mut working, "xxxx").await.contains("200 OK"));
    shutdown.drain();
    assert!(answer(&mut waiting(address, "GET /"), "here").await.contains("200 ok"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(15)).await;
    tokio::time::resume();
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), refused).await.expect("it closes");
    assert_eq!(heard(&mut working, "xxxx").await, "xxxx", "what runs goes on");
}

#[tokio::test]
async fn a_listener_beside_another_closes_while_answers_are_due() {
    let (address, shutdown) = listening(places(100, 1)).await;
    let mut working = asked(address, "GET /endless").await;
    assert!(heard(&mut working, "xxxx").await.contains("200 OK"));
    let beside = Listener::bind(&Listen::Tcp(address), true).await.unwrap();
    let new = shared(router().0, places(100, 1));
    new.shutdown.clone().spawn(accept::accept(beside, new));
    shutdown.drain();
    // Clients come to the older one now and then, until that has closed.
    let mut in_a_row = 0;
    while in_a_row < 20 {
        // It waits while the older one closes, so it must not stop this thread.
        let answer = answer(&mut asked(address, "GET /").await, "here").await;
        assert!(answer.contains("200 ok"), "{answer}");
        in_a_row = if answer.contains("connection: close") { 0 } else { in_a_row + 1 };
    }
    assert_eq!(heard(&mut working, "xxxx").await, "xxxx", "what runs goes on");
}

#[tokio::test]
async fn the_last_answer_arrives_whole_though_its_client_goes_on_sending() {
    let (address, shutdown) = listening(places(100, 1)).await;
    let mut client = waiting(address, "GET /whole");
    shutdown.drain();
    // More than hyper reads before it has answered: it is unread when the connection ends.
    let next = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n".repeat(20_000);
    let (mut reading, mut writing) = client.split();
    // The rest is of no use to anybody.
    let writes = async { drop(writing.write_all(&next).await) };
    let reads = async {
        let mut answer = Vec::new();
        reading.read_to_end(&mut answer).await.map(|_| answer)
    };
    let (answer, ()) = tokio::join!(reads, writes);
    let answer = answer.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"xxxx"));
    assert!(answer.len() > 8 << 20, "{}", answer.len());
}
