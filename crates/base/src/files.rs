//! Calls to the file system that may never return: on a network mount that hangs, or on a pipe without a writer. Each runs on
//! a thread of its own, and its caller waits for a time only. An async task calls them on a thread for blocking work.
//!
//! A thread that hangs cannot be ended. So a file that hangs gets no second thread unless a person asks, and all threads together have
//! a bound. Not for the store, whose one writer may wait, nor for files that only a command opens.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// How long all files may take that one reader reads in a row, such as those of a configuration.
pub const ANSWER_FOR: Duration = Duration::from_secs(10);
/// For each file behind one that has used up this time.
const LATER_FOR: Duration = Duration::from_millis(200);
/// Calls to the file system that run at once, those that hang included.
const CALLS_MAX: usize = 32;

/// How long a reader waits for its files, and what it may read.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    until: Instant,
    /// Reads pipes and devices too.
    pipes: bool,
    /// Calls a file again of which an earlier call hangs.
    again: bool,
}

impl FileLimits {
    /// For files that are read once: one may be a pipe, as in `--config <(decrypt config.toml)`.
    pub fn once() -> FileLimits {
        FileLimits { until: Instant::now() + ANSWER_FOR, pipes: true, again: false }
    }

    /// For files that are read again and again. `asked`: a person asks for it, who may have mended what hung.
    pub fn regular(asked: bool) -> FileLimits {
        FileLimits { pipes: false, again: asked, ..FileLimits::once() }
    }

    /// The same without pipes and devices.
    pub fn without_pipes(self) -> FileLimits {
        FileLimits { pipes: false, ..self }
    }
}

/// A file as it was read.
pub struct FileContent {
    pub bytes: Vec<u8>,
    pub facts: FileFacts,
}

impl FileContent {
    /// # Errors
    /// It is no text.
    pub fn into_text(self) -> io::Result<String> {
        // The error of the standard library would hold the bytes, which may be a secret.
        String::from_utf8(self.bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
    }
}

/// What the file system says of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// It is no pipe, no directory and no device.
    pub is_regular: bool,
    /// Who may do what: the lowest nine bits.
    pub mode: u32,
    pub stamp: FileStamp,
}

impl FileFacts {
    fn of(metadata: &Metadata) -> FileFacts {
        FileFacts {
            is_regular: metadata.is_file(),
            mode: metadata.permissions().mode() & 0o777,
            stamp: FileStamp { changed: metadata.modified().unwrap_or(UNIX_EPOCH), bytes: metadata.len() },
        }
    }
}

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub changed: SystemTime,
    pub bytes: u64,
}

impl FileStamp {
    /// None: there is no file, or it does not answer.
    pub fn at(path: &Path, limits: FileLimits) -> Option<FileStamp> {
        Some(facts(path, limits).ok()?.stamp)
    }
}

/// Reads a file of at most `max` bytes.
///
/// # Errors
/// It cannot be read, is larger, or does not answer in time.
pub fn read(path: &Path, max: u64, limits: FileLimits) -> io::Result<FileContent> {
    call(path, limits, move |path| {
        // Before it is opened: that waits for the writer of a pipe.
        if !limits.pipes && !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file: a pipe, a directory or a device cannot be read again"));
        }
        let file = File::open(path)?;
        let facts = FileFacts::of(&file.metadata()?);
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > max {
            true => Err(io::Error::other(format!("it is larger than {}", size(max)))),
            false => Ok(FileContent { bytes, facts }),
        }
    })
}

/// # Errors
/// There is none, or the file does not answer in time.
pub fn facts(path: &Path, limits: FileLimits) -> io::Result<FileFacts> {
    call(path, limits, |path| Ok(FileFacts::of(&fs::metadata(path)?)))
}

/// Whether something is at the path, if only a link to nothing.
pub fn is_there(path: &Path) -> bool {
    call(path, FileLimits::once(), |path| fs::symlink_metadata(path)).is_ok()
}

/// Whether this process may make files in the directory or, if that is not there yet, the directory itself.
pub fn is_writable(directory: &Path) -> bool {
    let tried = call(directory, FileLimits::once(), |directory| {
        for place in directory.ancestors() {
            // The last one of a relative path is empty.
            let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
            match access(place, Access::WRITE_OK | Access::EXEC_OK) {
                Err(Errno::NOENT) => {}
                answer => return Ok(answer?),
            }
        }
        Err(io::Error::from(io::ErrorKind::NotFound))
    });
    tried.is_ok()
}

