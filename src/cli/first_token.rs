//! The token of a gateway without a configuration that others can reach: `serve` makes one at its first start and prints it once.
//! Only its hash is kept, next to the store. Not for reading that: see `config`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::no_keys::NoKeys;
use photofinish_config::{self as config, ConfigSource, Listen, TOKEN_VARIABLE};

/// Makes the token, if one is needed and there is none yet. `is_bare`: it also serves without a key.
///
/// # Errors
/// No key is set: then nothing would be served with the token. The hash cannot be kept, or what is kept is none.
pub(super) fn make(
    listen: Option<&Listen>,
    is_bare: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<()> {
    let Some(file) = config::first_token_file(listen) else { return Ok(()) };
    let on_loopback = Listen::parse("127.0.0.1:0");
    let keys = config::load_listening(&ConfigSource::BuiltIn(String::new()), on_loopback.as_ref())?;
    if keys.is_without_keys() && !is_bare {
        return Err(NoKeys(keys.warnings).into());
    }
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok().context("the system has no random bytes for a token")?;
    let token = hex(&bytes);
    match keep(&file, &hex(&config::token_hash(token.as_bytes()))) {
        Ok(()) => show(&token, &file, out).inspect_err(|_| {
            // It was not shown: the next start makes another one.
            let _ = fs::remove_file(&file);
        }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => again(&file, err),
        Err(error) => Err(error).with_context(|| {
            let file = file.display();
            format!("cannot keep the hash of a token in {file}; make room there, or set {TOKEN_VARIABLE} to a token of your own")
        }),
    }
}

fn show(token: &str, file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "The token of this gateway, which is shown this once: {token}")?;
    writeln!(out, "Clients send it as their API key; /dashboard asks for it. Its SHA-256 is in {}.", file.display())?;
    Ok(out.flush()?)
}

/// The start after the first one.
fn again(file: &Path, err: &mut impl Write) -> anyhow::Result<()> {
    let kept = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let is_hash = kept.trim().len() == 64 && kept.trim().bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(
        is_hash,
        "{} does not hold the SHA-256 of a token: remove it, and the next start makes a new token",
        file.display()
    );
    let file = file.display();
    writeln!(
        err,
        "The token is the one that the first start showed. To replace it, remove {file} and start again, or set {TOKEN_VARIABLE}."
    )?;
    Ok(())
}

/// Writes a file that was not there, and is whole from the beginning. Of two that start at once, one makes the token.
fn keep(file: &Path, hash: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let written = open.write_all(format!("{hash}\n").as_bytes()).and_then(|()| open.sync_all());
    let kept = written.and_then(|()| fs::hard_link(&draft, file));
    let _ = fs::remove_file(&draft);
    kept
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
