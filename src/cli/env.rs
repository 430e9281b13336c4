//! `photofinish env`: the variables that point a shell, or one app, at the running gateway.
//!
//! Not for apps that take a file of their own: `docs/apps.md` has those.

use std::io;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::outcome::WrongUse;
use super::routing::{GatewayAddress, ask};
use photofinish_config::names::names;
use photofinish_history::report::question::choice;

names! {
    /// Whose variables.
    pub enum EnvApp {
        /// OpenAI's SDKs, and what is made with them.
        Openai = "openai",
        /// Anthropic's SDKs.
        Anthropic = "anthropic",
        /// Claude Code.
        Claude = "claude",
        /// Gemini CLI.
        Gemini = "gemini",
        /// Ollama's libraries and apps.
        Ollama = "ollama",
        /// aider.
        Aider = "aider",
        /// Copilot CLI.
        Copilot = "copilot",
        /// Qwen Code.
        Qwen = "qwen",
        /// LiteLLM's library.
        Litellm = "litellm",
        /// LobeChat.
        Lobechat = "lobechat",
        /// Open WebUI.
        OpenWebui = "open-webui",
    }
}

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct EnvOptions {
    /// Only this app's; by default those of the SDKs.
    #[arg(value_parser = choice::<EnvApp>())]
    pub app: Option<EnvApp>,
    /// The model for apps that take it from a variable; where there is one only, that one.
    #[arg(long)]
    pub model: Option<String>,
    /// Where the gateway is, such as http://127.0.0.1:8080; by default where the configuration says that it listens.
    #[arg(long, value_name = "URL", value_parser = GatewayAddress::parse)]
    pub url: Option<GatewayAddress>,
    /// A user's token; needed where there are users. Better in the variable, where others cannot see it.
    #[arg(long, value_name = "TOKEN", env = "PHOTOFINISH_TOKEN", hide_env_values = true)]
    pub token: Option<SecretString>,
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/env.txt").trim_ascii_end();

/// Writes lines for a shell. The gateway at `at` must answer, so that they are right.
///
/// # Errors
/// No gateway answers there, it does not know the token or the model; or `out` fails.
pub async fn run(at: &GatewayAddress, options: &EnvOptions, out: &mut impl io::Write) -> anyhow::Result<()> {
    let list: Value = serde_json::from_slice(&ask::get(at, "/v1/models".to_owned(), options.token.as_ref()).await?)?;
    let known: Vec<&str> =
        list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str()).collect();
    if let Some(model) = options.model.as_deref().filter(|model| !known.contains(model) && !model.contains('/')) {
        return Err(WrongUse(format!(
            "the gateway at {} serves no model {model:?}: `photofinish models` lists them",
            at.url
        ))
        .into());
    }
    let model = options.model.as_deref().or(if let [only] = known[..] { Some(only) } else { None });
    // Clients demand some key.
    let token = options.token.as_ref().map_or("none", |token| token.expose_secret());
    for (name, value) in variables(options.app, &at.url, token, model) {
        writeln!(out, "export {name}={}", quoted(&value))?;
    }
    if model.is_none() && !of_model(options.app).is_empty() {
        writeln!(out, "# --model NAME sets its model too")?;
    }
    Ok(())
}