/// Makes the directory for this user alone, unless it is there. Whether it is a directory of this user alone.
pub fn is_own(directory: &Path) -> bool {
    let made = call(directory, FileLimits::once(), |directory| {
        match fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let metadata = fs::symlink_metadata(directory)?;
        let user = rustix::process::geteuid().as_raw();
        Ok(metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o077 == 0)
    });
    made.unwrap_or(false)
}

/// The texts of at most `count` files of a directory, by name. Files that are larger than `max` bytes or no text are left out.
///
/// # Errors
/// The directory cannot be read or does not answer in time.
pub fn texts_in(directory: &Path, max: u64, count: usize, limits: FileLimits) -> io::Result<BTreeMap<String, String>> {
    call(directory, limits, move |directory| {
        let mut texts = BTreeMap::new();
        for entry in fs::read_dir(directory)?.take(count) {
            let entry = entry?;
            let is_small = entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= max);
            let Some(name) = entry.file_name().to_str().filter(|_| is_small).map(str::to_owned) else { continue };
            if let Ok(text) = fs::read_to_string(entry.path()) {
                texts.insert(name, text);
            }
        }
        Ok(texts)
    })
}

/// Any other call about this path.
///
/// # Errors
/// The error of the call; or it does not answer in time, hung before, or too many others hang.
pub fn call<T: Send + 'static>(
    path: &Path,
    limits: FileLimits,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let until = limits.until.max(Instant::now() + LATER_FOR);
    let running = RunningCall::begin(path, until, limits.again)?;
    let (number, path_of_call) = (running.number, path.to_owned());
    let (sender, answer) = sync_channel(1);
    thread::Builder::new().name("file".to_owned()).spawn(move || {
        let done = work(&path_of_call);
        // Before the answer: whoever gets it may call again at once.
        drop(running);
        // The caller may have stopped waiting.
        let _ = sender.send(done);
    })?;
    match answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(done) => done,
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("reading it failed: see the log")),
        Err(RecvTimeoutError::Timeout) => {
            calls().hangs(path, number);
            Err(silent())
        }
    }
}

