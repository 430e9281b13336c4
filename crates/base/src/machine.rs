//! The resources that the machine grants this process: memory, descriptors and listening sockets. For their use see
//! `memory`, `proxy` and `server`.

use std::ffi::OsStr;
use std::fs::{File, read_dir, read_link, read_to_string};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, Rlimit, Signal, geteuid, getrlimit, getuid, setrlimit};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
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

/// The name of this machine or container, which people gave it; at most a hundred characters.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().filter(|letter| !letter.is_control()).take(100).collect()
}

/// Bytes for bodies, buffers and connections: a quarter of the machine's memory, where databases and other programs need room, and at
/// most half of what a control group or `ulimit -v` leaves to this process. The other half is for itself: translating a body may
/// briefly double it.
pub fn memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups =
        group_files(&own).into_iter().filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    let address_space = getrlimit(Resource::As).current;
    share(machine, groups.chain(address_space).min())
}

fn share(machine: Option<u64>, limit: Option<u64>) -> u64 {
    let quarter = machine.map(|bytes| bytes / 4);
    let half = limit.map(|bytes| bytes / 2);
    quarter.into_iter().chain(half).min().unwrap_or(MEMORY_UNKNOWN / 4)
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

/// From now on a write beyond the largest size of a file (`ulimit -f`, `LimitFSIZE`) fails, as on a full disk. Without this it
/// ends the process.
///
/// # Errors
/// The error of the system.
pub fn outlive_file_limit() -> io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
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

/// What the system counts of this process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessFigures {
    /// In user space and kernel.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    /// Descriptors in use.
    pub descriptors: u64,
    /// None: no limit.
    pub descriptors_max: Option<u64>,
    /// Seconds since 1970.
    pub started_at: f64,
}

/// None where there is no `/proc`.
pub fn process() -> Option<ProcessFigures> {
    let (own, system) = (read_to_string("/proc/self/stat").ok()?, read_to_string("/proc/stat").ok()?);
    let booted_at: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    // The name before may have spaces and brackets.
    let fields: Vec<u64> = own.rsplit_once(") ")?.1.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    let (user, kernel, started, pages) = (fields.get(11)?, fields.get(12)?, fields.get(19)?, fields.get(21)?);
    let per_second = clock_ticks_per_second() as f64;
    let descriptors = read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(ProcessFigures {
        cpu_seconds: (user + kernel) as f64 / per_second,
        resident_bytes: pages * page_size() as u64,
        // Without the one that reads the folder.
        descriptors: descriptors.saturating_sub(1),
        descriptors_max: getrlimit(Resource::Nofile).current,
        started_at: booted_at + *started as f64 / per_second,
    })
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

/// Connections that the system completes before they are accepted; it may allow fewer (on Linux `net.core.somaxconn`).
/// A burst of clients overflows the usual 128, and each client beyond the limit waits a second until its system tries
/// again.
pub const BACKLOG: i32 = 4_096;

/// A listening socket that another process opened and keeps.
#[derive(Debug)]
pub enum PassedListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Listens on this address, alone.
///
/// # Errors
/// The error of the system.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listening(bound(address, false)?)
}

/// Listens on this address, so that a gateway of the same user may listen there too (`SO_REUSEPORT`): the system gives each
/// new connection to one of them. `shared`: another gateway may listen there already.
///
/// # Errors
/// The error of the system. Without `shared` an address is in use even if its owner would share it: two gateways that were
/// started by mistake must not divide the clients among them.
pub fn listen_shared(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    if !shared && address.port() != 0 {
        // Who does not share finds out whether the address is free.
        drop(bound(address, false)?);
    }
    listening(bound(address, true)?)
}

fn bound(address: SocketAddr, shares: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // A restart must not wait for connections that the last process closed.
    socket.set_reuse_address(true)?;
    if shares {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listening(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The number of the user whose rights this process has.
pub fn user() -> u32 {
    geteuid().as_raw()
}

/// Who started this process, by the operating system and no variable: the name with its number, or the number alone.
pub fn started_by() -> String {
    let number = getuid().as_raw();
    named(&read_to_string("/etc/passwd").unwrap_or_default(), number)
}

fn named(users: &str, number: u32) -> String {
    let name = users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let (name, of) = (parts.next()?, parts.nth(1)?);
        (of.parse() == Ok(number)).then_some(name)
    });
    name.map_or_else(|| format!("uid {number}"), |name| format!("{name} (uid {number})"))
}

/// What the service manager is notified of (`Type=notify`).
#[derive(Clone, Copy, Debug)]
pub enum ServiceState {
    /// It serves.
    Ready,
    /// It ends.
    Stopping,
}

/// Notifies the service manager that started this process, if it asked for that (`NOTIFY_SOCKET`).
///
/// # Errors
/// It cannot be reached. Then it takes the process for one that does not start, or ends it in time.
pub fn notify(state: ServiceState) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return Ok(()) };
    notify_at(&socket, state)
}

