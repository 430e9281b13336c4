//! The slots of client connections: their number, their holders, and which connection is closed when a new connection
//! finds no free slot.
//!
//! An idle connection costs its client nothing, so one host could take every slot for as long as it likes. So idle
//! connections have no right to a slot: when slots run short, the address with the most connections loses its longest
//! idle ones. A connection with a running request is never closed for a new one. The last slots are a reserve, in which
//! no long request may start: health checks and admins still get in while all other slots are busy.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Instant;

/// Connections closed per search, so that a burst of new connections does not search all of them each time.
const CLOSED_AT_ONCE: usize = 64;
/// Pause after a search that found nothing to close.
const SEARCH_AGAIN: Duration = Duration::from_millis(100);
/// The maximum wait of a new connection for one that is being closed. Closing is far faster.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

/// All slots of all listeners.
pub(super) struct Places {
    /// Number of slots for requests of any length.
    ordinary: usize,
    /// Number of further slots, for short requests only.
    reserve: usize,
    held: Mutex<HeldPlaces>,
    /// Notified when a connection has ended.
    left: Notify,
}

#[derive(Default)]
struct HeldPlaces {
    next: u64,
    connections: HashMap<u64, PlaceEntry>,
    /// Connections per address: see [`network`].
    by_peer: HashMap<IpAddr, usize>,
    /// Connections in ordinary slots that are not being closed.
    ordinary: usize,
    /// Time of the next search. None: at once.
    search_at: Option<Instant>,
}

struct PlaceEntry {
    peer: IpAddr,
    in_reserve: bool,
    /// It was asked to close.
    leaving: bool,
    connection: Arc<ConnectionPlace>,
}

/// The activity of one connection.
pub(super) struct ConnectionPlace {
    since: Instant,
    /// Number of running requests.
    working: AtomicUsize,
    /// Milliseconds after `since` at which the last request ended.
    idle_at: AtomicU64,
    in_reserve: AtomicBool,
    close: Notify,
}

/// One slot. Dropping it frees the slot.
pub(super) struct ConnectionSlot {
    places: Arc<Places>,
    id: u64,
    pub connection: Arc<ConnectionPlace>,
}

/// One running request. Not `Clone`: it counts once.
pub(super) struct RequestInProgress(Arc<ConnectionPlace>);

impl Places {
    pub(super) fn new(ordinary: usize, reserve: usize) -> Arc<Places> {
        Arc::new(Places { ordinary, reserve, held: Mutex::default(), left: Notify::new() })
    }

