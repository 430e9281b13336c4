//! `photofinish init`: a first `config.toml` out of the keys in the environment and the model servers of this machine.
//!
//! Not for what the file says: see `proposal`. It never replaces a file, and no key goes into it.

mod proposal;

use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use proposal::{FirstConfig, LocalServer, Surroundings};

use super::text::{folded, write_columns};
use photofinish_config::catalogue::{self, CatalogueEntry};
use photofinish_config::{self as config, Config};

/// Usage examples, after the help.
pub const EXAMPLES: &str = include_str!("help/init.txt").trim_ascii_end();

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct InitOptions {
    /// Look for model servers on this machine without asking first.
    #[arg(long)]
    pub yes: bool,
    /// Print the configuration instead of writing it.
    #[arg(long)]
    pub stdout: bool,
}

/// Writes the configuration to `path`, or prints it. `input`: the terminal where the user answers, None without one. `width`: columns of
/// the messages.
///
/// # Errors
/// The file is there already or cannot be written, in words for the user.
pub async fn run(
    path: &Path,
    options: &InitOptions,
    env: &dyn Fn(&str) -> Option<String>,
    input: Option<&mut dyn BufRead>,
    width: usize,
    (out, err): (&mut impl Write, &mut impl Write),
) -> anyhow::Result<()> {
    if !options.stdout {
        refuse_to_replace(path)?;
    }
    let keys = catalogue::entries().filter(|entry| has_key(entry, env)).collect();
    let servers = match may_look(input, err)? {
        true => proposal::look(proposal::usual()).await?,
        false => Vec::new(),
    };
    let found = Surroundings { keys, servers, env };
    let first = proposal::first_config(&found);
    config::parse(&first.text, path, env).context("the proposed configuration is not valid here")?;
    if options.stdout {
        out.write_all(first.text.as_bytes())?;
        return Ok(writeln!(err, "{}", folded(&report(&found, &first), width))?);
    }
    write_new(path, &first.text)?;
    let report = report(&found, &first);
    let text = format!("{report}\n\n{} is written. Next:", path.display());
    writeln!(out, "{}", folded(&text, width))?;
    let config = if path == Path::new("config.toml") { String::new() } else { format!(" --config {}", path.display()) };
    let race = format!("race \"Hello\" --model {}", first.model);
    let next =
        [("check --live", "ask each upstream"), (&race, "run one race and see it"), ("serve", "start the gateway")];
    let next = next.map(|(command, about)| vec![format!("photofinish {command}{config}"), about.to_owned()]);
    Ok(write_columns("  ", &next, width, out)?)
}

/// # Errors
/// There is something at the path, in words for the user.
pub(super) fn refuse_to_replace(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a directory: --config PATH names the file to write", path.display());
    }
    if path.symlink_metadata().is_ok() {
        bail!(
            "{} is there already and stays unchanged: `photofinish check` explains it. --config PATH writes another file, --stdout \
             prints",
            path.display()
        );
    }
    Ok(())
}

/// # Errors
/// A new file cannot be written there, in words for the user.
pub(super) fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    written.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| {
        format!(
            "cannot write {}; run it in a directory where you may write, or use --config PATH or --stdout",
            path.display()
        )
    })
}

/// A variable of this provider holds a key that can be sent, and the key alone switches it on.
fn has_key(entry: &CatalogueEntry, env: &dyn Fn(&str) -> Option<String>) -> bool {
    let key = entry.set_variables(env).next().and_then(env).unwrap_or_default();
    !entry.only_if_named && !key.trim().is_empty() && key.trim().bytes().all(|byte| byte.is_ascii_graphic())
}

/// What `photofinish` alone serves where there is no file and no key: the model servers of this machine, or else simulated providers.
pub async fn found_here() -> anyhow::Result<Config> {
    let servers = proposal::look(proposal::usual()).await?;
    let found = Surroundings { keys: Vec::new(), servers, env: &|_| None };
    Ok(config::load_without_file(&proposal::first_config(&found).text, None)?)
}

/// The configuration that `init` proposes where there is no key and no server.
pub fn simulated() -> anyhow::Result<Config> {
    let none = Surroundings { keys: Vec::new(), servers: Vec::new(), env: &|_| None };
    Ok(config::load_without_file(&proposal::first_config(&none).text, None)?)
}

