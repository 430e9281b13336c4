//! Keeps the tokens of providers fresh: runs their commands and reads their files in the background.
//!
//! If a token cannot be read, the gateway retries with growing pauses and keeps the previous token in use. The output
//! of a command is never logged, except the last line of its standard error if it cannot contain a token.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use photofinish_base::files::{self, FileLimits};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, CredentialSource, Keys, Token};

/// How long a command may take to print a token before it is killed.
const COMMAND_FOR: Duration = Duration::from_secs(10);
/// Bytes of a token and of a command's error output.
const OUTPUT_MAX: u64 = 64 << 10;
/// Maximum length of an error output in the log, in characters.
const COMPLAINT_MAX: usize = 200;
/// Pause after a failure. It doubles with each further failure.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest pause after a command that failed.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Minimum pause between two reads of a token that upstreams refuse.
const EARLY: Duration = Duration::from_secs(5);

/// The tokens of the configuration in force. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub(super) struct Tokens {
    shutdown: Shutdown,
    kept: Arc<Mutex<HashMap<String, KeptTokens>>>,
}

struct KeptTokens {
    token: Arc<Token>,
    task: AbortHandle,
}

impl Tokens {
    pub fn new(shutdown: Shutdown) -> Tokens {
        Tokens { shutdown, kept: Arc::default() }
    }

    /// Copies the known values to the tokens of a new configuration. Call it before that configuration is in force.
    pub fn hand_over(&self, config: &Config) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, token) in tokens(config) {
            if let Some(before) = kept.get(name) {
                token.take_over(&before.token);
            }
        }
    }

    /// From now on keeps exactly the tokens of `config` fresh.
    pub fn keep(&self, config: &Config) {
        self.stop();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, token) in tokens(config) {
            let task = self.shutdown.spawn(keep(name.to_owned(), token.clone(), self.shutdown.clone()));
            kept.insert(name.to_owned(), KeptTokens { token: token.clone(), task: task.abort_handle() });
        }
    }

    /// Stops refreshing all tokens; they keep their values.
    pub fn stop(&self) {
        for (_, kept) in self.kept.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            kept.task.abort();
        }
    }

    /// Waits until each token was read once, or its read failed.
    pub async fn tried(&self) {
        let tokens: Vec<Arc<Token>> = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.values().map(|kept| kept.token.clone()).collect()
        };
        for token in tokens {
            token.tried().await;
        }
    }
}

fn tokens(config: &Config) -> impl Iterator<Item = (&str, &Arc<Token>)> {
    config.providers.values().filter_map(|provider| match &provider.keys {
        Keys::Token(token) => Some((provider.name.as_str(), token)),
        _ => None,
    })
}

/// Runs until the gateway drains.
async fn keep(provider: String, token: Arc<Token>, shutdown: Shutdown) {
    let mut draining = std::pin::pin!(shutdown.draining());
    let mut failures = 0_u32;
    loop {
        let read = tokio::select! {
            biased;
            () = &mut draining => return,
            read = read(&token.source) => read,
        };
        let taken = read.and_then(|text| token.put(text.expose_secret()).map_err(str::to_owned));
        let wait = match taken {
            Ok(()) => {
                tracing::debug!(provider, "a token was read from {}", token.source.name());
                failures = 0;
                token.refresh
            }
            Err(why) => {
                let problem = format!("{}: {why}", token.source.name());
                let again = AGAIN.saturating_mul(1 << failures.min(16)).min(AGAIN_MAX);
                tracing::warn!(provider, ?again, has_old_one = token.current().is_some(), "no new token: {problem}");
                token.failed(problem);
                failures += 1;
                again
            }
        };
        let early = async {
            token.refused().await;
            tokio::time::sleep(EARLY).await;
        };
        tokio::select! {
            biased;
            () = &mut draining => return,
            () = tokio::time::sleep(wait) => {}
            () = early => {}
        }
    }
}

/// # Errors
/// The reason, without any of the content that was read.
async fn read(source: &CredentialSource) -> Result<SecretString, String> {
    match source {
        CredentialSource::File(path) => read_file(path).await.map_err(|error| error.to_string()),
        CredentialSource::Command(words) => {
            let run = tokio::time::timeout(COMMAND_FOR, run(words)).await;
            run.unwrap_or_else(|_| Err(format!("it took longer than {COMMAND_FOR:?}")))
        }
    }
}

async fn read_file(path: &Path) -> io::Result<SecretString> {
    let path = path.to_owned();
    // A pipe may have a writer that gives a new token each time.
    aside(move || files::read(&path, OUTPUT_MAX, FileLimits::once())?.into_text().map(SecretString::from)).await
}

/// Does work on files. No shutdown waits for it: the files may hang.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    Shutdown::new().run_blocking(work).await?
}

