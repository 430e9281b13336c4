//! What the system's table of TCP sockets says about a port: who listens on it, whether two processes share it, and how
//! many connections are about to be completed. Linux only: elsewhere nothing is known.
//!
//! Not for decisions that must be right: the table may change while it is read.

use std::fs::{File, read_dir, read_link, read_to_string};
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a listening socket in a table. Tables begin with these.
const LISTENING: &str = "0A";
/// The state of a connection whose client has not yet confirmed it.
const HANDSHAKE: &str = "03";

/// One line of a table.
#[derive(Debug)]
struct PortRow {
    /// Address and port in hexadecimal digits.
    local: String,
    state: String,
    /// As links of descriptors name it.
    socket: String,
}

impl PortRow {
    fn of(line: &str) -> Option<PortRow> {
        let mut columns = line.split_whitespace();
        let (local, state) = (columns.nth(1)?, columns.nth(1)?);
        let inode = columns.nth(5)?;
        Some(PortRow { local: local.to_owned(), state: state.to_owned(), socket: format!("socket:[{inode}]") })
    }

    fn is_at(&self, port: u16) -> bool {
        self.local.ends_with(&format!(":{port:04X}"))
    }
}

/// The rows of all tables. Read line by line: a table may be long, and its first part is often enough.
fn rows(table: &str) -> impl Iterator<Item = PortRow> + use<> {
    let lines = File::open(table).ok().map(|file| BufReader::new(file).lines());
    lines.into_iter().flatten().map_while(Result::ok).skip(1).filter_map(|line| PortRow::of(&line))
}

fn listeners() -> impl Iterator<Item = PortRow> {
    TABLES.into_iter().flat_map(|table| rows(table).take_while(|row| row.state == LISTENING))
}

/// The process that listens on this port, as `NAME (process ID)`. Only processes of the same user are found.
pub fn port_owner(port: u16) -> Option<String> {
    let sockets: Vec<String> = listeners().filter(|row| row.is_at(port)).map(|row| row.socket).collect();
    if sockets.is_empty() {
        return None;
    }
    let id = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut processes = read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let owner = processes.find(|path| id(path).is_some() && holds_one(path, &sockets))?;
    let name = read_to_string(owner.join("comm")).ok()?;
    Some(format!("{} (process {})", name.trim(), id(&owner)?))
}

fn holds_one(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = read_dir(process.join("fd")) else { return false };
    let mut links = descriptors.flatten().filter_map(|descriptor| read_link(descriptor.path()).ok());
    links.any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link)))
}

/// Whether another socket listens on exactly the address of this one.
pub fn is_shared(listener: &TcpListener) -> bool {
    let own = read_link(PathBuf::from(format!("/proc/self/fd/{}", listener.as_raw_fd())));
    let Some(own) = own.ok().and_then(|link| link.into_os_string().into_string().ok()) else { return false };
    let rows: Vec<PortRow> = listeners().collect();
    let Some(local) = rows.iter().find(|row| row.socket == own).map(|row| &row.local) else { return false };
    rows.iter().any(|row| row.local == *local && row.socket != own)
}

/// Connections to this port that a client has begun and not yet confirmed. Blocks while it reads a table of all
/// connections of the machine.
pub fn handshakes(port: u16) -> usize {
    let all = TABLES.into_iter().flat_map(rows);
    all.filter(|row| row.state == HANDSHAKE && row.is_at(port)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    #[test]
    fn the_process_on_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let owner = port_owner(port).unwrap();
        assert!(owner.ends_with(&format!(" (process {})", std::process::id())), "{owner}");
        assert_eq!(handshakes(port), 0);
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 41 1 x 100 0 0 10 0";
        let row = PortRow::of(line).unwrap();
        assert_eq!(
            (row.local.as_str(), row.state.as_str(), row.socket.as_str()),
            ("0100007F:1F90", "0A", "socket:[41]")
        );
        assert!(row.is_at(8080) && !row.is_at(8081) && !row.is_at(80));
        assert!(PortRow::of("cut off").is_none());
    }

    #[tokio::test]
    async fn a_second_listener_on_the_same_address_is_seen() {
        let first = machine::listen_shared(([127, 0, 0, 1], 0).into(), false).unwrap();
        let address = first.local_addr().unwrap();
        assert!(!is_shared(&first));
        let second = machine::listen_shared(address, true).unwrap();
        assert!(is_shared(&first) && is_shared(&second));
        drop(first);
        assert!(!is_shared(&second));
    }
}
