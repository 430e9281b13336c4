//! `photofinish routing`: the state of every upstream in a running gateway, and why it is chosen or not, as a table per model. Not
//! for the reasons, which the gateway gives.

mod ask;
mod table;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use secrecy::SecretString;

use super::history::ScreenSettings;
use crate::config::Listen;
use crate::health::routing_status::RoutingReport;
use crate::upstream::Endpoint;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct RoutingOptions {
    /// Only this model: a name, an alias, or upstreams as provider/model with commas between.
    #[arg(long)]
    pub model: Option<String>,
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens. https
    /// is for one that speaks TLS.
    #[arg(long, value_name = "URL", value_parser = gateway_at)]
    pub url: Option<GatewayAddress>,
    /// The token of a user with admin = true; needed where there are users. Better in the variable, where others cannot
    /// see it.
    #[arg(long, value_name = "TOKEN", env = "PHOTOFINISH_TOKEN", hide_env_values = true)]
    pub token: Option<SecretString>,
    /// What the gateway answers, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = "\
Examples:
  photofinish routing                                    every model of the gateway that this configuration starts
  photofinish routing --model demo                       one of them
  photofinish routing --model groq/a,cerebras/b          upstreams, as a request may name them
  photofinish routing --url http://10.0.0.5:8080         another gateway; PHOTOFINISH_TOKEN=… where it has users
  photofinish routing --json | jq '.models[].order'      for programs

It reads what the gateway knows now; `photofinish stats` reads what was recorded.";

/// A gateway, and how it was written.
#[derive(Clone, Debug)]
pub struct GatewayAddress {
    pub endpoint: Endpoint,
    pub url: String,
}

impl GatewayAddress {
    /// The gateway that listens there, as it is reached from this machine.
    ///
    /// # Errors
    /// When the configuration does not tell: its port is the system's choice, it has only socket files, or its certificate is
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
}

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
    let answer = ask::ask(at, options.model.as_deref(), options.token.as_ref()).await?;
    if options.json {
        return Ok(out.write_all(&answer)?);
    }
    let routing: RoutingReport = serde_json::from_slice(&answer).map_err(|error| {
        anyhow::anyhow!("the answer of {} is not of this version of photofinish ({error}): see --json", at.url)
    })?;
    Ok(table::write(&routing, screen.terminal(), screen.colour, out)?)
}

fn gateway_at(text: &str) -> Result<GatewayAddress, String> {
    let endpoint = Endpoint::parse(text).map_err(|_| "expected a URL such as http://127.0.0.1:8080".to_owned())?;
    Ok(GatewayAddress { endpoint, url: text.trim_end_matches('/').to_owned() })
}

#[cfg(test)]
mod tests;
