//! The resources that the machine grants this process: memory, descriptors and listening sockets. For their use see
//! `budget`, `proxy` and `server`.

mod listening;
mod ports;

pub use listening::{BACKLOG, PassedListener, listen, listen_shared, passed_listeners, turn_away};
pub use ports::{handshakes, is_shared, port_owner};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::Instant;

/// Assumed memory if the system does not report it, in bytes.
const MEMORY_UNKNOWN: u64 = 2 << 30;
/// A higher limit of descriptors is treated as this one: some systems report "no limit".
const DESCRIPTORS_MAX: u64 = 1 << 20;
/// Descriptors that the kernel has room for from the start: those of the most client connections with three attempts each, at
/// eight bytes.
const DESCRIPTORS_AT_START: u64 = 65_536;
/// Descriptors that connections to upstreams leave free for the store, name look-ups and further clients: one sixteenth
/// of all, within this range.
const RESERVE: std::ops::RangeInclusive<u64> = 16..=512;
/// How long requests are shed after the latest sign that descriptors run out.
const SCARCE_FOR: Duration = Duration::from_secs(1);

/// Bytes that this process may use: the smallest of the machine's memory, its control groups' limits and `ulimit -v`.
pub fn memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups =
        group_files(&own).into_iter().filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    let address_space = getrlimit(Resource::As).current;
    groups.chain(machine).chain(address_space).min().unwrap_or(MEMORY_UNKNOWN)
}

/// Descriptors that this process may have once [`raise_descriptors`] was called.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX)
}

/// Raises the soft limit of descriptors to the hard one, and makes room for many. Shells and service managers keep the limit
/// low for `select`, which the gateway does not use. Returns the limit. It takes longer once there are other threads.
///
/// # Errors
/// The error of the system; the limit is then unchanged.
pub fn raise_descriptors() -> std::io::Result<u64> {
    let before = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX);
    let aim = descriptors().max(before);
    if aim > before {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(aim), maximum })?;
    }
    make_room(aim);
    Ok(aim)
}

/// Makes the kernel's table of this process's descriptors as large as it will be. Linux otherwise doubles a full table, at 256,
/// 512, 1,024 descriptors and so on; with several threads it first waits 10 to 30 ms for all cores (`synchronize_rcu`), and
/// whatever opens a descriptor waits too. The table grows to the number of a new descriptor and never shrinks.
fn make_room(limit: u64) {
    let last = i32::try_from(limit.min(DESCRIPTORS_AT_START)).unwrap_or(1) - 1;
    // Without room the table grows as usual.
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
}

/// True if the machine or this process has run out of a resource. This is never the peer's fault.
pub fn is_exhausted(error: &std::io::Error) -> bool {
    // Without "address not available": a machine without IPv6 returns that for `::1`.
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| own.contains(&errno))
}

/// The error of a process that has no descriptor left.
pub fn no_descriptor() -> std::io::Error {
    Errno::MFILE.into()
}

/// Detects that descriptors run out. Cheap to clone; all clones share one state.
///
/// The kernel assigns the lowest free number to a new descriptor. So a high number means that nearly all lower ones are
/// taken, and no count is needed.
#[derive(Clone, Debug)]
pub struct Descriptors {
    /// Numbers from here on belong to the reserve.
    reserve_from: u64,
    began: Instant,
    /// Microseconds after `began` until which they count as scarce.
    scarce_until: Arc<AtomicU64>,
}

impl Descriptors {
    /// For a process that may have `limit` descriptors.
    pub fn new(limit: u64) -> Descriptors {
        let reserve = (limit / 16).clamp(*RESERVE.start(), *RESERVE.end());
        Descriptors { reserve_from: limit.saturating_sub(reserve), began: Instant::now(), scarce_until: Arc::default() }
    }

    /// Call it with the descriptor of each new connection. False if the descriptor belongs to the reserve: close the
    /// connection again.
    pub fn opened(&self, descriptor: i32) -> bool {
        let has_room = u64::try_from(descriptor).is_ok_and(|number| number < self.reserve_from);
        if !has_room {
            self.ran_out();
        }
        has_room
    }

    /// Call it when the system had no descriptor left.
    pub fn ran_out(&self) {
        let until = self.began.elapsed() + SCARCE_FOR;
        self.scarce_until.store(u64::try_from(until.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether they ran out within the last second.
    pub fn are_scarce(&self) -> bool {
        let until = self.scarce_until.load(Ordering::Relaxed);
        // Skips the clock if descriptors never ran out.
        until > 0 && self.began.elapsed() < Duration::from_micros(until)
    }
}

/// The machine's memory in bytes, from the text of `/proc/meminfo`.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The files with the memory limits of a process's control groups and of all groups above them. `own`: the text of
/// `/proc/self/cgroup`.
fn group_files(own: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container the visible root is often the group itself.
        let above = Path::new(group.trim_start_matches('/')).ancestors();
        files.extend(above.map(|group| Path::new(root).join(group).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_read() {
        assert_eq!(mem_total("MemFree: 1 kB\nMemTotal:       24561352 kB\n"), Some(24_561_352 * 1024));
        assert_eq!(mem_total("MemTotal: much\n"), None);
        let files = |own: &str| group_files(own).iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let v2 =
            ["/sys/fs/cgroup/a.slice/b/memory.max", "/sys/fs/cgroup/a.slice/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(files("0::/a.slice/b\n"), v2);
        let v1 = ["/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(files("5:cpu,cpuacct:/c\n4:memory:/c\nodd\n"), v1);
        assert!(memory() > 0 && descriptors() > 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_table_of_descriptors_does_not_have_to_grow() {
        let limit = raise_descriptors().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse::<u64>().unwrap();
        assert!(size >= limit.min(DESCRIPTORS_AT_START), "{size} of {limit}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_high_number_says_that_descriptors_run_out() {
        let descriptors = Descriptors::new(1_024);
        assert!(descriptors.opened(959) && !descriptors.are_scarce());
        assert!(!descriptors.opened(960) && descriptors.are_scarce());
        tokio::time::advance(SCARCE_FOR).await;
        assert!(!descriptors.are_scarce());
        descriptors.ran_out();
        assert!(descriptors.are_scarce());
        assert!(!Descriptors::new(10).opened(3), "fewer than the reserve: nobody is served");
    }

    #[test]
    fn what_the_machine_lacks_is_not_the_peers_fault() {
        let own = |errno: Errno| is_exhausted(&std::io::Error::from(errno));
        assert!(own(Errno::MFILE) && own(Errno::NFILE) && own(Errno::NOBUFS));
        assert!(
            !own(Errno::CONNREFUSED) && !own(Errno::ADDRNOTAVAIL) && !own(Errno::HOSTUNREACH) && !own(Errno::TIMEDOUT)
        );
    }
}