    /// A slot for a connection from this address. None if all slots are busy, including the reserve.
    pub(super) async fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        loop {
            let left = self.left.notified();
            if let Some(place) = self.try_enter(peer) {
                return Some(place);
            }
            tokio::time::timeout(LEFT_WITHIN, left).await.ok()?;
        }
    }

    /// Whether there is no connection.
    pub(super) fn are_free(&self) -> bool {
        self.lock().connections.is_empty()
    }

    /// Closes idle connections. Returns how many.
    pub(super) fn make_room(&self) -> usize {
        self.lock().close_idle(false)
    }

    /// None if all slots are taken; some connections are then asked to close.
    fn try_enter(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let mut held = self.lock();
        let full = held.ordinary >= self.ordinary;
        let in_reserve = full && held.close_idle(false) == 0;
        if held.connections.len() >= self.ordinary + self.reserve {
            if in_reserve {
                held.close_idle(true);
            }
            return None;
        }
        let (id, connection) = held.insert(network(peer), in_reserve);
        Some(ConnectionSlot { places: self.clone(), id, connection })
    }

    fn lock(&self) -> MutexGuard<'_, HeldPlaces> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPlaces {
    fn insert(&mut self, peer: IpAddr, in_reserve: bool) -> (u64, Arc<ConnectionPlace>) {
        let id = self.next;
        self.next += 1;
        let connection = Arc::new(ConnectionPlace {
            since: Instant::now(),
            working: AtomicUsize::new(0),
            idle_at: AtomicU64::new(0),
            in_reserve: AtomicBool::new(in_reserve),
            close: Notify::new(),
        });
        let entry = PlaceEntry { peer, in_reserve, leaving: false, connection: connection.clone() };
        self.connections.insert(id, entry);
        *self.by_peer.entry(peer).or_default() += 1;
        self.ordinary += usize::from(!in_reserve);
        (id, connection)
    }

    /// Removes one connection of this address from the count.
    fn leaves(&mut self, peer: IpAddr) {
        if let Some(count) = self.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// Closes idle connections: first those of the address with the most connections, and of these the longest idle
    /// ones. In the reserve it also closes busy ones: their requests are short.
    fn close_idle(&mut self, in_reserve: bool) -> usize {
        let now = Instant::now();
        if !in_reserve && self.search_at.is_some_and(|at| now < at) {
            return 0;
        }
        let mut idle: Vec<_> = (self.connections.iter())
            .filter(|(_, entry)| !entry.leaving && entry.in_reserve == in_reserve)
            .filter(|(_, entry)| in_reserve || entry.connection.is_idle())
            .map(|(id, PlaceEntry { peer, connection, .. })| {
                (Reverse(self.by_peer.get(peer)), connection.idle_since().unwrap_or(connection.since), *id)
            })
            .collect();
        if idle.len() > CLOSED_AT_ONCE {
            idle.select_nth_unstable(CLOSED_AT_ONCE);
            idle.truncate(CLOSED_AT_ONCE);
        }
        let closed: Vec<u64> = idle.into_iter().map(|(_, _, id)| id).collect();
        for id in &closed {
            if let Some(entry) = self.connections.get_mut(id) {
                entry.leaving = true;
                self.ordinary -= usize::from(!in_reserve);
                entry.connection.close.notify_one();
            }
        }
        if !in_reserve {
            self.search_at = closed.is_empty().then(|| now + SEARCH_AGAIN);
        }
        closed.len()
    }
}

impl ConnectionSlot {
    /// Whether a long request may start. A connection in the reserve may start one only if an ordinary slot is free; it
    /// then moves to that slot.
    pub(super) fn may_work(&self) -> bool {
        if !self.connection.in_reserve.load(Ordering::Relaxed) {
            return true;
        }
        let mut held = self.places.lock();
        if held.ordinary >= self.places.ordinary && held.close_idle(false) == 0 {
            return false;
        }
        if let Some(entry) = held.connections.get_mut(&self.id)
            && !entry.leaving
        {
            entry.in_reserve = false;
            self.connection.in_reserve.store(false, Ordering::Relaxed);
            held.ordinary += 1;
        }
        true
    }

    /// Counts the connection of a proxy for this client from now on.
    pub(super) fn is_for(&self, client: IpAddr) {
        let client = network(client);
        let mut held = self.places.lock();
        let Some(entry) = held.connections.get_mut(&self.id).filter(|entry| entry.peer != client) else { return };
        let before = std::mem::replace(&mut entry.peer, client);
        held.leaves(before);
        *held.by_peer.entry(client).or_default() += 1;
    }

    /// Resolves when the connection must close to make room.
    pub(super) async fn given_up(&self) {
        loop {
            self.connection.close.notified().await;
            let mut held = self.places.lock();
            let Some(entry) = held.connections.get_mut(&self.id) else { return };
            // A request may have started in the meantime.
            if entry.in_reserve || self.connection.is_idle() {
                return;
            }
            entry.leaving = false;
            held.ordinary += 1;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        if let Some(entry) = held.connections.remove(&self.id) {
            held.ordinary -= usize::from(!entry.in_reserve && !entry.leaving);
            held.leaves(entry.peer);
        }
        drop(held);
        self.places.left.notify_waiters();
    }
}

impl ConnectionPlace {
    pub(super) fn begin(self: &Arc<Self>) -> RequestInProgress {
        self.working.fetch_add(1, Ordering::Relaxed);
        RequestInProgress(self.clone())
    }

    fn is_idle(&self) -> bool {
        self.working.load(Ordering::Relaxed) == 0
    }

