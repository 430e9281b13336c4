//! Resolves names: once for all requests, cached for a while, and renewed outside the request's path.
//!
//! The system does it (`getaddrinfo`), so that `/etc/hosts`, search domains and mDNS work. It blocks a thread and
//! cannot be cancelled: a hanging look-up keeps its thread until it ends. So the number of concurrent look-ups is
//! bounded, per name and in total, far below the runtime's blocking threads, and each request waits at most for its own
//! timeout. Names come only from the configuration, so the cache is small.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

/// The age up to which an answer of DNS is used without a new look-up.
const FRESH_FOR: Duration = Duration::from_secs(30);
/// The age up to which it is used while a new look-up runs.
const STALE_FOR: Duration = Duration::from_secs(600);
/// Look-ups of all names at once. A runtime has 512 blocking threads.
const LOOKUPS_MAX: usize = 64;
/// Look-ups of one name at once: a second one if the first hangs.
const LOOKUPS_OF_NAME_MAX: usize = 2;
/// A look-up that takes longer than this hangs.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// Finds the addresses of a host; their port has no meaning.
pub type Resolver = Arc<dyn Fn(String) -> Lookup + Send + Sync>;
type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Uses the system's resolver.
pub fn system_resolver() -> Resolver {
    Arc::new(|host| Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }))
}

pub(super) struct NameCache {
    resolver: Resolver,
    names: Mutex<HashMap<String, NameEntry>>,
    /// A permit for each running look-up.
    places: Arc<Semaphore>,
    /// Notified when a look-up has ended.
    changed: Notify,
    shutdown: Shutdown,
}

/// The state of a name.
#[derive(Default)]
struct NameEntry {
    found: Option<(Instant, Vec<SocketAddr>)>,
    /// The latest failure, and when it came.
    failed: Option<(Instant, Arc<io::Error>)>,
    /// When each running look-up began.
    running: Vec<Instant>,
}

/// The reply to a request for a name.
enum LookupAnswer {
    Addresses(Vec<SocketAddr>),
    Failed(Arc<io::Error>),
    Wait,
}

impl NameCache {
    pub fn new(shutdown: Shutdown, resolver: Resolver) -> Arc<NameCache> {
        let places = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Arc::new(NameCache { resolver, names: Mutex::default(), places, changed: Notify::new(), shutdown })
    }

