//! Providers behind an HTTP proxy, and providers with certificates of a private authority.

use serde_json::json;

use super::trusting;
use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::process;
use crate::support::{FakeProvider, FakeProxy, NAME, Script, Tunnel, soon};

/// The fake's address with a name that only a proxy can resolve.
fn named(fake: &FakeProvider) -> String {
    fake.base_url().replace("127.0.0.1", NAME)
}

#[tokio::test]
async fn every_dialect_goes_through_the_proxy_tunnel() {
    for alpn in [Some("h2"), Some("http/1.1"), None] {
        let answer = |_: &_| Script::stream(&["hello"]);
        let fake = match alpn {
            Some(alpn) => FakeProvider::answering_tls(&[alpn], answer).await,
            None => FakeProvider::answering(answer).await,
        };
        let (_folder, ca_file) =
            if alpn.is_some() { trusting(&fake) } else { (tempfile::tempdir().unwrap(), String::new()) };
        let proxy = FakeProxy::start(Tunnel::To(fake.addr())).await;
        let url = proxy.url().replace("http://", "http://user:pl%40nted@");
        let setup = Setup::new().provider_at("a", &named(&fake), &format!("proxy = \"{url}\"\n{ca_file}"));
        let gateway = setup.start().await;
        for _ in 0..3 {
            assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello", "{alpn:?}");
        }
        let port = fake.addr().port();
        let expected =
            format!("CONNECT {NAME}:{port} HTTP/1.1\nhost: {NAME}:{port}\nproxy-authorization: Basic dXNlcjpwbEBudGVk");
        assert_eq!(proxy.heads(), [expected], "one tunnel, kept");
        let requests = fake.requests();
        assert!(requests.iter().all(|request| request.header("proxy-authorization").is_none()));
        assert_eq!(requests[0].version == "HTTP/2.0", alpn == Some("h2"));
        let rows = gateway.stop().await;
        let reused: Vec<_> = rows.attempts.iter().map(|row| row["conn_reused"].clone()).collect();
        assert_eq!(reused, [json!(0), json!(1), json!(1)]);
    }
}

#[tokio::test]
async fn a_refusing_proxy_is_a_connect_failure_that_names_the_proxy() {
    for (tunnel, expected) in [
        (say("HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n"), "407"),
        (say("HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\n\r\nforbidden"), "refuses with 403 Forbidden"),
        (say("HTTP/1.0 502 planted\r\n\r\n"), "refuses with 502 Bad Gateway"),
        (say("SSH-2.0-OpenSSH_9.6\r\n\r\n"), "does not answer as an HTTP proxy"),
        (say("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), "does not answer as an HTTP proxy"),
        (say("HTTP/1.1 200 O"), "hung up without an answer"),
        (say(""), "hung up without an answer"),
        (Tunnel::Repeat("x-filler: planted\r\n"), "a head of more than 16 KiB"),
    ] {
        let proxy = FakeProxy::start(tunnel).await;
        let url = proxy.url().replace("http://", "http://user:planted@");
        let setup = Setup::new().provider_at("a", "https://provider.test/v1", &format!("proxy = \"{url}\""));
        let gateway = setup.start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        assert_eq!(response.status, 502, "{}", response.body);
        let message = response.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("the proxy {} ", proxy.addr())) && message.contains(expected), "{message}");
        assert!(!response.body.contains("planted"), "{}", response.body);
        let rows = gateway.stop().await;
        assert_eq!(
            ending(&rows.attempts[0]),
            json!({"outcome": "failed", "failure": "connect", "failure_phase": "connect"}),
            "{expected}"
        );
    }
}

fn say(bytes: &str) -> Tunnel {
    Tunnel::Say(bytes.as_bytes().to_vec())
}

#[tokio::test]
async fn a_stalled_or_absent_proxy_ends_with_the_connect_timeout() {
    let proxy = FakeProxy::start(Tunnel::Silence).await;
    let setup = Setup::new().provider_at("a", "https://provider.test/v1", &format!("proxy = \"{}\"", proxy.url()));
    let gateway = setup.race("timeouts = { connect = \"50ms\" }").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert!(response.body.contains(&format!("through the proxy {}", proxy.addr())), "{}", response.body);
    let rows = gateway.stop().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "timeout", "failure": "timeout", "failure_phase": "connect"})
    );

    // The address of a proxy that no longer listens.
    let (url, addr) = (proxy.url(), proxy.addr());
    drop(proxy);
    let setup = Setup::new().provider_at("a", "https://provider.test/v1", &format!("proxy = \"{url}\""));
    let gateway = setup.start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert!(response.body.contains(&format!("the proxy {addr} cannot be reached: connect: ")), "{}", response.body);
    let rows = gateway.stop().await;
    assert_row!(&rows.attempts[0], json!({"failure": "connect", "failure_phase": "connect"}));
}

