//! The one user of a gateway that others can reach and that has no configuration file, as in a container that got keys alone: an
//! administrator whose token is in `PHOTOFINISH_TOKEN`, or whose token's hash is in a file next to the store.
//!
//! Not for making that file: `photofinish serve` does, at its first start.

use std::path::{Path, PathBuf};

use super::Listen;
use super::environment::Environment;
use super::server::LISTEN_VARIABLE;
use super::settings::usual_store;
use super::user::from_hex;
use photofinish_base::files::{self, FileLimits};

/// The variable with the token. Clients such as `photofinish routing` read it too.
pub const TOKEN_VARIABLE: &str = "PHOTOFINISH_TOKEN";
/// Bytes of the file with the hash.
const HASH_FILE_MAX: u64 = 256;

/// The file that has to hold the hash of the token, if there is no configuration file: None if only this machine can reach the gateway, or
/// if the variable has the token.
pub fn first_token_file(listen: Option<&Listen>) -> Option<PathBuf> {
    let environment = Environment::read(FileLimits::once());
    let env = |name: &str| environment.get(name);
    (is_open(listen, &env) && !has_token(&env)).then(|| file_at(&usual_store()))
}

/// That user, as the end of a configuration. Empty if no token is needed, or none is known: then an open address is a problem.
pub(super) fn user_text(
    store: &Path,
    listen: Option<&Listen>,
    env: &dyn Fn(&str) -> Option<String>,
    limits: FileLimits,
) -> String {
    const USER: &str = "\n[users.admin]\nrole = \"admin\"\n";
    if !is_open(listen, env) {
        return String::new();
    }
    if has_token(env) {
        return format!("{USER}token = \"${{{TOKEN_VARIABLE}}}\"\n");
    }
    let content = files::read(&file_at(store), HASH_FILE_MAX, limits).and_then(files::FileContent::into_text);
    let hash = content.ok().filter(|text| from_hex(text.trim()).is_some());
    hash.map_or_else(String::new, |hash| format!("{USER}token_sha256 = \"{}\"\n", hash.trim()))
}

fn file_at(store: &Path) -> PathBuf {
    let mut file = store.as_os_str().to_owned();
    file.push(".token");
    PathBuf::from(file)
}

/// Others can reach the address that the command or the environment names. The usual one is on loopback.
fn is_open(listen: Option<&Listen>, env: &dyn Fn(&str) -> Option<String>) -> bool {
    let named = listen.cloned().or_else(|| Listen::parse(&env(LISTEN_VARIABLE)?));
    named.is_some_and(|listen| !listen.is_local())
}

fn has_token(env: &dyn Fn(&str) -> Option<String>) -> bool {
    env(TOKEN_VARIABLE).is_some_and(|token| !token.trim().is_empty())
}
