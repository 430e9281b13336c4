//! Tells the program which commit it is of, and for which target it is built: `photofinish --version --verbose`. Compresses the schema
//! of the configuration, which it prints.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;

use flate2::{Compression, GzBuilder};

const SCHEMA: &str = "config.schema.json";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMA}");
    let to = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("config.schema.json.gz");
    let mut encoder = GzBuilder::new().write(File::create(to)?, Compression::best());
    encoder.write_all(&fs::read(SCHEMA)?)?;
    encoder.finish()?;
    // Whoever builds without the repository says it: the commit and its day.
    println!("cargo::rerun-if-env-changed=PHOTOFINISH_BUILT_FROM");
    let said = std::env::var("PHOTOFINISH_BUILT_FROM").ok();
    let from = said.or_else(packed).or_else(|| git(&["log", "-1", "--format=%H %cs"])).unwrap_or_default();
    let (commit, date) = from.trim().split_once(' ').unwrap_or(("unknown", "unknown"));
    println!("cargo::rustc-env=PHOTOFINISH_COMMIT={commit}");
    println!("cargo::rustc-env=PHOTOFINISH_DATE={date}");
    println!("cargo::rustc-env=PHOTOFINISH_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    // Each commit adds a line to it. A path that is not there would build the program at each call.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log.trim()).exists());
    println!("cargo::rerun-if-changed={}", log.as_deref().map_or("build.rs", str::trim));
    Ok(())
}

/// The commit of a crate that `cargo package` packed. The repository around that, if there is one, is another.
fn packed() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, commit) = text.split_once("\"sha1\": \"")?;
    Some(format!("{} unknown", commit.split('"').next()?))
}

/// What git prints. None: it is not there, or this is no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let ran = Command::new("git").args(arguments).output().ok().filter(|ran| ran.status.success())?;
    String::from_utf8(ran.stdout).ok()
}