#[tokio::test]
async fn direct_and_proxied_connections_are_not_shared() {
    let fake = FakeProvider::answering_tls(&["h2"], |_| Script::stream(&["hello"])).await;
    let other = FakeProvider::answering_tls(&["h2"], |_| Script::stream(&["never"])).await;
    let (_folder, right) = trusting(&fake);
    let (_folder_2, wrong) = trusting(&other);
    let (one, two) = (FakeProxy::start(Tunnel::To(fake.addr())).await, FakeProxy::start(Tunnel::To(fake.addr())).await);
    let through = |proxy: &FakeProxy, user: &str| {
        format!("proxy = \"{}\"\n{right}", proxy.url().replace("http://", &format!("http://{user}@")))
    };
    let url = named(&fake);
    let setup = Setup::new()
        .provider_at("a", &url, &through(&one, "ann"))
        .provider_at("b", &url, &through(&two, "ann"))
        .provider_at("c", &url, &through(&one, "bob"))
        .provider_at("d", &fake.base_url(), &right)
        .provider_at("e", &fake.base_url(), &wrong)
        .provider_at("f", &fake.base_url(), "");
    let gateway = setup.start().await;
    for _ in 0..2 {
        for (provider, expected) in [("a", 200), ("b", 200), ("c", 200), ("d", 200), ("e", 502), ("f", 502)] {
            let body = json!({"model": format!("{provider}/m"), "stream": true, "messages": [{}]});
            let response = read_response(&mut gateway.ask(&body).await).await;
            assert_eq!(response.status, expected, "{provider}: {}", response.body);
            assert!(expected == 200 || response.body.contains("\"failure\":\"tls\""), "{}", response.body);
        }
    }
    assert_eq!((one.heads().len(), two.heads().len()), (2, 1), "one tunnel for each name and proxy");
    gateway.stop().await;
}

#[tokio::test]
async fn a_changed_authority_file_is_used_after_a_reload() {
    let fake = FakeProvider::answering_tls(&["h2"], |_| Script::stream(&["hello"])).await;
    let other = FakeProvider::answering_tls(&["h2"], |_| Script::stream(&["never"])).await;
    let (folder, line) = trusting(&other);
    let setup = Setup::new().provider_at("a", &fake.base_url(), &line);
    let gateway = setup.start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    std::fs::write(folder.path().join("ca.pem"), fake.ca()).unwrap();
    gateway.reload(&setup).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    gateway.stop().await;
}

#[tokio::test]
async fn the_environment_s_proxy_is_used_and_its_password_never_shown() {
    let fake = FakeProvider::answering_tls(&["h2"], |_| Script::stream(&["hello"])).await;
    let proxy = FakeProxy::start(Tunnel::To(fake.addr())).await;
    let provider = |name: &str, more: &str| {
        format!("\n[providers.{name}]\nbase_url = \"{}\"\nca_file = \"ca.pem\"\n{more}", named(&fake))
    };
    let config = format!("{}{}", provider("one", ""), provider("two", "proxy = \"none\"\n"));
    let url = proxy.url().replace("http://", "http://user:planted@");
    let setup = process::Setup::new(&config).env("HTTPS_PROXY", &url).env("PHOTOFINISH_LOG", "trace");
    setup.write("ca.pem", fake.ca());
    let check = setup.run(&["check"]).await;
    assert!(check.out.contains(&format!("through {}", proxy.addr())), "{}", check.out);
    assert!(!check.out.contains("planted") && !check.err.contains("planted"));
    let served = setup.serve().await;
    assert_eq!(served.ask("one/m").await.status, 200);
    let answer = served.ask("two/m").await;
    assert!(answer.status == 502 && answer.body.contains("name look-up"), "directly: {}", answer.body);
    assert_eq!(proxy.heads().len(), 1);
    served.process.signal("TERM");
    soon("the end", served.process.ended()).await;
    assert!(!served.process.log().contains("planted") && !served.process.log().contains("dXNlcjpw"));

    let spared = process::Setup::new(&config).env("https_proxy", &url).env("NO_PROXY", "example.com,.test");
    spared.write("ca.pem", fake.ca());
    let served = spared.serve().await;
    assert_eq!(served.ask("one/m").await.status, 502);
    assert_eq!(proxy.heads().len(), 1);
}
