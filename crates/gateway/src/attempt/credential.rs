//! Authentication at a provider: a key in its header, or AWS's signature over the request. Not for choosing keys.

use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;

use photofinish_config::{Auth, ProviderDialect};
use photofinish_transport::upstream::{Credentials, Outgoing, sign};

/// AWS's name of the service that serves models.
const SERVICE: &str = "bedrock";

/// Adds the authentication that `spoken` needs to an otherwise complete request. A key that is not a valid header value is
/// left out; the provider then refuses the request.
pub(super) fn add(outgoing: &mut Outgoing, spoken: &ProviderDialect, key: Option<&str>, now: SystemTime) {
    for (name, value) in &spoken.headers {
        if !outgoing.headers.contains_key(name) {
            outgoing.headers.insert(name.clone(), value.clone());
        }
    }
    let Some(key) = key else { return };
    match &spoken.auth {
        Auth::SigV4 { region } if key.contains(':') => outgoing.headers.extend(signed(outgoing, region, key, now)),
        auth => outgoing.headers.extend(credential(auth, key)),
    }
}

/// The header that carries a key.
fn credential(auth: &Auth, key: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, text) = match auth {
        Auth::Bearer | Auth::SigV4 { .. } => (AUTHORIZATION, format!("Bearer {key}")),
        Auth::Header(name) => (HeaderName::try_from(name.as_str()).ok()?, key.to_owned()),
    };
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// The headers of AWS's signature over the complete request.
fn signed(outgoing: &Outgoing, region: &str, key: &str, now: SystemTime) -> HeaderMap {
    let mut parts = key.splitn(3, ':');
    let (Some(id), Some(secret)) = (parts.next(), parts.next()) else { return HeaderMap::new() };
    let credentials = Credentials {
        access_key_id: id.to_owned(),
        secret_access_key: SecretString::from(secret),
        session_token: parts.next().map(SecretString::from),
    };
    let url = outgoing.endpoint.url(&outgoing.path);
    let headers =
        sign(&credentials, region, SERVICE, &outgoing.method, &url, &outgoing.headers, &outgoing.body.joined(), now);
    headers.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http::Method;

    use super::*;
    use photofinish_config::Transport;
    use photofinish_transport::upstream::Endpoint;
    use photofinish_wire::Dialect;

    fn outgoing() -> Outgoing {
        Outgoing {
            endpoint: Endpoint::parse("https://api.example.com/v1").unwrap(),
            method: Method::POST,
            path: "/messages".into(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}").into(),
            connect_timeout: Duration::from_secs(1),
            fresh: false,
        }
    }

    fn sent(auth: Auth, key: Option<&str>) -> HeaderMap {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        )]);
        let spoken = ProviderDialect {
            dialect: Dialect::Anthropic,
            base_url: String::new(),
            auth,
            headers,
            transport: Transport::default(),
        };
        let mut outgoing = outgoing();
        add(&mut outgoing, &spoken, key, SystemTime::UNIX_EPOCH);
        outgoing.headers
    }

    #[test]
    fn each_way_of_sending_a_key_is_marked_sensitive() {
        let aws = Auth::SigV4 { region: "us-east-1".to_owned() };
        for (auth, name, expected) in [
            (Auth::Bearer, "authorization", "Bearer k"),
            (Auth::Header("api-key".to_owned()), "api-key", "k"),
            (aws, "authorization", "Bearer k"),
        ] {
            let headers = sent(auth, Some("k"));
            assert!(headers[name] == expected && headers[name].is_sensitive(), "{headers:?}");
            assert_eq!(headers["anthropic-version"], "2023-06-01");
        }
        for key in [None, Some("line\nbreak")] {
            assert!(!sent(Auth::Bearer, key).contains_key("authorization"), "{key:?}");
        }
    }

    #[test]
    fn what_the_client_sent_goes_before_the_usual() {
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("old"))]);
        let spoken = ProviderDialect {
            dialect: Dialect::Anthropic,
            base_url: String::new(),
            auth: Auth::Bearer,
            headers: headers.clone(),
            transport: Transport::default(),
        };
        let mut outgoing = outgoing();
        outgoing.headers.insert("anthropic-version", HeaderValue::from_static("2099-01-01"));
        add(&mut outgoing, &spoken, None, SystemTime::UNIX_EPOCH);
        assert_eq!(outgoing.headers["anthropic-version"], "2099-01-01");
    }
}
