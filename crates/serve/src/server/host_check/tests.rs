//! Who may send what from where, by host, origin and token.

use std::path::Path;

use super::*;
use photofinish_config::parse;

const USER: &str = "[users.a]\ntoken = \"t\"\n";

/// 200 if the request is accepted.
fn status(config: &str, version: Version, target: &str, headers: &[(&'static str, &str)]) -> u16 {
    let config = parse(config, Path::new("x"), &|_| None).unwrap();
    let mut request = Request::get(target).version(version).body(()).unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    check(&request, &config).map_or_else(|rejection| rejection.status().as_u16(), |_| 200)
}

#[test]
fn without_users_a_host_is_an_address_localhost_or_listed() {
    let hosts = "server.hosts = [\"gateway.internal\", \"Box\"]\n";
    for (host, expected) in [
        ("localhost", 200),
        ("LocalHost:8080", 200),
        ("localhost.", 200),
        ("localhost:", 200),
        ("127.0.0.1:8080", 200),
        ("10.0.0.7", 200),
        ("[::1]", 200),
        ("[::1]:8080", 200),
        ("[2001:DB8::1]:80", 200),
        ("gateway.internal", 200),
        ("GATEWAY.internal.:9000", 200),
        ("box", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("evil.localhost", 421),
        ("other.gateway.internal", 421),
        ("0x7f.1", 421),
        ("2130706433", 421),
        ("localhost%00", 421),
        ("", 400),
        (".", 400),
        (":8080", 400),
        ("::1", 400),
        ("[::1", 400),
        ("[::1]8080", 400),
        ("[localhost]", 400),
        ("[fe80::1%eth0]", 400),
        ("localhost:80:80", 400),
        ("localhost:65536", 400),
        ("localhost:+80", 400),
        ("localhost:8o", 400),
        ("localhost, evil.example", 400),
        ("user@localhost", 400),
        ("localhost/path", 400),
        ("http://localhost", 400),
        ("lo calhost", 400),
        ("löcalhost", 400),
    ] {
        assert_eq!(status(hosts, Version::HTTP_11, "/", &[("host", host)]), expected, "{host:?}");
        let with_users = if expected == 421 { 200 } else { expected };
        assert_eq!(status(USER, Version::HTTP_11, "/", &[("host", host)]), with_users, "{host:?} with users");
    }
}

#[test]
fn a_request_has_one_host() {
    for (version, target, hosts, expected) in [
        (Version::HTTP_11, "/", &[][..], 400),
        (Version::HTTP_11, "/", &["localhost", "localhost"], 400),
        (Version::HTTP_11, "/", &["localhost", "evil.example"], 400),
        (Version::HTTP_11, "http://localhost/", &[], 400),
        (Version::HTTP_11, "http://localhost:8080/", &["localhost:8080"], 200),
        (Version::HTTP_11, "http://LOCALHOST/", &["localhost:80"], 200),
        (Version::HTTP_11, "http://localhost/", &["evil.example"], 400),
        (Version::HTTP_11, "http://evil.example/", &["localhost"], 400),
        (Version::HTTP_11, "http://evil.example/", &["evil.example"], 421),
        (Version::HTTP_11, "http://a@localhost/", &["localhost"], 400),
        (Version::HTTP_10, "/", &[], 200),
        (Version::HTTP_10, "/", &["evil.example"], 421),
        (Version::HTTP_10, "/", &["localhost", "localhost"], 400),
        (Version::HTTP_10, "http://evil.example/", &[], 421),
        (Version::HTTP_2, "http://localhost/", &[], 200),
        (Version::HTTP_2, "http://evil.example/", &[], 421),
        (Version::HTTP_2, "http://localhost/", &["evil.example"], 400),
        (Version::HTTP_2, "/", &["localhost"], 200),
        (Version::HTTP_2, "/", &[], 400),
    ] {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        assert_eq!(status("", version, target, &headers), expected, "{version:?} {target} {hosts:?}");
    }
}

#[test]
fn a_page_of_another_origin_stays_out_unless_it_is_listed() {
    let listed = "server.cors = [\"https://app.example\", \"app://own\"]\n";
    let (origin, site) = ("origin", "sec-fetch-site");
    for (headers, none, only) in [
        (&[][..], 200, 200),
        (&[(origin, "http://localhost:8080")], 200, 200),
        (&[(origin, "http://LOCALHOST:8080"), (site, "same-origin")], 200, 200),
        (&[(site, "same-origin")], 200, 200),
        (&[(site, "none")], 200, 200),
        (&[(origin, "https://app.example")], 403, 200),
        (&[(origin, "https://APP.example"), (site, "cross-site")], 403, 200),
        (&[(origin, "app://own")], 403, 200),
        (&[(origin, "https://app.example:8443")], 403, 403),
        (&[(origin, "http://localhost")], 403, 403),
        (&[(origin, "http://localhost:3000"), (site, "same-site")], 403, 403),
        (&[(origin, "http://127.0.0.1:8080")], 403, 403),
        (&[(origin, "null")], 403, 403),
        (&[(origin, "")], 403, 403),
        (&[(origin, "http://localhost:8080"), (origin, "https://evil.example")], 403, 403),
        (&[(origin, "http://localhost:8080"), (site, "cross-site")], 403, 403),
        (&[(site, "cross-site")], 403, 403),
        (&[(site, "same-site")], 403, 403),
        (&[(site, "none"), (site, "cross-site")], 403, 403),
    ] {
        let headers = [&[("host", "localhost:8080")], headers].concat();
        for (config, expected) in [("", none), (listed, only), ("server.cors = [\"*\"]\n", 200)] {
            for users in ["", USER] {
                let config = format!("{config}{users}");
                assert_eq!(status(&config, Version::HTTP_11, "/", &headers), expected, "{config} {headers:?}");
            }
        }
    }
}

#[test]
fn an_app_comes_in_with_a_token_where_there_are_users() {
    let config = parse(USER, Path::new("x"), &|_| None).unwrap();
    let nobody = parse("", Path::new("x"), &|_| None).unwrap();
    let sender = |config: &Config, method: Method, path: &str, headers: &[(&'static str, &str)]| {
        let mut request = Request::builder().method(method).uri(path).body(()).unwrap();
        request.headers_mut().append(HOST, HeaderValue::from_static("localhost:8080"));
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
        }
        check(&request, config).map_err(|rejection| rejection.status().as_u16())
    };
    let (token, cookie) = (("authorization", "Bearer t"), ("cookie", "photofinish-session=s"));
    for (origin, is_app) in [
        ("tauri://localhost", true),
        ("vscode-file://vscode-app", true),
        ("chrome-extension://abcdefghijklmnop", true),
        ("moz-extension://0b2f", true),
        ("app://obsidian.md", true),
        ("http://localhost:3000", true),
        ("https://LOCALHOST", true),
        ("http://tauri.localhost", true),
        ("http://127.0.0.1:5173", true),
        ("http://127.8.8.8", true),
        ("http://[::1]:5173", true),
        ("https://app.example", false),
        ("http://localhost.evil.example", false),
        ("http://evil-localhost", false),
        ("http://10.0.0.7", false),
        ("http://0.0.0.0:3000", false),
        ("wss://app.example", false),
        ("null", false),
        ("", false),
        ("://x", false),
        ("1x://y", false),
    ] {
        let expected = if is_app { Ok(RequestSender::App) } else { Err(403) };
        let (from, cross) = (("origin", origin), ("sec-fetch-site", "cross-site"));
        for key in [token, ("x-api-key", "t"), ("x-goog-api-key", "wrong")] {
            assert_eq!(sender(&config, Method::POST, "/v1/x", &[from, cross, key]), expected, "{origin} {key:?}");
        }
        let preflight = [from, cross, ("access-control-request-method", "POST")];
        assert_eq!(sender(&config, Method::OPTIONS, "/v1/x", &preflight), expected, "{origin}");
        for (config, method, path, headers) in [
            (&config, Method::POST, "/v1/x", &[from, cross][..]),
            (&config, Method::POST, "/v1/x", &[from, cross, cookie]),
            (&config, Method::OPTIONS, "/v1/x", &[from, cross]),
            (&config, Method::POST, "/v1/x", &[from, ("origin", "https://app.example"), token]),
            (&config, Method::GET, "/dashboard", &[from, cross, token]),
            (&config, Method::POST, "/api/reload", &[from, cross, token]),
            (&nobody, Method::POST, "/v1/x", &[from, cross, token]),
            (&nobody, Method::OPTIONS, "/v1/x", &preflight),
        ] {
            assert_eq!(sender(config, method.clone(), path, headers), Err(403), "{origin} {method} {path} {headers:?}");
        }
    }
    assert_eq!(sender(&config, Method::POST, "/v1/x", &[("sec-fetch-site", "cross-site"), token]), Err(403));
    assert_eq!(sender(&config, Method::POST, "/v1/x", &[token]), Ok(RequestSender::Own));
}

#[test]
fn the_port_that_is_not_said_is_the_scheme_s() {
    for (host, origin, expected) in [
        ("gw.example", "https://gw.example", 200),
        ("gw.example:443", "https://gw.example", 200),
        ("gw.example:80", "http://gw.example", 200),
        ("gw.example:80", "https://gw.example", 403),
        ("[::1]:8080", "http://[::1]:8080", 200),
    ] {
        let headers = [("host", host), ("origin", origin)];
        assert_eq!(status(USER, Version::HTTP_11, "/", &headers), expected, "{host} {origin}");
    }
}
