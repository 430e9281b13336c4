//! One request to a running gateway, and the error message for each refusal. Not for its answer, which `table` draws.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use photofinish_base::failure::{Failure, FailureKind};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Listen;
use photofinish_transport::upstream::{Endpoint, Outgoing, Response, UpstreamClient};

/// How long a command waits until a gateway takes its connection, or is taken for none.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long a command waits for the whole answer of a gateway.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Bytes of that answer.
const BODY_MAX: usize = 32 << 20;

/// A gateway, and how it was written.
#[derive(Clone, Debug)]
pub struct GatewayAddress {
    pub endpoint: Endpoint,
    pub url: String,
}

impl GatewayAddress {
    /// The gateway that listens there, by an address that works on this machine.
    ///
    /// # Errors
    /// When the configuration does not say where: its port is the system's choice, it has only socket files, or its certificate is
    /// for a name.
    pub fn listening(listen: &[Listen], tls: bool) -> anyhow::Result<GatewayAddress> {
        const SAY: &str = "say with --url where the gateway is";
        let address = listen.iter().find_map(Listen::address);
        let Some(address) = address else { anyhow::bail!("the configuration names socket files only: {SAY}") };
        anyhow::ensure!(!tls, "the gateway's certificate is for a name: {SAY}, such as https://gateway.example.com");
        anyhow::ensure!(address.port() != 0, "the configuration leaves the port to the system: {SAY}");
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let url = format!("http://{}", SocketAddr::new(ip, address.port()));
        Ok(GatewayAddress { endpoint: Endpoint::parse(&url)?, url })
    }

    /// For clap.
    pub fn parse(text: &str) -> Result<GatewayAddress, String> {
        let endpoint = Endpoint::parse(text).map_err(|_| "expected a URL such as http://127.0.0.1:8080".to_owned())?;
        Ok(GatewayAddress { endpoint, url: text.trim_end_matches('/').to_owned() })
    }
}

/// What the gateway answers to a GET of this path.
///
/// # Errors
/// For the user. They never quote the token.
pub(in crate::cli) async fn get(
    at: &GatewayAddress,
    path: String,
    token: Option<&SecretString>,
) -> anyhow::Result<Bytes> {
    ask(at, (Method::GET, path, Bytes::new()), token).await
}

/// No gateway took the connection.
#[derive(Debug, thiserror::Error)]
#[error("no gateway answers at {url} ({why}). Start one with `photofinish serve`, or say with --url where it is")]
pub(in crate::cli) struct NoGateway {
    url: String,
    why: String,
}

/// What the gateway answers to a request with this method, path and JSON body.
///
/// # Errors
/// For the user. They never quote the token. [`NoGateway`]: nothing was done.
pub(in crate::cli) async fn ask(
    at: &GatewayAddress,
    (method, path, body): (Method, String, Bytes),
    token: Option<&SecretString>,
) -> anyhow::Result<Bytes> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
            .map_err(|_| anyhow!("the token has characters that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let outgoing = Outgoing {
        endpoint: at.endpoint.clone(),
        method,
        path: path.into(),
        headers,
        body: body.into(),
        connect_timeout: CONNECT_MAX,
        fresh: false,
    };
    let shutdown = Shutdown::new();
    let client = UpstreamClient::new(shutdown.clone()).context("cannot set up TLS")?;
    let answer = tokio::time::timeout(ANSWER_MAX, async {
        let response = client.send(&outgoing, |_| {}).await?;
        let status = response.status;
        Ok::<_, Failure>((status, whole(response).await?))
    });
    let answer = answer.await;
    shutdown.cancel();
    let no_answer = |why: &str| NoGateway { url: at.url.clone(), why: why.to_owned() };
    match answer {
        Err(_) => bail!("{}", no_answer(&format!("nothing came within {ANSWER_MAX:?}"))),
        Ok(Err(failure)) if failure.kind == FailureKind::Connect => Err(no_answer(&failure.message).into()),
        Ok(Err(failure)) => bail!("{}", no_answer(&failure.message)),
        Ok(Ok((StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED, body))) => Ok(body),
        Ok(Ok((status, body))) => refused(at, &outgoing.path, status, &body),
    }
}

pub(super) fn path(model: Option<&str>) -> String {
    let mut path = "/api/routing".to_owned();
    if let Some(model) = model {
        path.push_str("?model=");
        path.push_str(&encoded(model));
    }
    path
}

/// For a query.
pub(in crate::cli) fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~/,".contains(&byte) => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

/// As much of it as is read; a longer one is cut off.
async fn whole(mut response: Response) -> Result<Bytes, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = poll_fn(|context| response.body.poll_chunk(context)).await {
        body.extend_from_slice(&chunk?);
        if body.len() > BODY_MAX {
            body.truncate(BODY_MAX);
            break;
        }
    }
    Ok(body.into())
}

fn refused(at: &GatewayAddress, path: &str, status: StatusCode, body: &[u8]) -> anyhow::Result<Bytes> {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let (code, message) = (error["error"]["code"].as_str(), error["error"]["message"].as_str());
    let is_own = |code: &&str| code.starts_with("photofinish") || *code == "model_not_found";
    let (Some(code), Some(message)) = (code.filter(is_own), message) else {
        bail!("what answers at {} is no photofinish gateway (status {status}): say with --url where it is", at.url);
    };
    match code {
        "photofinish_unauthorized" => {
            bail!("the gateway at {} wants a token ({message}): give it as PHOTOFINISH_TOKEN or --token", at.url)
        }
        "photofinish_forbidden" => {
            bail!("the gateway at {} refuses it: {message}: give another token as PHOTOFINISH_TOKEN or --token", at.url)
        }
        "photofinish_not_found" => bail!("the gateway at {} is of an older version and has no {path}", at.url),
        _ => bail!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_written_into_the_url_whatever_it_is_called() {
        assert_eq!(path(None), "/api/routing");
        assert_eq!(path(Some("a/m,b/m")), "/api/routing?model=a/m,b/m");
        assert_eq!(path(Some("50% +ü&")), "/api/routing?model=50%25%20%2B%C3%BC%26");
    }
}