fn silent() -> io::Error {
    let why = "it does not answer: it is on a network mount that hangs, or is a pipe that nobody writes to";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn size(bytes: u64) -> String {
    match bytes.is_multiple_of(1 << 20) {
        true => format!("{} MiB", bytes >> 20),
        false => format!("{} KiB", bytes >> 10),
    }
}

/// The calls that run now. They are the process's, as its threads are.
static CALLS: Mutex<Calls> = Mutex::new(Calls { newest: BTreeMap::new(), running: 0, begun: 0 });
/// A call has ended, or hangs from now on.
static CHANGED: Condvar = Condvar::new();

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Calls {
    /// The newest call of each file. An older one hangs; it counts in `running` alone.
    newest: BTreeMap<PathBuf, NewestCall>,
    running: usize,
    /// Since the start; numbers them.
    begun: u64,
}

struct NewestCall {
    number: u64,
    hangs: bool,
}

impl Calls {
    fn hangs(&mut self, path: &Path, number: u64) {
        if let Some(newest) = self.newest.get_mut(path).filter(|newest| newest.number == number) {
            newest.hangs = true;
            CHANGED.notify_all();
        }
    }
}

/// A call's place among those that run, until it has really ended.
struct RunningCall {
    path: PathBuf,
    number: u64,
}

impl RunningCall {
    /// Waits for an earlier call of the same file and for a place, but not longer than `until`.
    fn begin(path: &Path, until: Instant, again: bool) -> io::Result<RunningCall> {
        let mut calls = calls();
        loop {
            let has_place = calls.running < CALLS_MAX;
            match calls.newest.get(path) {
                None if has_place => break,
                Some(newest) if newest.hangs && again && has_place => break,
                Some(newest) if newest.hangs => {
                    let why = "it does not answer: an earlier call still hangs. Mend the mount, and then reload";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                _ => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let crowded = || io::Error::new(io::ErrorKind::TimedOut, format!("{CALLS_MAX} other files hang"));
                return Err(if has_place { silent() } else { crowded() });
            }
            calls = CHANGED.wait_timeout(calls, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        calls.running += 1;
        calls.begun += 1;
        let number = calls.begun;
        calls.newest.insert(path.to_owned(), NewestCall { number, hangs: false });
        Ok(RunningCall { path: path.to_owned(), number })
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let mut calls = calls();
        calls.running -= 1;
        if calls.newest.get(&self.path).is_some_and(|newest| newest.number == self.number) {
            calls.newest.remove(&self.path);
        }
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Time that is over as soon as it is needed.
    fn no_time() -> FileLimits {
        FileLimits { until: Instant::now(), ..FileLimits::regular(false) }
    }

    /// A call that hangs until it is released.
    fn hang(path: &Path, limits: FileLimits, begun: &Arc<AtomicUsize>) -> (io::Error, Sender<()>) {
        let (release, held): (Sender<()>, Receiver<()>) = channel();
        let begun = begun.clone();
        let error = call(path, limits, move |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            held.recv().map_err(|_| io::Error::other("released"))
        });
        (error.unwrap_err(), release)
    }

    fn names(error: &io::Error, why: &str) {
        assert!(error.kind() == io::ErrorKind::TimedOut && error.to_string().contains(why), "{error}");
    }

    #[test]
    fn a_file_that_hangs_costs_one_thread_and_another_if_a_person_asks() {
        let path = Path::new("/nonexistent/hangs");
        let begun = Arc::new(AtomicUsize::new(0));
        let (error, release) = hang(path, no_time(), &begun);
        names(&error, "it does not answer: it is on a network mount");
        for _ in 0..3 {
            names(&hang(path, no_time(), &begun).0, "an earlier call still hangs");
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1, "no look starts a further thread");
        let asked = FileLimits { again: true, ..FileLimits::once() };
        assert_eq!(call(path, asked, |_| Ok(7)).unwrap(), 7, "it was mended");
        assert_eq!(call(path, FileLimits::once(), |_| Ok(8)).unwrap(), 8, "and the others read it again");
        drop(release);
    }

    #[test]
    fn a_call_waits_for_an_earlier_one_of_the_same_file() {
        let path = Path::new("/nonexistent/busy");
        let (release, held) = channel::<()>();
        thread::scope(|scope| {
            let (begun, has_begun) = channel();
            let first = scope.spawn(move || {
                call(path, FileLimits::once(), move |_| {
                    begun.send(()).unwrap();
                    held.recv().map_err(io::Error::other)
                })
            });
            has_begun.recv().unwrap();
            let second = scope.spawn(|| call(path, FileLimits::once(), |_| Ok(())));
            release.send(()).unwrap();
            assert!(first.join().unwrap().is_ok() && second.join().unwrap().is_ok());
        });
        assert!(!calls().newest.contains_key(path));
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_leaves_nothing_behind() {
        let path = Path::new("/nonexistent/panics");
        let error = call(path, FileLimits::once(), |_| -> io::Result<()> { panic!("a fault") }).unwrap_err();
        assert!(error.to_string().contains("see the log"), "{error}");
        assert!(!calls().newest.contains_key(path));
    }

    #[test]
    fn only_what_is_read_once_may_be_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let error = read(&path, 10, FileLimits::regular(true)).map(drop).unwrap_err();
        assert!(error.to_string().contains("it is no file"), "{error}");
        let nobody_writes = FileLimits { until: Instant::now(), ..FileLimits::once() };
        names(&read(&path, 10, nobody_writes).map(drop).unwrap_err(), "a pipe that nobody writes to");
        // Releases the thread.
        fs::write(&path, "late").unwrap();
        let hangs = |calls: &mut Calls| calls.newest.contains_key(&path);
        drop(CHANGED.wait_while(calls(), hangs).unwrap());
        thread::scope(|scope| {
            let writer = scope.spawn(|| fs::write(&path, "text"));
            let content = read(&path, 10, FileLimits::once()).unwrap();
            assert_eq!(content.into_text().unwrap(), "text");
            writer.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_file_has_a_bound_and_a_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let limits = FileLimits::regular(false);
        assert!(!is_there(&path) && FileStamp::at(&path, limits).is_none());
        fs::write(&path, vec![b'x'; 1025]).unwrap();
        assert_eq!(read(&path, 1025, limits).unwrap().bytes.len(), 1025);
        let error = read(&path, 1024, limits).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1 KiB");
        let stamp = FileStamp::at(&path, limits);
        assert!(is_there(&path) && stamp.is_some());
        fs::write(&path, "other").unwrap();
        assert_ne!(FileStamp::at(&path, limits), stamp);
    }
}