    /// The addresses of a host, with an arbitrary port. The caller bounds the time.
    ///
    /// # Errors
    /// The reason why there are none.
    pub async fn look_up(self: &Arc<NameCache>, host: &str) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, 0)]);
        }
        let asked = Instant::now();
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.ask(host, asked) {
                LookupAnswer::Addresses(addresses) => return Ok(addresses),
                LookupAnswer::Failed(why) => return Err(why),
                // Also check from time to time: a look-up may hang by now.
                LookupAnswer::Wait => drop(tokio::time::timeout(HANGS_AFTER, changed).await),
            }
        }
    }

    fn ask(self: &Arc<NameCache>, host: &str, asked: Instant) -> LookupAnswer {
        let now = Instant::now();
        let mut names = self.names();
        let name = names.entry(host.to_owned()).or_default();
        let answer = name.answer(asked, now);
        if !matches!(answer, LookupAnswer::Failed(_)) && name.wants_lookup(now) {
            name.running.push(now);
            self.shutdown.spawn(self.clone().run(host.to_owned(), now));
        }
        answer
    }

    async fn run(self: Arc<NameCache>, host: String, begun: Instant) {
        let lookup = async {
            let _place = self.places.acquire().await;
            (self.resolver)(host.clone()).await
        };
        let found = tokio::select! {
            found = lookup => found,
            () = self.shutdown.cancelled() => return,
        };
        let mut names = self.names();
        let name = names.entry(host).or_default();
        name.running.retain(|running| *running != begun);
        let found = found.and_then(|addresses| match addresses.is_empty() {
            true => Err(io::Error::other("it has no address")),
            false => Ok(addresses),
        });
        match found {
            Ok(addresses) => name.found = Some((Instant::now(), addresses)),
            Err(error) => name.failed = Some((Instant::now(), Arc::new(error))),
        }
        drop(names);
        self.changed.notify_waiters();
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, NameEntry>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameEntry {
    /// For a request that has waited since `asked`: an earlier failure does not count.
    fn answer(&self, asked: Instant, now: Instant) -> LookupAnswer {
        match (&self.found, &self.failed) {
            (Some((at, addresses)), _) if now - *at < STALE_FOR => LookupAnswer::Addresses(addresses.clone()),
            (_, Some((at, why))) if *at >= asked => LookupAnswer::Failed(why.clone()),
            _ => LookupAnswer::Wait,
        }
    }

    fn wants_lookup(&self, now: Instant) -> bool {
        let is_fresh = self.found.as_ref().is_some_and(|(at, _)| now - *at < FRESH_FOR);
        let one_is_awaited = self.running.iter().any(|begun| now - *begun < HANGS_AFTER);
        !is_fresh && !one_is_awaited && self.running.len() < LOOKUPS_OF_NAME_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{mpsc, oneshot};
    use tokio::time::{advance, timeout};

    use super::*;

    type Reply = oneshot::Sender<io::Result<Vec<SocketAddr>>>;

    /// Hangs until the test replies.
    fn asked() -> (Arc<NameCache>, mpsc::Receiver<Reply>) {
        let (asked, replies) = mpsc::channel::<Reply>(8);
        let resolver: Resolver = Arc::new(move |_| {
            let (reply, answer) = oneshot::channel();
            asked.try_send(reply).unwrap();
            Box::pin(async { answer.await.unwrap_or_else(|_| Err(io::Error::other("the test has ended"))) })
        });
        (NameCache::new(Shutdown::new(), resolver), replies)
    }

    async fn look_up(names: &Arc<NameCache>, host: &str) -> Result<Vec<SocketAddr>, String> {
        names.look_up(host).await.map_err(|error| error.to_string())
    }

    fn addresses(text: &str) -> Vec<SocketAddr> {
        vec![SocketAddr::new(text.parse().unwrap(), 0)]
    }

    #[tokio::test(start_paused = true)]
    async fn one_lookup_serves_all_and_is_renewed_beside_the_request() {
        let (names, mut replies) = asked();
        let all = futures_util::future::join_all((0..100).map(|_| look_up(&names, "a.test")));
        let (found, reply) = tokio::join!(all, async {
            replies.recv().await.unwrap().send(Ok(addresses("1.1.1.1"))).unwrap();
        });
        assert_eq!(reply, ());
        assert!(found.iter().all(|found| *found == Ok(addresses("1.1.1.1"))));
        assert!(replies.try_recv().is_err(), "one look-up");

        advance(FRESH_FOR).await;
        assert_eq!(look_up(&names, "a.test").await, Ok(addresses("1.1.1.1")), "at once, while the new one hangs");
        let hanging = replies.recv().await.unwrap();
        advance(HANGS_AFTER).await;
        assert_eq!(look_up(&names, "a.test").await, Ok(addresses("1.1.1.1")));
        let second = replies.recv().await.unwrap();
        advance(HANGS_AFTER).await;
        assert_eq!(look_up(&names, "a.test").await, Ok(addresses("1.1.1.1")));
        tokio::task::yield_now().await;
        assert!(replies.try_recv().is_err(), "no third while two hang");
        second.send(Ok(addresses("2.2.2.2"))).unwrap();
        while look_up(&names, "a.test").await != Ok(addresses("2.2.2.2")) {
            tokio::task::yield_now().await;
        }
        drop(hanging);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_who_waited_and_not_kept() {
        let (names, mut replies) = asked();
        let (found, _) = tokio::join!(look_up(&names, "a.test"), async {
            replies.recv().await.unwrap().send(Err(io::Error::other("no such name"))).unwrap();
        });
        assert_eq!(found, Err("no such name".to_owned()));
        advance(Duration::from_millis(1)).await;
        let (found, _) = tokio::join!(look_up(&names, "a.test"), async {
            replies.recv().await.unwrap().send(Ok(addresses("1.1.1.1"))).unwrap();
        });
        assert_eq!(found, Ok(addresses("1.1.1.1")));
        // Addresses survive failures for a limited time.
        advance(STALE_FOR).await;
        let (found, _) = tokio::join!(look_up(&names, "a.test"), async {
            replies.recv().await.unwrap().send(Ok(Vec::new())).unwrap();
        });
        assert_eq!(found, Err("it has no address".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_hang_are_few_and_stop_no_other() {
        let running = Arc::new(AtomicUsize::new(0));
        let count = running.clone();
        let resolver: Resolver = Arc::new(move |host| {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                if host.starts_with("hangs") { std::future::pending().await } else { Ok(addresses("1.1.1.1")) }
            })
        });
        let names = NameCache::new(Shutdown::new(), resolver);
        for hangs in 0..LOOKUPS_MAX / 2 - 1 {
            let host = format!("hangs{hangs}");
            assert!(timeout(Duration::from_secs(60), look_up(&names, &host)).await.is_err());
        }
        assert_eq!(running.load(Ordering::Relaxed), LOOKUPS_MAX - 2, "two of each name");
        assert_eq!(look_up(&names, "good").await, Ok(addresses("1.1.1.1")));
        assert_eq!(look_up(&names, "127.0.0.1").await, Ok(addresses("127.0.0.1")), "an address needs no look-up");
    }
}
