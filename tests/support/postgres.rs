//! A real Postgres for tests: the one that `PHOTOFINISH_TEST_POSTGRES` names, or a cluster of this process in a temporary directory, on a
//! Unix socket. Without either a test says so and passes. It depends on nothing: the tests of crates include it too.

use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A URL with `DATABASE` in the place of the name of a database.
static URL: LazyLock<Option<String>> = LazyLock::new(|| match std::env::var("PHOTOFINISH_TEST_POSTGRES") {
    Ok(url) => {
        let (place, parameters) =
            url.split_once('?').map_or((url.as_str(), String::new()), |(place, of)| (place, format!("?{of}")));
        let server = place.rsplit_once('/').map_or(place, |(server, _)| server);
        Some(format!("{server}/DATABASE{parameters}"))
    }
    Err(_) => own(),
});

/// Ends the cluster when this process ends: it waits for the end of its input.
static KEEPER: Mutex<Option<Child>> = Mutex::new(None);

/// The user of the cluster has a password that is worth looking for in texts.
pub const PASSWORD: &str = "planted";

/// The URL of a database of this name; none without a server.
pub fn url_of(database: &str) -> Option<String> {
    if URL.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "no Postgres here (PHOTOFINISH_TEST_POSTGRES, or initdb): this test does nothing"
        );
    }
    Some(URL.as_deref()?.replace("DATABASE", database))
}

fn own() -> Option<String> {
    let programs = programs()?;
    let directory = tempfile::tempdir().unwrap().keep();
    let owner = unprivileged();
    if let Some((user, group)) = owner {
        chown(&directory, Some(user), Some(group)).unwrap();
    }
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        if let Some((user, group)) = owner {
            command.uid(user).gid(group);
        }
        command.current_dir(&directory).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let data = directory.join("data");
    std::fs::write(directory.join("password"), PASSWORD).unwrap();
    let made = command("initdb")
        .arg("-D")
        .arg(&data)
        .args(["-U", "gateway", "-E", "UTF8", "--no-locale", "-A", "scram-sha-256"])
        .arg(format!("--pwfile={}", directory.join("password").display()))
        .status()
        .unwrap();
    assert!(made.success(), "initdb failed");
    let settings =
        format!("-c listen_addresses= -c max_connections=90 -c unix_socket_directories={}", directory.display());
    let began =
        command("pg_ctl").arg("-D").arg(&data).args(["-w", "-l", "log", "-o", &settings, "start"]).status().unwrap();
    assert!(began.success(), "{:?}", std::fs::read_to_string(directory.join("log")));
    let mut keeper = Command::new("sh");
    keeper
        .arg("-c")
        .arg("cat > /dev/null; kill -INT $(head -1 \"$1/data/postmaster.pid\"); sleep 1; rm -rf \"$1\"")
        .arg("sh")
        .arg(&directory);
    let keeper =
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    *KEEPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
    Some(format!("postgres://gateway:{PASSWORD}@localhost/DATABASE?host={}", directory.display()))
}

/// The directory of `initdb`.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packaged =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    std::env::split_paths(&path).chain(packaged).find(|directory| directory.join("initdb").is_file())
}

/// The user and group to run it as, where this is root: Postgres refuses root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| users.lines().find(|line| line.split(':').next() == Some(name)).map(str::to_owned);
    let line = find("postgres").or_else(|| find("nobody"))?;
    let mut ids = line.split(':').skip(2).map(|id| id.parse().unwrap());
    Some((ids.next()?, ids.next()?))
}
