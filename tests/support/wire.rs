//! HTTP/1.1 by hand, for client and server: just enough to see and send every byte.

use std::io::{self, ErrorKind};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::log::Request;

/// Maximum bytes of a head, or of read-ahead data.
pub(super) const BUFFER_MAX: usize = 64 * 1024 * 1024;

pub(super) type Headers = Vec<(String, String)>;

/// # Errors
/// The connection ends before the request does.
pub(super) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    connection: usize,
) -> io::Result<Request> {
    let (line, headers) = read_head(stream, buffer).await?;
    let mut words = line.split(' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    let (method, path, version) = (word(), word(), word());
    // A request without a length has no body.
    let has_body = header(&headers, "content-length").or(header(&headers, "transfer-encoding")).is_some();
    let body = if has_body { read_body(stream, buffer, &headers).await? } else { Bytes::new() };
    Ok(Request { number: 0, connection, version, method, path, headers, body })
}

/// The first line, and the headers with lower-case names.
pub(super) async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<(String, Headers)> {
    let head = read_until(stream, buffer, b"\r\n\r\n").await?;
    let head = String::from_utf8(head.to_vec()).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    let mut lines = head.trim_end().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok((first, headers))
}

/// The whole body, by its framing.
pub(super) async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    headers: &Headers,
) -> io::Result<Bytes> {
    if header(headers, "transfer-encoding").is_some() {
        let mut body = BytesMut::new();
        while let Some(chunk) = read_chunk(stream, buffer).await? {
            body.extend_from_slice(&chunk);
        }
        return Ok(body.freeze());
    }
    if let Some(length) = header(headers, "content-length") {
        let length = length.parse().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        return read_length(stream, buffer, length).await;
    }
    while fill(stream, buffer).await.is_ok() {}
    Ok(buffer.split().freeze())
}

/// The next chunk of a chunked body. None: the body has ended.
pub(super) async fn read_chunk(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<Option<Bytes>> {
    let line = read_until(stream, buffer, b"\r\n").await?;
    let size = std::str::from_utf8(&line).ok().and_then(|line| usize::from_str_radix(line.trim_end(), 16).ok());
    let size = size.ok_or(ErrorKind::InvalidData)?;
    let mut chunk = read_length(stream, buffer, size + 2).await?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

/// Reads up to and including the pattern.
pub(super) async fn read_until(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    pattern: &[u8],
) -> io::Result<Bytes> {
    loop {
        if let Some(at) = buffer.windows(pattern.len()).position(|window| window == pattern) {
            return Ok(buffer.split_to(at + pattern.len()).freeze());
        }
        fill(stream, buffer).await?;
    }
}

async fn read_length(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut, length: usize) -> io::Result<Bytes> {
    while buffer.len() < length {
        fill(stream, buffer).await?;
    }
    Ok(buffer.split_to(length).freeze())
}

async fn fill(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> io::Result<()> {
    if buffer.len() >= BUFFER_MAX {
        return Err(ErrorKind::OutOfMemory.into());
    }
    match stream.read_buf(buffer).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The head of an answer, and whether its body is chunked.
pub(super) fn head(status: u16, headers: &Headers) -> (String, bool) {
    let framed = headers.iter().any(|(name, value)| {
        matches!(name.as_str(), "content-length" | "transfer-encoding") || (name == "connection" && value == "close")
    });
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(if framed { "\r\n" } else { "transfer-encoding: chunked\r\n\r\n" });
    (head, !framed)
}

/// Framed as one chunk; an empty one is the end of the body.
pub(super) fn chunk(bytes: &Bytes) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

pub(super) fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
