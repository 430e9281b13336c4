//! AWS Signature Version 4: a pure function of the request, the key and the time.
//!
//! Not for S3, which encodes paths differently, and not for signed URLs or streams. Why not `aws-sigv4`: see
//! `docs/decisions/0007-request-signing.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use http::header::{AUTHORIZATION, HOST, HeaderName, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue, Method, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::{digest, hmac};
use secrecy::{ExposeSecret, SecretString};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// Headers that a hop may change or that are set after signing. All others are signed.
const UNSIGNED: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "expect",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-amzn-trace-id",
];
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// A key of an AWS account.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: SecretString,
    /// Temporary keys have one.
    pub session_token: Option<SecretString>,
}

/// Why a request cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("the URL to be signed has no host")]
    Url,
    #[error("the clock is beyond all dates")]
    Time,
    #[error("the key, the region or the service holds characters that no header may hold")]
    Header,
}

impl Credentials {
    /// Reads `ACCESS_KEY_ID:SECRET_ACCESS_KEY` or `ACCESS_KEY_ID:SECRET_ACCESS_KEY:SESSION_TOKEN`. No part has a colon.
    pub fn parse(text: &SecretString) -> Option<Credentials> {
        let mut parts = text.expose_secret().trim().split(':');
        let (id, secret, token) = (parts.next()?, parts.next()?, parts.next());
        let filled = !id.is_empty() && !secret.is_empty() && token != Some("") && parts.next().is_none();
        filled.then(|| Credentials {
            access_key_id: id.to_owned(),
            secret_access_key: secret.into(),
            session_token: token.map(SecretString::from),
        })
    }
}

/// Signs a request, and returns the headers to add: `authorization` and the signed `x-amz-` headers. `headers` are all headers of
/// the request except `host` and the connection's own; they must not change after this.
///
/// # Errors
/// The URL has no host, the time is out of range, or a header cannot contain the key.
#[expect(clippy::too_many_arguments, reason = "a signature covers all of a request, and the request is not built yet")]
pub fn sign(
    credentials: &Credentials,
    region: &str,
    service: &str,
    method: &Method,
    url: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> Result<HeaderMap, SignError> {
    let uri: Uri = url.parse().map_err(|_| SignError::Url)?;
    let host = uri.authority().ok_or(SignError::Url)?.as_str();
    // Without `name:password@`.
    let host = host.rsplit('@').next().unwrap_or(host);
    let time = jiff::Timestamp::try_from(now).map_err(|_| SignError::Time)?;
    let time = time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let content = hex(digest::digest(&digest::SHA256, body).as_ref());

    let mut added = HeaderMap::new();
    added.insert(DATE, HeaderValue::from_str(&time)?);
    added.insert(CONTENT, HeaderValue::from_str(&content)?);
    if let Some(token) = &credentials.session_token {
        added.insert(TOKEN, secret(token.expose_secret())?);
    }
    let mut signed = headers.clone();
    signed.extend(added.clone());
    if !signed.contains_key(HOST) {
        signed.insert(HOST, HeaderValue::from_str(host)?);
    }
    let request = SignedRequest { method, uri: &uri, headers: &signed, content: &content };
    let scope = SigningScope { region, service, time: &time };
    added.insert(AUTHORIZATION, secret(&authorization(credentials, &scope, &request))?);
    Ok(added)
}

/// The parts of a request that are signed.
struct SignedRequest<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    /// The hash of the body.
    content: &'a str,
}

/// The scope of a signature.
struct SigningScope<'a> {
    region: &'a str,
    service: &'a str,
    /// `20150830T123600Z`
    time: &'a str,
}

fn authorization(credentials: &Credentials, scope: &SigningScope<'_>, request: &SignedRequest<'_>) -> String {
    let (headers, names) = canonical_headers(request.headers);
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{names}\n{}",
        request.method,
        canonical_path(request.uri.path()),
        canonical_query(request.uri.query().unwrap_or_default()),
        request.content,
    );
    let day = scope.time.get(..8).unwrap_or_default();
    let place = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{}\n{place}\n{hash}", scope.time);

    let secret = format!("AWS4{}", credentials.secret_access_key.expose_secret());
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    for part in [day, scope.region, scope.service, "aws4_request"] {
        key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
    }
    let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
    let id = &credentials.access_key_id;
    format!("{ALGORITHM} Credential={id}/{place}, SignedHeaders={names}, Signature={signature}")
}

/// One line per header in the order of names, and the names. Values of one name are joined; white space becomes one blank.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        if UNSIGNED.contains(&name.as_str()) {
            continue;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let line = lines.entry(name.as_str()).or_default();
        if !line.is_empty() {
            line.push(',');
        }
        line.push_str(&words.join(" "));
    }
    let names = lines.keys().copied().collect::<Vec<_>>().join(";");
    let mut text = String::new();
    for (name, value) in &lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    (text, names)
}

/// The path without empty, `.` and `..` segments, encoded once more: `%3A` becomes `%253A`.
fn canonical_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    let path = format!("/{}{end}", segments.join("/"));
    utf8_percent_encode(&path, PATH).to_string()
}