fn variables(app: Option<EnvApp>, url: &str, token: &str, model: Option<&str>) -> Vec<(&'static str, String)> {
    let v1 = format!("{url}/v1");
    let pair =
        |base: (&'static str, &str), key: &'static str| vec![(base.0, base.1.to_owned()), (key, token.to_owned())];
    let openai = || pair(("OPENAI_BASE_URL", &v1), "OPENAI_API_KEY");
    let anthropic = || pair(("ANTHROPIC_BASE_URL", url), "ANTHROPIC_AUTH_TOKEN");
    let gemini = || pair(("GOOGLE_GEMINI_BASE_URL", url), "GEMINI_API_KEY");
    let ollama = || vec![("OLLAMA_HOST", url.to_owned())];
    let mut variables = match app {
        None => [openai(), anthropic(), gemini(), ollama()].concat(),
        Some(EnvApp::Openai | EnvApp::Qwen) => openai(),
        Some(EnvApp::Anthropic | EnvApp::Claude) => anthropic(),
        Some(EnvApp::Gemini) => gemini(),
        Some(EnvApp::Ollama) => ollama(),
        Some(EnvApp::Aider | EnvApp::Litellm) => pair(("OPENAI_API_BASE", &v1), "OPENAI_API_KEY"),
        Some(EnvApp::Lobechat) => pair(("OPENAI_PROXY_URL", &v1), "OPENAI_API_KEY"),
        Some(EnvApp::OpenWebui) => pair(("OPENAI_API_BASE_URL", &v1), "OPENAI_API_KEY"),
        Some(EnvApp::Copilot) => pair(("COPILOT_PROVIDER_BASE_URL", &v1), "COPILOT_PROVIDER_API_KEY"),
    };
    if let Some(model) = model {
        variables.extend(of_model(app).iter().map(|(name, prefix)| (*name, format!("{prefix}{model}"))));
    }
    variables
}

/// Variables that name the model, and what precedes its name there.
fn of_model(app: Option<EnvApp>) -> &'static [(&'static str, &'static str)] {
    match app {
        Some(EnvApp::Claude) => &[("ANTHROPIC_MODEL", ""), ("ANTHROPIC_SMALL_FAST_MODEL", "")],
        Some(EnvApp::Gemini) => &[("GEMINI_MODEL", "")],
        Some(EnvApp::Aider) => &[("AIDER_MODEL", "openai/")],
        Some(EnvApp::Copilot) => &[("COPILOT_MODEL", "")],
        Some(EnvApp::Qwen) => &[("OPENAI_MODEL", "")],
        // Its list of models without those of OpenAI, and with this one.
        Some(EnvApp::Lobechat) => &[("OPENAI_MODEL_LIST", "-all,+")],
        Some(EnvApp::OpenWebui) => &[("DEFAULT_MODELS", "")],
        None | Some(EnvApp::Openai | EnvApp::Anthropic | EnvApp::Ollama | EnvApp::Litellm) => &[],
    }
}

/// For a POSIX shell.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_app_has_its_variables() {
        let of = |app| {
            let all = variables(app, "http://h:1", "t", Some("m"));
            all.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of(Some(EnvApp::Claude)),
            "ANTHROPIC_BASE_URL=http://h:1 ANTHROPIC_AUTH_TOKEN=t ANTHROPIC_MODEL=m ANTHROPIC_SMALL_FAST_MODEL=m"
        );
        assert_eq!(of(Some(EnvApp::Aider)), "OPENAI_API_BASE=http://h:1/v1 OPENAI_API_KEY=t AIDER_MODEL=openai/m");
        let sdks = of(None);
        for start in
            ["OPENAI_BASE_URL=http://h:1/v1", "ANTHROPIC_BASE_URL=http://h:1", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST"]
        {
            assert!(sdks.contains(start), "{start}: {sdks}");
        }
    }

    #[test]
    fn the_page_of_apps_has_the_same_variables() {
        const PAGE: &str = include_str!("../../docs/apps.md");
        for app in [None].into_iter().chain(EnvApp::ALL.map(Some)) {
            let all = variables(app, "http://127.0.0.1:8080", "TOKEN", Some("demo"));
            let cells = all.into_iter().map(|(name, value)| format!("`{name}={value}`")).collect::<Vec<_>>().join(" ");
            let row = format!("| `{}` | {cells} |", app.map_or("", EnvApp::as_str));
            let row = row.replace("| `` |", "| |");
            assert!(PAGE.contains(&row), "docs/apps.md has no row {row}");
        }
    }

    #[test]
    fn a_shell_reads_what_was_meant() {
        assert_eq!(quoted("http://h:1/v1"), "http://h:1/v1");
        assert_eq!(quoted("a b; rm $(x) 'y'"), "'a b; rm $(x) '\\''y'\\'''");
        assert_eq!(quoted(""), "''");
    }
}
