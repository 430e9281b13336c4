//! `photofinish login`: a key of one's own, from the company's login. A browser anywhere confirms it. Not for what the gateway asks its
//! issuer: see the server's `login`.

use std::io;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::accounts::write_key;
use super::routing::GatewayAddress;
use super::routing::ask;
use super::text::write_paragraph;

pub const EXAMPLES: &str = "\
Examples:
  export PHOTOFINISH_TOKEN=$(photofinish login --url https://llm.example.com)
  photofinish login --url https://llm.example.com --expires 90d
  eval \"$(photofinish env claude --url https://llm.example.com)\"   # then points an app at it";

#[derive(Args, Clone, Debug)]
pub struct LoginOptions {
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens.
    #[arg(long, value_name = "URL", value_parser = GatewayAddress::parse)]
    pub url: Option<GatewayAddress>,
    /// What the key is for, such as the name of this machine.
    #[arg(long, default_value = "photofinish login")]
    name: String,
    /// How long the key lives (such as 12h or 90d), or until when; by default as long as the login.
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// What the gateway answers, for programs.
    #[arg(long)]
    json: bool,
}

/// The key goes to `out`, what a person must do to `err`.
///
/// # Errors
/// For the user, in words that say what to do.
pub async fn run(
    at: &GatewayAddress,
    options: &LoginOptions,
    width: usize,
    (out, err): (&mut impl io::Write, &mut impl io::Write),
) -> anyhow::Result<()> {
    let mut asked = json!({ "name": options.name });
    if let Some(expires) = &options.expires {
        asked["expires"] = json!(expires);
    }
    let begun = post(at, &asked).await?;
    let text = |member: &str| begun[member].as_str().unwrap_or_default().to_owned();
    let (url, code) = (text("url"), text("code"));
    asked["login"] = begun["login"].clone();
    let whole = begun["url_with_code"].as_str().map(|whole| format!(", or {whole} at once")).unwrap_or_default();
    write_paragraph(&format!("Open {url} in a browser, and confirm the code {code} there{whole}."), Some(width), err)?;
    write_paragraph("Waiting for it; Ctrl-C ends it.", Some(width), err)?;
    // Each question waits at the gateway, and the login ends by itself.
    let answer = loop {
        let answer = post(at, &asked).await?;
        if answer["waiting"] != true {
            break answer;
        }
    };
    if options.json {
        return Ok(writeln!(out, "{answer:#}")?);
    }
    write_key(&answer, Some(width), out)?;
    Ok(())
}

async fn post(at: &GatewayAddress, body: &Value) -> anyhow::Result<Value> {
    let body = Bytes::from(body.to_string());
    let answer = ask::ask(at, (Method::POST, "/api/login".to_owned(), body), None).await?;
    serde_json::from_slice(&answer).context("the answer is no JSON")
}
