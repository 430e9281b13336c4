//! The files of the dashboard: what is in `site` is what is served. The program contains them, each with its hash and
//! in a compressed form.
//!
//! Pure. Not for who may see them, nor for their headers: see `server`.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

/// The names of the pages. Each is a path under `/dashboard`; the script of the page reads it.
pub const PAGES: [&str; 15] = [
    "overview",
    "live",
    "races",
    "leaderboard",
    "time",
    "load",
    "regressions",
    "benchmarks",
    "costs",
    "whatif",
    "keys",
    "models",
    "routing",
    "status",
    "playground",
];
/// The file that every page begins with.
const FRAME: &str = "index.html";

#[derive(RustEmbed)]
#[folder = "src/dashboard/site"]
struct SiteFiles;

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

/// Compressed at the first request. 30 ms.
static FILES: LazyLock<HashMap<String, SiteFile>> = LazyLock::new(|| {
    let names = SiteFiles::iter().filter_map(|name| Some((name.to_string(), SiteFiles::get(&name)?)));
    names
        .map(|(name, file)| (name.clone(), SiteFile::new(&name, file.data.into_owned(), file.metadata.sha256_hash())))
        .collect()
});

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
    fn new(name: &str, plain: Vec<u8>, hash: [u8; 32]) -> SiteFile {
        let gzip = compressed(&plain).filter(|gzip| gzip.len() < plain.len() - plain.len() / 10);
        SiteFile {
            content_type: content_type(name),
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            plain: plain.into(),
            gzip: gzip.map(Bytes::from),
        }
    }
}

fn compressed(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok()
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
