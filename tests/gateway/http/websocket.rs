//! The Responses API over a WebSocket: requests and events as text frames, and what clients do wrong.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

use crate::harness::answer::{advance_clock, silent};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, Gate, Script, Step, soon};

const USERS: &str = "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n";

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(gateway: &TestGateway, token: &str) -> Result<Socket, u16> {
        Socket::open_at("/v1/responses", gateway, token).await
    }

    async fn open_at(path: &str, gateway: &TestGateway, token: &str) -> Result<Socket, u16> {
        let mut request = format!("ws://{}{path}", gateway.addr()).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let stream = TcpStream::connect(gateway.addr()).await.unwrap();
        match soon("the handshake", tokio_tungstenite::client_async(request, stream)).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn send(&mut self, frame: &Value) {
        self.0.send(Message::Text(frame.to_string().into())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            match soon("a frame", self.0.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(text.as_str()).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The events up to one of this type.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.next().await);
            if events.last().unwrap()["type"] == kind {
                return events;
            }
        }
    }

    /// How the gateway closes it.
    async fn closed(&mut self) -> Option<CloseFrame> {
        loop {
            match soon("the end", self.0.next()).await {
                Some(Ok(Message::Close(frame))) => return frame,
                None | Some(Err(_)) => return None,
                Some(Ok(_)) => {}
            }
        }
    }
}

fn asks(input: &str) -> Value {
    json!({"type": "response.create", "model": "m", "input": input, "store": false})
}

async fn counting() -> FakeProvider {
    FakeProvider::answering(|request| {
        let count = request.json()["messages"].as_array().unwrap().len().to_string();
        Script::stream(&["got ", &count])
    })
    .await
}

async fn over(fake: &FakeProvider) -> TestGateway {
    Setup::new().provider("a", fake, "").table(USERS).start().await
}

#[tokio::test]
async fn turns_go_on_over_one_socket_though_nothing_is_stored() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    let (mut previous, mut said) = (Value::Null, Vec::new());
    for turn in 0..3 {
        let mut create = asks(&format!("turn {turn}"));
        if !previous.is_null() {
            create["previous_response_id"] = previous.clone();
        }
        socket.send(&create).await;
        let events = socket.until("response.completed").await;
        assert_eq!(events[0]["type"], "response.created");
        let response = &events.last().unwrap()["response"];
        said.push(response["output"][0]["content"][0]["text"].as_str().unwrap().to_owned());
        previous = response["id"].clone();
    }
    assert_eq!((said, gateway.gateway().stored_bytes()), (["got 1", "got 3", "got 5"].map(str::to_owned).to_vec(), 0));
    let mut warm = asks("known before");
    warm["generate"] = json!(false);
    socket.send(&warm).await;
    let known = socket.until("response.completed").await.pop().unwrap();
    let mut more = asks("and now");
    more["previous_response_id"] = known["response"]["id"].clone();
    socket.send(&more).await;
    let answer = socket.until("response.completed").await.pop().unwrap();
    assert_eq!(answer["response"]["output"][0]["content"][0]["text"], "got 2");
    let mut other = Socket::open(&gateway, "ann-token").await.unwrap();
    other.send(&more).await;
    let refused = other.next().await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(400), &json!("previous_response_not_found")));
    drop((socket, other));
    let rows = gateway.stop().await;
    let refused = rows.races.iter().filter(|row| row["outcome"] == "rejected").count();
    assert_eq!((rows.races.len() - refused, rows.attempts.len()), (4, 4));
    assert_row!(&rows.races[0], json!({"api": "responses", "stream": 1, "outcome": "ok", "caller": "ann"}));
}

#[tokio::test]
async fn a_socket_has_one_response_at_a_time_and_a_cancel_ends_it() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| Script::sse().role().token("a").step(Step::Wait(open.clone()))).await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks("one")).await;
    socket.until("response.output_text.delta").await;
    socket.send(&asks("two")).await;
    assert_eq!(socket.next().await["error"]["code"], "invalid_frame");
    socket.send(&json!({"type": "response.processed"})).await;
    socket.send(&json!({"type": "response.cancel"})).await;
    let cancelled = socket.next().await;
    assert_eq!(
        (&cancelled["type"], &cancelled["response"]["status"]),
        (&json!("response.cancelled"), &json!("cancelled"))
    );
    fake.closed(0).await;
    socket.send(&json!({"type": "response.cancel"})).await;
    socket.send(&asks("three")).await;
    socket.until("response.output_text.delta").await;
    drop(socket);
    fake.closed(1).await;
    let rows = gateway.stop().await;
    assert_eq!((rows.races.len(), fake.requests().len()), (2, 2));
    assert!(rows.races.iter().all(|row| row["outcome"] == "client_gone"));
}

