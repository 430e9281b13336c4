//! The files of the dashboard: what is in `site` is what is served. The program contains them, each with its hash and
//! in a compressed form.
//!
//! Pure. Not for who may see them, nor for their headers: see `server`.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use ring::digest::{SHA256, digest};

/// The names of the pages. Each is a path under `/dashboard`; the script of the page reads it.
pub const PAGES: [&str; 16] = [
    "overview",
    "live",
    "races",
    "leaderboard",
    "time",
    "load",
    "incidents",
    "benchmarks",
    "costs",
    "whatif",
    "keys",
    "models",
    "routing",
    "status",
    "playground",
    "me",
];
/// The file that every page begins with.
const FRAME: &str = "index.html";

/// Their names and, in gzip, their contents.
const PACKED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/site.rs"));

/// One file.
#[derive(Debug)]
pub struct SiteFile {
    pub content_type: &'static str,
    /// The hash of its content, in hexadecimal digits.
    pub hash: String,
    pub plain: Bytes,
    /// None if compression saves less than a tenth.
    pub gzip: Option<Bytes>,
}

/// Unpacked at the first request.
static FILES: LazyLock<HashMap<&str, SiteFile>> =
    LazyLock::new(|| PACKED.iter().map(|(name, gzip)| (*name, SiteFile::new(name, gzip))).collect());

/// The file at this path under `/dashboard/assets/`.
pub fn asset(path: &str) -> Option<&'static SiteFile> {
    FILES.get(path).filter(|_| path != FRAME)
}

/// What the page at this path under `/dashboard` begins with: the empty path is the first page. None if there is no such
/// page. `root`: the relative address of `/dashboard/`.
pub fn page(path: &str, root: &str) -> Option<String> {
    let first = path.split('/').next().unwrap_or_default();
    let frame = FILES.get(FRAME).filter(|_| path.is_empty() || PAGES.contains(&first))?;
    Some(std::str::from_utf8(&frame.plain).ok()?.replace("\"assets/", &format!("\"{root}assets/")))
}

impl SiteFile {
    fn new(name: &str, gzip: &'static [u8]) -> SiteFile {
        let plain = unpacked(gzip);
        SiteFile {
            content_type: content_type(name),
            hash: digest(&SHA256, &plain).as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
            gzip: (gzip.len() < plain.len() - plain.len() / 10).then_some(Bytes::from_static(gzip)),
            plain: plain.into(),
        }
    }
}

/// What the build packed, so that it can be unpacked.
pub(crate) fn unpacked(gzip: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut plain).map_or_else(|_| Vec::new(), |_| plain)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests;
