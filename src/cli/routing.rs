//! `photofinish routing`: the state of every upstream in a running gateway, and why it is chosen or not, as a table per model. Not
//! for the reasons, which the gateway gives.

pub(super) mod ask;
mod table;

use std::io;

use secrecy::SecretString;

pub use self::ask::GatewayAddress;
use super::screen::ScreenSettings;
use photofinish_routing::status::RoutingReport;
use table::Detail;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct RoutingOptions {
    /// Only this model: a name, an alias, or upstreams as provider/model with commas between.
    #[arg(long)]
    pub model: Option<String>,
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens. https
    /// is for one that speaks TLS.
    #[arg(long, value_name = "URL", value_parser = GatewayAddress::parse)]
    pub url: Option<GatewayAddress>,
    /// The token of a user with role = "admin" or "viewer"; needed where there are users. Better in the variable, where others cannot
    /// see it.
    #[arg(long, value_name = "TOKEN", env = "PHOTOFINISH_TOKEN", hide_env_values = true)]
    pub token: Option<SecretString>,
    /// Every column, and what extras may cost.
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// What the columns mean.
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// What the gateway answers, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/routing.txt").trim_ascii_end();

/// Asks the gateway at `at` and writes the table, or what programs read, to `out`.
///
/// # Errors
/// When no gateway answers there, or it refuses, in words that say what to do; those of `out`.
pub async fn run(
    at: &GatewayAddress,
    options: &RoutingOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let answer = ask::get(at, ask::path(options.model.as_deref()), options.token.as_ref()).await?;
    if options.json {
        return Ok(out.write_all(&answer)?);
    }
    let routing: RoutingReport = serde_json::from_slice(&answer).map_err(|error| {
        anyhow::anyhow!("the answer of {} is not of this version of photofinish ({error}): see --json", at.url)
    })?;
    let detail = Detail { wide: options.wide, explain: options.explain, whole: table::has_whole(&routing) };
    Ok(table::write(&routing, detail, screen.terminal(), screen.colour, out)?)
}

/// What the gateway at `at` answers. None: none answers, or it wants a token.
pub(super) async fn report(at: &GatewayAddress) -> Option<RoutingReport> {
    let answer = ask::get(at, ask::path(None), None).await.ok()?;
    serde_json::from_slice(&answer).ok()
}

#[cfg(test)]
mod tests;