#[tokio::test]
async fn bad_frames_end_a_socket_or_are_told() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "").server("body_max = \"64KiB\"").table(USERS).start().await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    for frame in ["[]", "{\"type\":\"session.update\"}", "no json"] {
        socket.0.send(Message::Text(frame.into())).await.unwrap();
        assert_eq!(socket.next().await["error"]["code"], "invalid_frame", "{frame}");
    }
    socket.send(&json!({"type": "response.create", "model": "unknown", "input": "x"})).await;
    assert_eq!(socket.next().await["error"]["code"], "model_not_found", "and the socket stays");
    socket.0.send(Message::Binary(vec![0; 9].into())).await.unwrap();
    assert_eq!(socket.closed().await.map(|frame| frame.code), Some(CloseCode::Unsupported));
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.0.send(Message::Text("x".repeat(65 << 10).into())).await.unwrap();
    assert_eq!(socket.closed().await.map(|frame| frame.code), Some(CloseCode::Size), "too large");
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    for at in 0.. {
        let code = if at == 0 { OpCode::Data(Data::Text) } else { OpCode::Data(Data::Continue) };
        let part = Frame::message(vec![b'x'; 8 << 10], code, false);
        if at == 9 || socket.0.send(Message::Frame(part)).await.is_err() {
            break;
        }
    }
    assert_eq!(socket.closed().await.map(|frame| frame.code), Some(CloseCode::Size), "without end");
    assert!(fake.requests().is_empty());
    gateway.settled("after bad frames").await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_socket_needs_a_token_at_its_beginning_and_for_each_request() {
    let fake = counting().await;
    let setup =
        |token: &str| Setup::new().provider("a", &fake, "").table(&format!("[users.ann]\ntoken = \"{token}\"\n"));
    let gateway = setup("ann-token").start().await;
    assert_eq!(Socket::open(&gateway, "eve-token").await.err(), Some(401));
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    gateway.reload(&setup("another")).await;
    socket.send(&asks("x")).await;
    let refused = socket.next().await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(401), &json!("photofinish_unauthorized")));
    assert!(fake.requests().is_empty());
    gateway.reload(&setup("another").server("websocket = false")).await;
    assert_eq!(Socket::open(&gateway, "another").await.err(), Some(426));
}

#[tokio::test]
async fn a_shutdown_ends_idle_sockets_and_waits_for_responses() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| {
        Script::sse().role().token("a").step(Step::Wait(open.clone())).token("b").finish("stop").done().end()
    })
    .await;
    let gateway = over(&fake).await;
    let mut idle = Socket::open(&gateway, "ann-token").await.unwrap();
    let mut busy = Socket::open(&gateway, "ann-token").await.unwrap();
    busy.send(&asks("x")).await;
    busy.until("response.output_text.delta").await;
    let seen_off = async {
        assert_eq!(idle.closed().await.map(|frame| frame.code), Some(CloseCode::Away));
        gate.open();
        busy.until("response.completed").await;
        assert_eq!(busy.closed().await.map(|frame| frame.code), Some(CloseCode::Away));
    };
    let (rows, ()) = tokio::join!(gateway.stop(), seen_off);
    assert_row!(&rows.races[0], json!({"outcome": "ok"}));
}

#[tokio::test]
async fn pings_alone_keep_no_socket() {
    let fake = FakeProvider::answering(|_| silent()).await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    let began = tokio::time::Instant::now();
    let closed = loop {
        let _ = socket.0.send(Message::Ping(Vec::new().into())).await;
        match socket.0.next().await {
            Some(Ok(Message::Close(frame))) => break frame,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed().as_secs() < 1_000, "it lives on");
        advance_clock(std::time::Duration::from_secs(20)).await;
    };
    assert_eq!(closed.map(|frame| frame.code), Some(CloseCode::Normal));
}