    /// When it became idle. None: it is busy.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.is_idle().then(|| self.since + Duration::from_millis(self.idle_at.load(Ordering::Relaxed)))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let RequestInProgress(connection) = self;
        let idle_at = u64::try_from(connection.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        connection.idle_at.store(idle_at, Ordering::Relaxed);
        connection.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The addresses that one host can use: an IPv4 address, or a /64 network of IPv6.
pub(super) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    async fn entered(places: &Arc<Places>, last: u8) -> ConnectionSlot {
        tokio::time::advance(Duration::from_secs(1)).await;
        places.enter(peer(last)).await.unwrap()
    }

    async fn is_given_up(place: &ConnectionSlot) -> bool {
        tokio::time::timeout(Duration::ZERO, place.given_up()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_that_holds_most_gives_up_its_longest_idle_ones() {
        let places = Places::new(200, 100);
        let first = entered(&places, 1).await;
        let mut many = Vec::new();
        for _ in 0..199 {
            many.push(entered(&places, 2).await);
        }
        let busy = many[0].connection.begin();
        // This one becomes idle only now.
        drop(many[1].connection.begin());
        let newcomer = entered(&places, 3).await;
        let mut given_up = Vec::new();
        for (number, place) in many.iter().enumerate() {
            if is_given_up(place).await {
                given_up.push(number);
            }
        }
        assert_eq!(given_up, (2..2 + CLOSED_AT_ONCE).collect::<Vec<_>>());
        assert!(!is_given_up(&first).await && !is_given_up(&newcomer).await);
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_not_cut_and_the_reserve_is_only_for_looking() {
        let places = Places::new(2, 2);
        let (a, b) = (entered(&places, 1).await, entered(&places, 1).await);
        let work = [a.connection.begin(), b.connection.begin()];
        let reserved = [entered(&places, 1).await, entered(&places, 2).await];
        assert!(a.may_work() && reserved.iter().all(|place| !place.may_work()));
        let _request = reserved[0].connection.begin();
        // A new connection replaces one in the reserve, even a busy one, as soon as that one has ended.
        assert!(places.enter(peer(3)).await.is_none());
        assert!(is_given_up(&reserved[0]).await && !is_given_up(&a).await);
        drop(reserved);
        let next = entered(&places, 3).await;
        assert!(!next.may_work());
        let [work, _other] = work;
        drop((work, a));
        assert!(next.may_work(), "there is an ordinary place again, and this is it");
        let _more_work = next.connection.begin();
        let late = entered(&places, 3).await;
        assert!(!late.may_work());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_asked_just_then_stays() {
        let places = Places::new(1, 1);
        let place = entered(&places, 1).await;
        let _newcomer = entered(&places, 2).await;
        let work = place.connection.begin();
        assert!(!is_given_up(&place).await);
        drop(work);
        assert_eq!(places.make_room(), 2);
        assert!(is_given_up(&place).await);
    }

    #[tokio::test(start_paused = true)]
    async fn behind_a_proxy_it_is_the_client_that_holds() {
        let places = Places::new(200, 100);
        let mut held = Vec::new();
        for number in 0..200 {
            held.push(entered(&places, 1).await);
            // The first connection is one client's, all others are another's.
            held[number].is_for(peer(if number == 0 { 2 } else { 3 }));
        }
        let _newcomer = entered(&places, 4).await;
        assert!(!is_given_up(&held[0]).await && is_given_up(&held[1]).await);
        drop(held);
        assert_eq!(places.lock().by_peer.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_leaves_frees_its_place() {
        let places = Places::new(2, 1);
        for _ in 0..10 {
            let held = [entered(&places, 1).await, entered(&places, 1).await];
            let _work = [held[0].connection.begin(), held[1].connection.begin()];
            assert!(!entered(&places, 1).await.may_work());
        }
        let held = places.lock();
        assert!(held.connections.is_empty() && held.by_peer.is_empty() && held.ordinary == 0);
    }

    #[test]
    fn a_host_is_an_ipv4_address_or_a_64th_of_ipv6() {
        for (peer, expected) in [
            ("10.0.0.7", "10.0.0.7"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(network(peer.parse().unwrap()).to_string(), expected);
        }
    }
}