/// The pairs in the order of their encoded names, then values.
fn canonical_query(query: &str) -> String {
    let encode = |part: &str| {
        let plain = percent_decode_str(part).decode_utf8_lossy();
        utf8_percent_encode(&plain, QUERY).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encode(name), encode(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// A header value that debug output hides.
fn secret(text: &str) -> Result<HeaderValue, SignError> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl From<InvalidHeaderValue> for SignError {
    fn from(_: InvalidHeaderValue) -> SignError {
        SignError::Header
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn credentials(token: Option<&str>) -> Credentials {
        Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: SECRET.into(),
            session_token: token.map(SecretString::from),
        }
    }

    fn header(headers: &mut HeaderMap, name: &str, value: &str) {
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }

    /// The signature of a request of AWS's own test suite.
    fn suite(method: Method, path: &str, more: &[(&str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        header(&mut headers, "host", "example.amazonaws.com");
        header(&mut headers, "x-amz-date", "20150830T123600Z");
        more.iter().for_each(|(name, value)| header(&mut headers, name, value));
        let scope = SigningScope { region: "us-east-1", service: "service", time: "20150830T123600Z" };
        let uri: Uri = format!("https://example.amazonaws.com{path}").parse().unwrap();
        let request = SignedRequest { method: &method, uri: &uri, headers: &headers, content: EMPTY };
        let authorization = authorization(&credentials(None), &scope, &request);
        authorization.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn the_published_test_suite_agrees() {
        let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let many = [("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")];
        type Row<'a> = (&'a str, Method, &'a str, &'a [(&'a str, &'a str)], &'a str);
        let table: &[Row<'_>] = &[
            ("get-vanilla", Method::GET, "/", &[], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (
                "post-vanilla",
                Method::POST,
                "/",
                &[],
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "get-vanilla-query-order-key-case",
                Method::GET,
                "/?Param2=value2&Param1=value1",
                &[],
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-vanilla-query-unreserved",
                Method::GET,
                "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                &[],
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            (
                "get-header-value-trim",
                Method::GET,
                "/",
                &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "get-header-key-duplicate",
                Method::GET,
                "/",
                &many,
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "get-slashes-normalized",
                Method::GET,
                "//example//",
                &[],
                "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
            ),
            (
                "get-vanilla-with-session-token",
                Method::GET,
                "/",
                &[("x-amz-security-token", token)],
                "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
            ),
        ];
        for (name, method, path, headers, signature) in table {
            assert_eq!(suite(method.clone(), path, headers), *signature, "{name}");
        }
        // Headers that the connection sets are not signed.
        let unsigned = [("user-agent", "x"), ("authorization", "y"), ("connection", "close")];
        assert_eq!(suite(Method::GET, "/", &unsigned), suite(Method::GET, "/", &[]));
    }

    const URL: &str = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse-stream";

    fn signed(token: Option<&str>, url: &str) -> Result<HeaderMap, SignError> {
        let mut headers = HeaderMap::new();
        header(&mut headers, "content-type", "application/json");
        header(&mut headers, "accept", "application/vnd.amazon.eventstream");
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_440_938_160_900);
        sign(&credentials(token), "us-east-1", "bedrock", &Method::POST, url, &headers, b"{}", now)
    }

    #[test]
    fn the_headers_to_add_are_given() {
        let added = signed(Some("token"), URL).unwrap();
        assert_eq!(added["x-amz-date"], "20150830T123600Z");
        assert_eq!(added["x-amz-security-token"], "token");
        assert_eq!(added["x-amz-content-sha256"], "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        let authorization = added["authorization"].to_str().unwrap();
        let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, SignedHeaders=accept;\
            content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=";
        assert!(authorization.starts_with(start), "{authorization}");
        assert_eq!((added.len(), signed(None, URL).unwrap().len()), (4, 3));
        assert_eq!(canonical_path("/model/a%3A0/converse"), "/model/a%253A0/converse");
        assert_eq!(canonical_path("/./example/.."), "/");
    }

    #[test]
    fn everything_that_is_sent_counts() {
        let authorization = |token, url: &str| signed(token, url).unwrap()["authorization"].clone();
        let base = authorization(None, URL);
        assert_eq!(base, authorization(None, URL));
        for url in [&URL.replace("us-east-1", "us-west-2"), &URL.replace("haiku", "opus"), &format!("{URL}?a=b")] {
            assert_ne!(base, authorization(None, url), "{url}");
        }
        assert_ne!(base, authorization(Some("token"), URL));
        assert_eq!(base, authorization(None, &URL.replace("https://", "https://user@")));
    }

    #[test]
    fn what_cannot_be_signed_is_an_error() {
        for url in ["/path", "", "not a url"] {
            assert_eq!(signed(None, url), Err(SignError::Url), "{url}");
        }
        assert_eq!(signed(Some("a\nb"), URL), Err(SignError::Header));
        let never = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        let signed = sign(&credentials(None), "r", "s", &Method::GET, URL, &HeaderMap::new(), b"", never);
        assert_eq!(signed, Err(SignError::Time));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?} {:?}", credentials(Some("token!")), signed(Some("token!"), URL).unwrap());
        assert!(!shown.contains(SECRET) && !shown.contains("token!") && !shown.contains("Signature"), "{shown}");
    }

    #[test]
    fn a_key_is_read_from_one_text() {
        let parse = |text: &str| {
            Credentials::parse(&text.into()).map(|read| {
                let token = read.session_token.map(|token| token.expose_secret().to_owned());
                (read.access_key_id, read.secret_access_key.expose_secret().to_owned(), token)
            })
        };
        let owned = str::to_owned;
        assert_eq!(parse("AK:se/cr+et\n"), Some((owned("AK"), owned("se/cr+et"), None)));
        assert_eq!(parse("AK:s:t=="), Some((owned("AK"), owned("s"), Some(owned("t==")))));
        for text in ["", "AK", "AK:", ":s", "AK:s:", "a:b:c:d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
