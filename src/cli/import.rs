//! `photofinish import`: a configuration out of another gateway's file. Not for what it says: see `litellm`. It never replaces a
//! file, and no key goes into it.

mod litellm;
mod providers;
mod text;
mod yaml;

#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::init::{refuse_to_replace, write_new};
use super::text::{counted, folded};
use photofinish_config as config;

/// Usage examples, after the help.
pub const EXAMPLES: &str = include_str!("help/import.txt").trim_ascii_end();

/// Bytes of a file that `import` reads.
const FILE_MAX: u64 = 4 << 20;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ImportOptions {
    /// Whose file it is.
    #[arg(value_name = "GATEWAY")]
    pub from: ImportFormat,
    /// The file; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the configuration instead of writing it.
    #[arg(long)]
    pub stdout: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// LiteLLM's config.yaml.
    Litellm,
}

/// Writes the configuration to `path`, or prints it; and says what has no equal. `width`: columns of the messages.
///
/// # Errors
/// The file cannot be read or understood, or the new one is there already or cannot be written, in words for the user.
pub fn run(
    path: &Path,
    options: &ImportOptions,
    env: &dyn Fn(&str) -> Option<String>,
    width: usize,
    (out, err): (&mut impl Write, &mut impl Write),
) -> anyhow::Result<()> {
    if !options.stdout {
        refuse_to_replace(path)?;
    }
    let shown = options.file.display();
    let text = read(&options.file).with_context(|| format!("cannot read {shown}"))?;
    let imported = match options.from {
        ImportFormat::Litellm => litellm::read(&text),
    };
    let imported = imported.map_err(|problem| anyhow::anyhow!("{shown}: {problem}"))?;
    // A variable that is not set here may be set where the gateway runs.
    let is_named = |name: &str| imported.text.contains(&format!("${{{name}}}"));
    let sample = |name: &str| is_named(name).then(|| sample(name).to_owned());
    let env = |name: &str| env(name).filter(|value| !value.trim().is_empty()).or_else(|| sample(name));
    let problems = config::parse(&imported.text, path, &env).err();
    match options.stdout {
        true => out.write_all(imported.text.as_bytes())?,
        false => write_new(path, &imported.text)?,
    }
    let mut report =
        format!("{} at {}.", counted(imported.models as u64, "model"), counted(imported.providers as u64, "provider"));
    if !imported.notes.is_empty() {
        report += &format!(" Of {shown} these have no equal, or another one:\n  {}", imported.notes.join("\n  "));
    }
    if !options.stdout {
        report += &format!("\n\n{} is written. Next: `photofinish check`, then `photofinish serve`.", path.display());
    }
    writeln!(err, "{}", folded(&report, width))?;
    match problems {
        Some(problems) => bail!("it is not valid yet, so `check` will refuse it:\n{problems}"),
        None => Ok(()),
    }
}

fn read(file: &Path) -> io::Result<String> {
    let source: Box<dyn io::Read> = match file == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(std::fs::File::open(file)?),
    };
    let mut text = String::new();
    source.take(FILE_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_MAX {
        true => Err(io::Error::other("it has more than 4 MiB")),
        false => Ok(text),
    }
}

/// A value that this variable may have.
fn sample(name: &str) -> &'static str {
    let is = |word: &str| name.to_uppercase().contains(word);
    match () {
        () if is("DATABASE") => "sqlite:photofinish.db",
        () if ["URL", "BASE", "ENDPOINT", "HOST"].into_iter().any(is) => "http://127.0.0.1:9/v1",
        () => "set-where-the-gateway-runs",
    }
}