/// Asks whether to look for servers. Without a terminal there is no answer, and looking is harmless.
fn may_look(input: Option<&mut dyn BufRead>, err: &mut impl Write) -> io::Result<bool> {
    let Some(input) = input else { return Ok(true) };
    write!(err, "Look for Ollama, vLLM, LM Studio and llama.cpp on this machine? [Y/n] ")?;
    err.flush()?;
    let mut answer = String::new();
    // The end of the input is no consent.
    let is_answered = input.read_line(&mut answer)? > 0;
    Ok(is_answered && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

/// What was found, and what races.
fn report(found: &Surroundings<'_>, first: &FirstConfig) -> String {
    let of_key = |entry: &&CatalogueEntry| {
        let (name, variable) = (&entry.name, entry.set_variables(found.env).next().unwrap_or_default());
        match entry.has_address(found.env) {
            true => format!("{variable} is set: {name} is on"),
            false => format!("{variable} is set: {name} needs a table too, see `photofinish providers {name}`"),
        }
    };
    let of_server = |LocalServer { name, url, models }: &LocalServer| match models.as_slice() {
        [] => format!("{name} answers at {url} and has no model yet"),
        [one] => format!("{name} answers at {url} with {one}"),
        several => format!("{name} answers at {url} with {} models", several.len()),
    };
    let model = &first.model;
    let races = match first.upstreams.as_slice() {
        _ if first.is_simulated => {
            let why = match found.keys.is_empty() && found.servers.is_empty() {
                true => {
                    "No key of a provider is set, and no model server was found on this machine. Until there is one"
                }
                false => {
                    "Photofinish knows no model of these: write one into `upstreams`, as \"PROVIDER/MODEL\". Until then"
                }
            };
            format!("{why}, the model \"{model}\" races two simulated providers, which need no key")
        }
        [one] => format!(
            "Every model of these is served by its name. Nothing races yet: \"{model}\" is {one} alone, and a key of another host makes it a race"
        ),
        several => format!(
            "Every model of these is served by its name, and raced where several host it, such as \"{model}\": {}",
            several.join(", ")
        ),
    };
    let said = found.keys.iter().map(of_key).chain(found.servers.iter().map(of_server));
    said.chain([races]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    async fn ran(path: &Path, options: InitOptions, answer: Option<&str>) -> (anyhow::Result<()>, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let env = |name: &str| match name {
            "GROQ_API_KEY" | "CEREBRAS_API_KEY" => Some("planted-key".to_owned()),
            "OPENAI_API_KEY" => Some("two words".to_owned()),
            "AZURE_OPENAI_API_KEY" => Some("planted-azure".to_owned()),
            _ => None,
        };
        let mut input = answer.map(|answer| Cursor::new(answer.to_owned()));
        let input = input.as_mut().map(|input| input as &mut dyn BufRead);
        let result = run(path, &options, &env, input, 200, (&mut out, &mut err)).await;
        (result, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[tokio::test]
    async fn a_file_is_written_once_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let options = InitOptions { yes: false, stdout: false };
        let (result, out, err) = ran(&path, options.clone(), Some("n\n")).await;
        result.unwrap();
        assert_eq!(err, "Look for Ollama, vLLM, LM Studio and llama.cpp on this machine? [Y/n] ");
        for words in [
            "GROQ_API_KEY is set: groq is on",
            "AZURE_OPENAI_API_KEY is set: azure needs a table too, see `photofinish providers azure`",
            "raced where several host it, such as \"gpt-oss-120b\": groq/openai/gpt-oss-120b, cerebras/gpt-oss-120b",
            "photofinish race \"Hello\" --model gpt-oss-120b",
        ] {
            assert!(out.contains(words), "{words}: {out}");
        }
        assert!(!out.contains("\nOPENAI_API_KEY") && !out.contains("planted"), "{out}");
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(!written.contains("planted"));

        let (result, out, err) = ran(&path, options, Some("n\n")).await;
        let why = result.unwrap_err().to_string();
        assert!(why.contains("is there already and stays unchanged") && out.is_empty() && err.is_empty(), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written);

        let (result, out, err) = ran(&path, InitOptions { yes: false, stdout: true }, Some("")).await;
        result.unwrap();
        assert_eq!(out, written, "the end of the input is no consent");
        assert!(err.contains("\"gpt-oss-120b\": groq/"), "{err}");
    }

    #[test]
    fn without_a_known_model_it_says_what_is_missing() {
        let said = |names: &[&str]| {
            let keys = names.iter().filter_map(|name| catalogue::find(name)).collect();
            let env = |name: &str| (name == "AZURE_OPENAI_API_KEY").then(|| "planted-key".to_owned());
            let found = Surroundings { keys, servers: Vec::new(), env: &env };
            report(&found, &proposal::first_config(&found))
        };
        assert!(
            said(&[]).starts_with("No key of a provider is set, and no model server was found on this machine. Until")
        );
        let azure = said(&["azure"]);
        assert!(azure.contains("needs a table too") && azure.contains("knows no model of these"), "{azure}");
    }

    #[tokio::test]
    async fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("config.toml");
        let (result, ..) = ran(&path, InitOptions { yes: false, stdout: false }, Some("no\n")).await;
        let why = format!("{:#}", result.unwrap_err());
        assert!(why.starts_with("cannot write ") && why.contains("--stdout"), "{why}");
    }
}