#[tokio::test]
async fn an_answer_may_take_longer_than_a_socket_may_rest() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| {
        Script::sse().role().token("a").step(Step::Wait(open.clone())).token("b").finish("stop").done().end()
    })
    .await;
    let long = "timeouts = { first_token = \"2h\", idle = \"2h\", total = \"2h\" }";
    let gateway = Setup::new().provider("a", &fake, "").race(long).table(USERS).start().await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks("x")).await;
    socket.until("response.output_text.delta").await;
    for _ in 0..40 {
        advance_clock(std::time::Duration::from_secs(20)).await;
        // It answers the gateway's pings by being read.
        let pings = tokio::time::timeout(std::time::Duration::from_millis(20), socket.next());
        assert!(pings.await.is_err(), "no frame");
    }
    gate.open();
    socket.until("response.completed").await;
    gateway.stop().await;
}

#[tokio::test]
async fn the_next_request_may_follow_the_last_event_at_once() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| {
        let answer = Script::sse().role().token("a").finish("stop").done();
        if request.number == 0 { answer.step(Step::Wait(open.clone())).end() } else { answer.end() }
    })
    .await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks("one")).await;
    socket.until("response.completed").await;
    socket.send(&asks("two")).await;
    gate.open();
    let events = socket.until("response.completed").await;
    assert!(events.iter().all(|event| event["type"] != "error"), "{events:?}");
    drop(socket);
    let rows = gateway.stop().await;
    assert!(rows.races.len() == 2 && rows.races.iter().all(|row| row["outcome"] == "ok"), "{:?}", rows.races);
}

#[tokio::test]
async fn what_is_stored_is_named_and_not_sent_again() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    let ask = |input: &str, previous: Option<&Value>| {
        let mut create = json!({"type": "response.create", "model": "m", "input": input});
        create["previous_response_id"] = previous.cloned().unwrap_or_default();
        create
    };
    socket.send(&ask("one", None)).await;
    let first = socket.until("response.completed").await.pop().unwrap();
    let stored = gateway.gateway().stored_bytes();
    socket.send(&ask("two", Some(&first["response"]["id"]))).await;
    let second = socket.until("response.completed").await.pop().unwrap();
    let said = |event: &Value| event["response"]["output"][0]["content"][0]["text"].clone();
    assert_eq!((said(&first), said(&second)), (json!("got 1"), json!("got 3")));
    assert_eq!(second["response"]["previous_response_id"], first["response"]["id"]);
    assert!(gateway.gateway().stored_bytes() < 5 * stored / 2, "the first turn is kept once");
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_has_one_form_however_late_it_comes() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| {
        if request.number == 0 {
            Script::new().step(Step::Wait(open.clone())).step(Step::Close)
        } else {
            Script::sse().role().token("a").step(Step::Close)
        }
    })
    .await;
    let race = "keepalive = \"2s\"\nretries = 0\nrescue = \"off\"";
    let gateway = Setup::new().provider("a", &fake, "").race(race).table(USERS).start().await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks("one")).await;
    fake.request(0).await;
    advance_clock(std::time::Duration::from_secs(5)).await;
    // Time for an early head.
    assert!(tokio::time::timeout(std::time::Duration::from_millis(50), socket.next()).await.is_err());
    gate.open();
    let refused = socket.next().await;
    assert_eq!((&refused["type"], &refused["status"]), (&json!("error"), &json!(502)), "{refused}");
    assert_eq!(refused["error"]["code"], "photofinish_all_failed");
    socket.send(&asks("two")).await;
    let broken = socket.until("error").await.pop().unwrap();
    assert!(broken["status"].is_i64() && broken["error"]["message"].is_string(), "{broken}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_socket_holds_is_counted_and_bounded() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "").server("memory = \"4MiB\"\nbody_max = \"4MiB\"");
    let gateway = gateway.table(USERS).start().await;
    let used = || gateway.gateway().memory().used();
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    let before = used();
    let part = |at: usize| {
        let code = if at == 0 { OpCode::Data(Data::Text) } else { OpCode::Data(Data::Continue) };
        Message::Frame(Frame::message(vec![b'x'; 64 << 10], code, false))
    };
    for at in 0..8 {
        socket.0.send(part(at)).await.unwrap();
    }
    soon("its memory", async {
        while used() < before + (512 << 10) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for at in 8..80 {
        if socket.0.send(part(at)).await.is_err() {
            break;
        }
    }
    assert_eq!(socket.closed().await.map(|frame| frame.code), Some(CloseCode::Again), "all of it is taken");
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks(&"x".repeat(300 << 10))).await;
    socket.until("response.completed").await;
    assert!(used() > 300 << 10, "what the next request continues");
    drop(socket);
    gateway.settled("after the sockets").await;
    gateway.stop().await;
}

