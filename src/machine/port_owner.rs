//! Which process listens on a TCP port, for the message that a port is taken. Linux only, and only processes of the
//! same user.
//!
//! Not for decisions that must be right: the process may end during the search.

use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process that listens on this port, as `NAME (process ID)`.
pub fn port_owner(port: u16) -> Option<String> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let id = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut processes = read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let owner = processes.find(|path| id(path).is_some() && holds_one(path, &sockets))?;
    let name = read_to_string(owner.join("comm")).ok()?;
    Some(format!("{} (process {})", name.trim(), id(&owner)?))
}

/// The sockets that listen on this port, as links of descriptors name them. `table`: the text of `/proc/net/tcp`.
fn listening(table: &str, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let socket = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = columns[..] else { return None };
        (local.ends_with(&port) && state == LISTENING).then(|| format!("socket:[{inode}]"))
    };
    table.lines().filter_map(socket).collect()
}

fn holds_one(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = read_dir(process.join("fd")) else { return false };
    let mut links = descriptors.flatten().filter_map(|descriptor| read_link(descriptor.path()).ok());
    links.any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_on_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let owner = port_owner(port).unwrap();
        assert!(owner.ends_with(&format!(" (process {})", std::process::id())), "{owner}");
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 41 1 x 100 0 0 10 0\n\
             1: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000  1000 0 42 1 x 100 0 0 10 0\n\
             2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 43 1 x 100 0 0 10 0\n";
        assert_eq!(listening(table, 8080), ["socket:[41]"]);
        assert!(listening("cut off", 8080).is_empty());
    }
}
