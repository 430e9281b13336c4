//! What packages and containers need: a check of health, completions for shells, pages for `man`, and what exactly this build is.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;

use super::routing::{GatewayAddress, ask};
use photofinish_config::{self as config, ConfigSource, LISTEN_VARIABLE, Listen};

/// What the command `healthcheck` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct HealthOptions {
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens.
    #[arg(long, value_name = "URL", value_parser = GatewayAddress::parse)]
    pub url: Option<GatewayAddress>,
}

/// What the command `completions` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct CompletionOptions {
    /// The shell that reads them.
    shell: Shell,
}

/// What the command `man` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ManOptions {
    /// The directory for the pages, one for each command. It must be there.
    directory: PathBuf,
}

/// Says nothing if the gateway answers.
///
/// # Errors
/// It does not, or is not well.
pub async fn health(at: &GatewayAddress) -> anyhow::Result<()> {
    ask::get(at, "/healthz".to_owned(), None).await.map(drop)
}

/// The same for the gateway of this configuration.
///
/// # Errors
/// As above, or nothing says where it is.
pub async fn health_here(source: &ConfigSource) -> anyhow::Result<()> {
    let at = match config::load(source) {
        Ok(config) => GatewayAddress::listening(&config.server.listen, config.server.tls.is_some()),
        // A gateway goes on with the file that it began with.
        Err(error) => {
            let named = std::env::var(LISTEN_VARIABLE).ok().and_then(|text| Listen::parse(&text));
            let named = named.with_context(|| format!("{error}\nsay with --url where the gateway is"))?;
            GatewayAddress::listening(&[named], false)
        }
    };
    health(&at?).await
}

/// Writes the script that completes commands and options.
///
/// # Errors
/// Those of `out`.
pub fn completions(mut program: Command, options: &CompletionOptions, out: &mut impl Write) -> io::Result<()> {
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    clap_complete::generate(options.shell, &mut program, name, &mut script);
    out.write_all(&script).and_then(|()| out.flush())
}

/// Writes the pages into the directory.
///
/// # Errors
/// It cannot be written.
pub fn pages(program: Command, options: &ManOptions) -> anyhow::Result<()> {
    std::fs::create_dir_all(&options.directory)
        .and_then(|()| clap_mangen::generate_to(program, &options.directory))
        .with_context(|| format!("cannot write pages into {}", options.directory.display()))
}

/// The version; all that distinguishes this build from others, if asked.
///
/// # Errors
/// Those of `out`.
pub fn version(verbose: bool, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "photofinish {}", env!("CARGO_PKG_VERSION"))?;
    if verbose {
        let libc = if cfg!(target_feature = "crt-static") { "linked statically" } else { "linked dynamically" };
        writeln!(out, "commit: {}", env!("PHOTOFINISH_COMMIT"))?;
        writeln!(out, "date: {}", env!("PHOTOFINISH_DATE"))?;
        writeln!(out, "target: {}, {libc}", env!("PHOTOFINISH_TARGET"))?;
        writeln!(out, "features: rustls with ring, bundled SQLite, mimalloc")?;
    }
    Ok(())
}