/// Does not use a shell: each word is one argument.
async fn run(words: &[String]) -> Result<SecretString, String> {
    let Some((program, arguments)) = words.split_first() else { return Err("it is empty".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child =
        spawn(PathBuf::from(program), command).await.map_err(|error| format!("it cannot be run: {error}"))?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it cannot be heard".to_owned());
    };
    let (out, err) = tokio::join!(bounded(out), bounded(err));
    let status = child.wait().await.map_err(|error| error.to_string())?;
    let out = out.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(out);
    }
    let complaint = err.map(|err| complaint(&err, &out)).unwrap_or_default();
    Err(if complaint.is_empty() { status.to_string() } else { format!("{status}: {complaint}") })
}

/// The kernel reads the program before this returns.
async fn spawn(program: PathBuf, mut command: Command) -> io::Result<Child> {
    let runtime = Handle::current();
    aside(move || {
        files::call(&program, FileLimits::once(), move |_| {
            let _context = runtime.enter();
            command.spawn()
        })
    })
    .await
}

/// The last line that a command printed on standard error. Empty if it may contain a token.
fn complaint(err: &SecretString, out: &SecretString) -> String {
    let printed = out.expose_secret().trim();
    let last = err.expose_secret().lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if !printed.is_empty() && err.expose_secret().contains(printed) {
        return String::new();
    }
    last.chars().filter(|c| !c.is_control()).take(COMPLAINT_MAX).collect()
}

async fn bounded(from: impl AsyncRead + Unpin) -> io::Result<SecretString> {
    let mut text = String::new();
    let read = from.take(OUTPUT_MAX + 1).read_to_string(&mut text).await?;
    let text = SecretString::from(text);
    if read as u64 > OUTPUT_MAX {
        return Err(io::Error::other("it gives more than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(token: &str) -> Config {
        let text = format!("[providers.x]\nbase_url = \"http://h\"\ntoken = {token}");
        photofinish_config::parse(&text, Path::new("x"), &|_| None).unwrap()
    }

    fn current(config: &Config) -> Option<String> {
        let (_, token) = tokens(config).next().unwrap();
        Some(token.current()?.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn a_command_prints_the_token() {
        let tokens = Tokens::new(Shutdown::new());
        let config = config("{ command = [\"printf\", \"a%sb\\\\n\", \"$HOME\"] }");
        assert!(!config.providers["x"].is_on());
        tokens.keep(&config);
        tokens.tried().await;
        assert_eq!(current(&config).as_deref(), Some("a$HOMEb"), "there is no shell");
        tokens.shutdown.drain();
        assert!(tokens.shutdown.finished(Duration::from_secs(10)).await);
    }

    #[tokio::test]
    async fn why_there_is_none_is_told_without_what_was_printed() {
        for (token, expected) in [
            ("{ command = [\"/nonexistent/mint\"] }", "it cannot be run"),
            ("{ command = [\"false\"] }", "exit status: 1"),
            ("{ command = [\"true\"] }", "it gave nothing"),
            ("{ command = [\"echo\", \"planted words\"] }", "more than one word"),
            ("{ command = [\"sh\", \"-c\", \"echo planted; echo no login >&2; exit 3\"] }", "exit status: 3: no login"),
            ("{ command = [\"sh\", \"-c\", \"echo planted; echo bad planted >&2; exit 3\"] }", "exit status: 3"),
            ("{ file = \"/nonexistent/token\" }", "No such file"),
        ] {
            let tokens = Tokens::new(Shutdown::new());
            let config = config(token);
            tokens.keep(&config);
            tokens.tried().await;
            let why = config.providers["x"].why_off().unwrap();
            assert!(why.contains(expected) && !why.contains("planted"), "{token}: {why}");
            tokens.shutdown.cancel();
        }
    }

    #[tokio::test]
    async fn a_reload_takes_the_token_over_and_a_refusal_reads_it_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let text = format!("{{ file = \"{}\", refresh = \"1h\" }}", path.display());
        let tokens = Tokens::new(Shutdown::new());
        let (before, after) = (config(&text), config(&text));
        tokens.keep(&before);
        tokens.tried().await;
        std::fs::write(&path, "two\n").unwrap();
        tokens.hand_over(&after);
        assert_eq!(current(&after).as_deref(), Some("one"), "there is no moment without one");
        tokens.keep(&after);
        let (_, token) = super::tokens(&after).next().unwrap();
        let mut reads = 0;
        while current(&after).as_deref() != Some("two") {
            reads += 1;
            assert!(reads < 1_000, "it was not read anew");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::write(&path, "three\n").unwrap();
        tokio::time::pause();
        token.refuse();
        while current(&after).as_deref() != Some("three") {
            reads += 1;
            assert!(reads < 5_000, "it was not read anew");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokens.shutdown.cancel();
    }
}