fn notify_at(socket: &OsStr, state: ServiceState) -> io::Result<()> {
    let text = match state {
        ServiceState::Ready => "READY=1",
        ServiceState::Stopping => "STOPPING=1",
    };
    // An abstract name, which is in no directory, begins with an at sign.
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop);
    }
    UnixDatagram::unbound()?.send_to(text.as_bytes(), socket).map(drop)
}

/// Sockets that a service manager may pass.
const PASSED_MAX: u64 = 256;

/// The sockets that the service manager passes by the protocol of systemd (`LISTEN_FDS`). The first call takes them: child
/// processes do not get them, and a second call finds none.
///
/// # Errors
/// One of them is no listening stream socket, or there are too many. The text is for an operator.
pub fn passed_listeners() -> io::Result<Vec<PassedListener>> {
    let asked = std::env::var("LISTEN_FDS").unwrap_or_default();
    if asked.parse::<u64>().is_ok_and(|asked| asked > PASSED_MAX) {
        let text = format!("LISTEN_FDS={asked}: the service manager may pass {PASSED_MAX} sockets at most");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut passed = listenfd::ListenFd::from_env();
    (0..passed.len()).map(|number| taken(&mut passed, number)).collect()
}

fn taken(passed: &mut listenfd::ListenFd, number: usize) -> io::Result<PassedListener> {
    let unusable = || {
        let text = format!(
            "socket {} of the service manager (LISTEN_FDS) does not listen for connections: use ListenStream= and Accept=no",
            number + 1
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let tcp = passed.take_tcp_listener(number).ok().flatten();
    if let Some(socket) = tcp {
        prepared(&SockRef::from(&socket)).ok_or_else(unusable)?;
        return TcpListener::from_std(socket).map(PassedListener::Tcp);
    }
    let socket = passed.take_unix_listener(number).ok().flatten().ok_or_else(unusable)?;
    prepared(&SockRef::from(&socket)).ok_or_else(unusable)?;
    UnixListener::from_std(socket).map(PassedListener::Unix)
}

fn prepared(socket: &SockRef<'_>) -> Option<()> {
    #[cfg(target_os = "linux")]
    let listens = socket.is_listener().ok()?;
    #[cfg(not(target_os = "linux"))]
    let listens = true;
    socket.set_nonblocking(true).ok()?;
    listens.then_some(())
}

/// From now on clients begin no connection with this socket; those that have begun still complete it. Their systems try again
/// after a second, and then reach another listener or none. Else the connections that come between the last accept and
/// the close would be reset, with the requests that were sent over them.
///
/// Linux only. Where it fails, those few are reset.
pub fn turn_away(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    {
        let _ = SockRef::from(listener).attach_filter(&NO_FIRST_PACKETS);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = listener;
}

/// A program of the kernel's packet filter: drops packets with the flag SYN and without the flag ACK.
#[cfg(target_os = "linux")]
const NO_FIRST_PACKETS: [socket2::SockFilter; 5] = {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Of a TCP header.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        socket2::SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        socket2::SockFilter::new(AND, 0, 0, SYN | ACK),
        socket2::SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        socket2::SockFilter::new(RETURN, 0, 0, 0),
        socket2::SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

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

    #[test]
    fn a_user_is_named_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100:Ann,,,:/home/ann:/bin/sh\nbroken\n";
        for (number, with_name) in [(0, "root (uid 0)"), (1000, "ann (uid 1000)"), (100, "uid 100")] {
            assert_eq!(named(users, number), with_name);
        }
    }

    #[test]
    fn a_limit_of_its_own_leaves_it_half_and_a_machine_a_quarter() {
        const GB: u64 = 1 << 30;
        for (machine, limit, bytes) in [
            (Some(8 * GB), None, 2 * GB),
            (Some(8 * GB), Some(GB / 2), GB / 4),
            (Some(8 * GB), Some(6 * GB), 2 * GB),
            (None, Some(GB), GB / 2),
            (None, None, GB / 2),
        ] {
            assert_eq!(share(machine, limit), bytes, "{machine:?} {limit:?}");
        }
    }

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

    #[test]
    fn the_service_manager_is_told_at_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut text = [0; 32];
        for (state, expected) in [(ServiceState::Ready, "READY=1"), (ServiceState::Stopping, "STOPPING=1")] {
            notify_at(path.as_os_str(), state).unwrap();
            let bytes = manager.recv(&mut text).unwrap();
            assert_eq!(&text[..bytes], expected.as_bytes());
        }
        assert!(notify_at(folder.path().join("absent").as_os_str(), ServiceState::Ready).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_socket_is_reached_too() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("photofinish-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        notify_at(OsStr::new(&format!("@{name}")), ServiceState::Ready).unwrap();
        let mut text = [0; 32];
        assert_eq!(manager.recv(&mut text).unwrap(), "READY=1".len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_table_of_descriptors_does_not_have_to_grow() {
        let limit = raise_descriptors().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse::<u64>().unwrap();
        assert!(size >= limit.min(DESCRIPTORS_AT_START), "{size} of {limit}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_counts_this_process() {
        let before = process().unwrap();
        let memory = vec![1_u8; 64 << 20];
        let file = File::open("/proc/self/stat").unwrap();
        // However little of a processor it gets.
        while process().unwrap().cpu_seconds - before.cpu_seconds < 0.02 {}
        let after = process().unwrap();
        assert!(after.resident_bytes >= before.resident_bytes + memory.len() as u64 / 2, "{before:?} {after:?}");
        assert!(after.descriptors > 3 && after.descriptors_max.is_none_or(|max| after.descriptors <= max));
        let now = crate::clock::wall_micros() as f64 / 1e6;
        assert!((0.0..600.0).contains(&(now + 1.0 - after.started_at)), "{after:?}");
        drop(file);
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
        assert!(!Descriptors::new(10).opened(3), "fewer than the reserve: no client is served");
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

#[cfg(test)]
mod listening_tests {
    use tokio::net::TcpStream;

    use super::*;

    fn free() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    #[tokio::test]
    async fn a_burst_of_connections_is_completed_before_any_is_accepted() {
        let listener = listen(free()).unwrap();
        let address = listener.local_addr().unwrap();
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
        let allowed = allowed.and_then(|text| text.trim().parse().ok()).unwrap_or(128_usize);
        let mut connections = Vec::new();
        // A connection beyond the queue would wait without end.
        for _ in 0..allowed.min(400) {
            connections.push(TcpStream::connect(address).await.unwrap());
        }
    }

    #[tokio::test]
    async fn an_address_is_shared_only_with_one_that_asks_for_it() {
        let first = listen_shared(free(), false).unwrap();
        let address = first.local_addr().unwrap();
        for refused in [listen_shared(address, false), listen(address)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        let second = listen_shared(address, true).unwrap();
        drop(first);
        let (client, accepted) = tokio::join!(TcpStream::connect(address), second.accept());
        assert!(client.is_ok() && accepted.is_ok());
        let alone = listen(free()).unwrap();
        let refused = listen_shared(alone.local_addr().unwrap(), true);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse, "it does not share");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_listener_that_turns_clients_away_loses_none_that_came_before() {
        let old = listen_shared(free(), false).unwrap();
        let address = old.local_addr().unwrap();
        let before = TcpStream::connect(address).await.unwrap();
        turn_away(&old);
        // Its packets are handled within the call on loopback, so it is known at once that nothing came of it.
        let late = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        late.set_nonblocking(true).unwrap();
        assert!(late.connect(&address.into()).is_err_and(|error| error.raw_os_error().is_some()));
        assert!(late.peer_addr().is_err(), "not connected");
        let (accepted, peer) = old.accept().await.unwrap();
        assert_eq!(peer, before.local_addr().unwrap());
        assert!(SockRef::from(&old).accept().is_err(), "no other client waits");
        drop((old, accepted));
    }
}

#[cfg(test)]
mod ports_tests {
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