#[tokio::test]
async fn each_request_over_a_socket_is_one_of_its_callers() {
    let fake = counting().await;
    let limited = USERS.to_owned() + "rpm = { requests = 1, burst = 2 }\n";
    let gateway = Setup::over(&[&fake]).table(&limited).start().await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    for _ in 0..2 {
        socket.send(&asks("x")).await;
        socket.until("response.completed").await;
    }
    socket.send(&asks("x")).await;
    let refused = socket.next().await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(429), &json!("photofinish_rate_limited")));
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn a_socket_opens_at_the_base_address_too() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    for path in ["/v1", "/v1/"] {
        let mut socket = Socket::open_at(path, &gateway, "ann-token").await.unwrap();
        socket.send(&asks("hi")).await;
        let events = socket.until("response.completed").await;
        assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["text"], "got 1");
        assert_eq!(Socket::open_at(path, &gateway, "nobody's").await.err(), Some(401), "{path}");
    }
    assert_eq!(Socket::open_at("/v2", &gateway, "ann-token").await.err(), Some(404));
    gateway.stop().await;
}

/// A frame of a client: its first byte, and its bytes under a mask.
fn raw(first: u8, said: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![first, 0x80 | u8::try_from(said.len()).unwrap()];
    frame.extend(mask);
    frame.extend(said.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[tokio::test]
async fn frames_come_in_pieces_between_pings() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    let text = json!({"type": "response.create", "model": "m", "input": "ö".repeat(40), "store": false}).to_string();
    let mut bytes = Vec::new();
    for (at, piece) in text.as_bytes().chunks(7).enumerate() {
        bytes.extend(raw(u8::from(at == 0), piece));
        bytes.extend(raw(0x89, b"there?"));
    }
    bytes.extend(raw(0x80, b""));
    for byte in bytes.chunks(3) {
        socket.0.get_mut().write_all(byte).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut pongs = 0;
    let answer = loop {
        match soon("a frame", socket.0.next()).await.unwrap().unwrap() {
            Message::Pong(said) => {
                assert_eq!(&said[..], b"there?");
                pongs += 1;
            }
            Message::Text(text) if text.contains("response.completed") => break text,
            _ => {}
        }
    };
    assert!(answer.contains("got 1") && pongs > 0, "{answer} after {pongs} pongs");
    gateway.stop().await;
}

#[tokio::test]
async fn frames_against_the_rules_end_a_socket() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let long_ping = {
        let mut frame = vec![0x89, 0xfe, 0, 126, 0, 0, 0, 0];
        frame.extend([b'x'; 126]);
        frame
    };
    for (frame, code, what) in [
        (vec![0x81, 2, b'{', b'}'], CloseCode::Protocol, "no mask"),
        (raw(0xc1, b"{}"), CloseCode::Protocol, "compressed"),
        (raw(0x80, b"{}"), CloseCode::Protocol, "goes on with nothing"),
        ([raw(0x01, b"{"), raw(0x01, b"}")].concat(), CloseCode::Protocol, "begins within another"),
        (raw(0x09, b"x"), CloseCode::Protocol, "a ping in pieces"),
        (long_ping, CloseCode::Protocol, "a long ping"),
        (raw(0x83, b"x"), CloseCode::Protocol, "an unknown kind"),
        (raw(0x81, &[0xff, 0xfe]), CloseCode::Invalid, "no UTF-8"),
        (raw(0x82, b"{}"), CloseCode::Unsupported, "binary"),
        (vec![0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4], CloseCode::Size, "a terabyte"),
        (raw(0x88, &1000u16.to_be_bytes()), CloseCode::Normal, "its own end"),
    ] {
        let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
        socket.0.get_mut().write_all(&frame).await.unwrap();
        assert_eq!(socket.closed().await.map(|frame| frame.code), Some(code), "{what}");
    }
    gateway.settled("after frames against the rules").await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_message_must_come_at_a_rate() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    for every in [10, 40] {
        let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
        socket.0.get_mut().write_all(&raw(0x01, b"{")).await.unwrap();
        let began = tokio::time::Instant::now();
        let closed = loop {
            advance_clock(std::time::Duration::from_secs(every)).await;
            let _ = socket.0.get_mut().write_all(&raw(0x00, b" ")).await;
            match tokio::time::timeout(std::time::Duration::from_millis(50), socket.0.next()).await {
                Ok(Some(Ok(Message::Close(frame)))) => break frame,
                Ok(Some(Ok(Message::Ping(_)))) | Err(_) => {}
                other => panic!("{other:?}"),
            }
            assert!(began.elapsed().as_secs() < 200, "it lives on");
        };
        assert_eq!(closed.map(|frame| frame.code), Some(CloseCode::Policy), "a byte every {every} s");
    }
    gateway.settled("after slow messages").await;
    gateway.stop().await;
}

#[tokio::test]
async fn sockets_of_one_caller_leave_memory_to_others() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "").server("memory = \"16MiB\"\nbody_max = \"4MiB\"");
    let gateway = gateway.table(&(USERS.to_owned() + "[users.bob]\ntoken = \"bob-token\"\n")).start().await;
    let mut sockets = Vec::new();
    for _ in 0..16 {
        let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
        for at in 0..16 {
            let code = if at == 0 { OpCode::Data(Data::Text) } else { OpCode::Data(Data::Continue) };
            let _ = socket.0.send(Message::Frame(Frame::message(vec![b'x'; 64 << 10], code, false))).await;
        }
        sockets.push(socket);
    }
    let mut refused = 0;
    for socket in &mut sockets {
        while let Ok(Some(said)) = tokio::time::timeout(std::time::Duration::from_millis(200), socket.0.next()).await {
            match said {
                Ok(Message::Close(Some(frame))) => {
                    assert_eq!(frame.code, CloseCode::Again);
                    refused += 1;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
    assert!((1..16).contains(&refused), "{refused} of 16 large messages were refused");
    let mut other = Socket::open(&gateway, "bob-token").await.unwrap();
    other.send(&asks(&"x".repeat(200 << 10))).await;
    other.until("response.completed").await;
    drop((sockets, other));
    gateway.settled("after the sockets").await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_handshake_is_of_the_rfc() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (head, status) in [
        (format!("{upgrade}{key}"), 101),
        (format!("{upgrade}{key}").replace("n: upgrade", "n: keep-alive, Upgrade"), 101),
        (format!("{upgrade}{key}").replace("connection: upgrade\r\n", ""), 400),
        (format!("{upgrade}{key}{key}"), 400),
        (upgrade.to_owned(), 400),
        (format!("{upgrade}sec-websocket-key: dGhl\r\n"), 400),
        (format!("{upgrade}sec-websocket-key: !!!!IHNhbXBsZSBub25jZQ==\r\n"), 400),
        (format!("{upgrade}{key}").replace("13", "8"), 426),
    ] {
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let request =
            format!("GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ann-token\r\n{head}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut line = [0; 12];
        soon("an answer", stream.read_exact(&mut line)).await.unwrap();
        assert_eq!(std::str::from_utf8(&line), Ok(format!("HTTP/1.1 {status}").as_str()), "{head}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_needs_an_upstream_that_keeps_it_on_a_socket_too() {
    let fake = counting().await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    for previous in [false, true] {
        let mut create = asks("a job");
        create["background"] = json!(true);
        if previous {
            socket.send(&asks("before")).await;
            let before = socket.until("response.completed").await.pop().unwrap();
            create["previous_response_id"] = before["response"]["id"].clone();
        }
        for store in [json!(true), json!(false)] {
            create["store"] = store;
            socket.send(&create).await;
            let refused = socket.next().await;
            assert_eq!((&refused["type"], &refused["status"]), (&json!("error"), &json!(400)), "{refused}");
            assert_eq!(refused["error"]["param"], "background");
        }
    }
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_conversation_is_compacted_over_a_socket() {
    let fake = FakeProvider::answering(|_| Script::stream(&["what was ", "done"])).await;
    let gateway = over(&fake).await;
    let mut socket = Socket::open(&gateway, "ann-token").await.unwrap();
    socket.send(&asks("hello")).await;
    let last = socket.until("response.completed").await.pop().unwrap();
    let trigger = json!({"type": "response.create", "model": "m", "previous_response_id": last["response"]["id"],
        "store": false, "input": [{"type": "compaction_trigger"}]});
    socket.send(&trigger).await;
    let events = socket.until("response.completed").await;
    let items = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let kinds: Vec<&Value> = items.map(|event| &event["item"]["type"]).collect();
    assert_eq!(kinds, ["compaction"]);
    assert!(String::from_utf8_lossy(&fake.request(1).await.body).contains("hello"));
    gateway.stop().await;
}
