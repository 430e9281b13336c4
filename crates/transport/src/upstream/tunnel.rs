//! Opens a tunnel through an HTTP proxy with `CONNECT`. The proxy resolves the provider's name.
//!
//! `http` addresses use a tunnel too. So every answer is the provider's own, and the proxy's refusal cannot look like
//! the provider's.

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::Origin;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_config::Proxy;

/// Bytes of the head of a proxy's answer.
const TUNNEL_HEAD_MAX: usize = 16 * 1024;

/// Requests a tunnel to the origin from the proxy at the other end of `stream`. The caller bounds the time.
///
/// # Errors
/// `connect`: the proxy refuses, closes the connection or does not speak HTTP.
pub(super) async fn open(mut stream: TcpStream, proxy: &Proxy, origin: &Origin) -> Result<TcpStream, Failure> {
    let broke = |error: std::io::Error| refused(proxy, &format!("broke off: {error}"));
    stream.write_all(request(proxy, origin).as_bytes()).await.map_err(broke)?;
    let mut head = Vec::with_capacity(512);
    loop {
        if let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
            // The provider has received no byte yet, so no byte may follow the head.
            return match status(&head) {
                Some(status) if !status.is_success() => Err(refused(proxy, &refusal(status))),
                Some(_) if end + 4 == head.len() => Ok(stream),
                _ => Err(refused(proxy, "does not answer as an HTTP proxy")),
            };
        }
        if head.len() >= TUNNEL_HEAD_MAX {
            return Err(refused(proxy, "answers with a head of more than 16 KiB"));
        }
        if (&mut stream).take((TUNNEL_HEAD_MAX - head.len()) as u64).read_buf(&mut head).await.map_err(broke)? == 0 {
            return Err(refused(proxy, "hung up without an answer"));
        }
    }
}

/// A failure that names the proxy, without its credentials.
pub(super) fn refused(proxy: &Proxy, why: &str) -> Failure {
    Failure::new(FailureKind::Connect, Phase::Connect, format!("the proxy {proxy} {why}"))
}

fn request(proxy: &Proxy, origin: &Origin) -> String {
    let host = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
    let target = format!("{host}:{}", origin.port);
    let authorization =
        proxy.authorization().map(|value| format!("proxy-authorization: {value}\r\n")).unwrap_or_default();
    format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{authorization}\r\n")
}

/// `HTTP/1.1 200 Connection established`
fn status(head: &[u8]) -> Option<StatusCode> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let (version, rest) = rest.split_first()?;
    let code = rest.strip_prefix(b" ")?.get(..3)?;
    version.is_ascii_digit().then(|| StatusCode::from_bytes(code).ok())?
}

fn refusal(status: StatusCode) -> String {
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            format!("refuses with {status}: give its name and password in the URL, http://NAME:PASSWORD@PROXY")
        }
        status => format!("refuses with {status}"),
    }
}
