//! The slots of client connections: their number, their holders, and which connection is closed when a new connection
//! finds no free slot, or when clients hold too much memory.
//!
//! An idle connection costs its client nothing, so one host could take every slot for as long as it likes. So idle
//! connections have no right to a slot: when slots run short, the address with the most connections loses its longest
//! idle ones. When memory runs short, the address that holds most loses its largest idle ones, and who holds little loses
//! nothing. A connection with a running request is never closed for a new one. The last slots are a reserve, in which no
//! long request may start: health checks and admins still get in while all other slots are busy.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::connection_place::{ConnectionPlace, RequestInProgress, UNKNOWN_STREAMS_MAX};
use photofinish_base::clock::Instant;
use photofinish_base::memory::Memory;

/// Connections closed per search, so that a burst of new connections does not search all of them each time.
const CLOSED_AT_ONCE: usize = 64;
/// Pause after a search that found nothing to close.
const SEARCH_AGAIN: Duration = Duration::from_millis(100);
/// An address that holds this part of what clients may hold, or more, is one of those that make memory run short.
const LARGE_PART: usize = 16;
/// The maximum wait of a new connection for one that is being closed. Closing is far faster.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

/// All slots of all listeners.
pub(super) struct Places {
    /// Number of slots for requests of any length.
    ordinary: usize,
    /// Number of further slots, for short requests only.
    reserve: usize,
    memory: Memory,
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
    /// Connections in the reserve.
    reserved: usize,
    /// Bytes of connections that are being closed.
    leaving: usize,
    /// Addresses that held a large part at the latest search for memory.
    large: HashSet<IpAddr>,
    /// Time of the next search. None: at once.
    search_at: Option<Instant>,
}

struct PlaceEntry {
    peer: IpAddr,
    in_reserve: bool,
    /// It was asked to close, and held these bytes then.
    leaving: Option<usize>,
    connection: Arc<ConnectionPlace>,
}

/// What runs short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Slots,
    /// Slots of the reserve.
    Reserve,
    /// An address that holds this many bytes is a large one.
    Memory {
        large: usize,
    },
}

/// One slot. Dropping it frees the slot.
pub(super) struct ConnectionSlot {
    places: Arc<Places>,
    id: u64,
    pub connection: Arc<ConnectionPlace>,
}

impl Places {
    pub(super) fn new(ordinary: usize, reserve: usize, memory: Memory) -> Arc<Places> {
        Arc::new(Places { ordinary, reserve, memory, held: Mutex::default(), left: Notify::new() })
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

    /// The number of the next connection: all that are there have lower ones.
    pub(super) fn next(&self) -> u64 {
        self.lock().next
    }

    /// Whether all connections with numbers below this one have ended.
    pub(super) fn have_ended(&self, below: u64) -> bool {
        !self.lock().connections.keys().any(|id| *id < below)
    }

    /// Closes idle connections. Returns how many.
    pub(super) fn make_room(&self) -> usize {
        self.lock().close_idle(Lack::Slots, usize::MAX)
    }

    /// None if all slots are taken; some connections are then asked to close.
    fn try_enter(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let mut held = self.lock();
        let peer = network(peer);
        let in_reserve = !self.has_room(&mut held, peer);
        if in_reserve && held.reserved >= self.reserve {
            held.close_idle(Lack::Reserve, usize::MAX);
            return None;
        }
        if held.connections.len() >= self.ordinary + self.reserve {
            return None;
        }
        let connection = ConnectionPlace::new(&self.memory, in_reserve);
        let id = held.insert(peer, connection.clone(), in_reserve);
        Some(ConnectionSlot { places: self.clone(), id, connection })
    }

    /// Whether there is room for one more connection in an ordinary slot. If not, it asks others to close.
    fn has_room(&self, held: &mut HeldPlaces, peer: IpAddr) -> bool {
        (held.ordinary < self.ordinary || held.close_idle(Lack::Slots, usize::MAX) > 0) && self.has_memory(held, peer)
    }

    /// Whether this address may hold more. Asks connections to close if clients hold too much.
    ///
    /// What is being closed is held for a moment longer. Addresses that hold a large part have half as much again for
    /// that, and no more; the others have twice as much, so that these never keep them out.
    fn has_memory(&self, held: &mut HeldPlaces, peer: IpAddr) -> bool {
        let (max, clients) = (self.memory.clients_max(), self.memory.clients());
        if clients <= max {
            return true;
        }
        let holding = clients.saturating_sub(held.leaving);
        // A little more, so that not each further request searches all connections.
        let is_freed =
            holding <= max || held.close_idle(Lack::Memory { large: max / LARGE_PART }, holding - max + max / 16) > 0;
        if held.large.contains(&peer) { is_freed && clients <= max + max / 2 } else { clients <= 2 * max }
    }

    fn lock(&self) -> MutexGuard<'_, HeldPlaces> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPlaces {
    fn insert(&mut self, peer: IpAddr, connection: Arc<ConnectionPlace>, in_reserve: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        self.connections.insert(id, PlaceEntry { peer, in_reserve, leaving: None, connection });
        *self.by_peer.entry(peer).or_default() += 1;
        self.ordinary += usize::from(!in_reserve);
        self.reserved += usize::from(in_reserve);
        id
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

    /// Asks idle connections to close, until they free `bytes`: first those of the address that has most of what runs
    /// short, and of these the longest idle ones, or the largest. In the reserve it also closes busy ones: their requests
    /// are short. Where memory runs short it closes only those of large addresses. Returns how many.
    fn close_idle(&mut self, lack: Lack, mut bytes: usize) -> usize {
        let (now, in_reserve) = (Instant::now(), lack == Lack::Reserve);
        if !in_reserve && self.search_at.is_some_and(|at| now < at) {
            return 0;
        }
        let held = if let Lack::Memory { large } = lack { self.held_by_large(large) } else { HashMap::new() };
        let mut idle: Vec<_> = (self.connections.iter())
            .filter(|(_, entry)| entry.leaving.is_none())
            .filter(|(_, entry)| match lack {
                Lack::Slots => !entry.in_reserve && entry.connection.is_idle(),
                Lack::Reserve => entry.in_reserve,
                Lack::Memory { .. } => held.contains_key(&entry.peer) && entry.connection.is_idle(),
            })
            .map(|(id, PlaceEntry { peer, connection, .. })| {
                let since = connection.idle_since().unwrap_or(connection.since());
                let (all, own) = match lack {
                    Lack::Memory { .. } => (held.get(peer), connection.held()),
                    Lack::Slots | Lack::Reserve => (self.by_peer.get(peer), 0),
                };
                (Reverse(all.copied()), Reverse(own), since, *id)
            })
            .collect();
        if idle.len() > CLOSED_AT_ONCE {
            idle.select_nth_unstable(CLOSED_AT_ONCE);
            idle.truncate(CLOSED_AT_ONCE);
        }
        idle.sort();
        let mut closed = 0;
        for (.., id) in idle {
            if bytes == 0 {
                break;
            }
            if let Some(entry) = self.connections.get_mut(&id) {
                let freed = entry.connection.held();
                entry.leaving = Some(freed);
                self.leaving += freed;
                self.ordinary -= usize::from(!entry.in_reserve);
                entry.connection.close.notify_one();
                bytes = bytes.saturating_sub(freed);
                closed += 1;
            }
        }
        if !in_reserve {
            self.search_at = (closed == 0).then(|| now + SEARCH_AGAIN);
        }
        closed
    }

    /// What the connections of each large address hold together, in bytes.
    fn held_by_large(&mut self, large: usize) -> HashMap<IpAddr, usize> {
        let mut held = HashMap::new();
        for entry in self.connections.values() {
            *held.entry(entry.peer).or_default() += entry.connection.held();
        }
        held.retain(|_, bytes| *bytes >= large);
        self.large = held.keys().copied().collect();
        held
    }
}

impl ConnectionSlot {
    /// A new request. None: it must be refused, because clients hold too much memory, or because this one has asked for
    /// much and no request of it had a valid token. The first request of a connection always begins.
    pub(super) fn begin(&self, is_stream: bool, has_token: impl FnOnce() -> bool) -> Option<RequestInProgress> {
        let connection = &self.connection;
        let streams = connection.streams();
        if streams >= UNKNOWN_STREAMS_MAX && !connection.is_known(has_token) {
            connection.refuses_unknown();
            return None;
        }
        if streams > 0 && !self.may_hold_more() {
            connection.refuses();
            return None;
        }
        Some(connection.begin(is_stream))
    }

    fn may_hold_more(&self) -> bool {
        let memory = &self.places.memory;
        memory.clients() <= memory.clients_max() || {
            let mut held = self.places.lock();
            let peer = held.connections.get(&self.id).map(|entry| entry.peer);
            peer.is_some_and(|peer| self.places.has_memory(&mut held, peer))
        }
    }

    /// Whether a long request may start. A connection in the reserve may start one only if an ordinary slot is free; it
    /// then moves to that slot.
    pub(super) fn may_work(&self) -> bool {
        if !self.connection.in_reserve.load(Ordering::Relaxed) {
            return true;
        }
        let mut held = self.places.lock();
        let Some(peer) = held.connections.get(&self.id).map(|entry| entry.peer) else { return false };
        if !self.places.has_room(&mut held, peer) {
            return false;
        }
        if let Some(entry) = held.connections.get_mut(&self.id)
            && entry.leaving.is_none()
        {
            entry.in_reserve = false;
            self.connection.in_reserve.store(false, Ordering::Relaxed);
            held.ordinary += 1;
            held.reserved -= 1;
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
            if entry.in_reserve || self.connection.is_idle() || self.connection.floods() {
                return;
            }
            if let Some(bytes) = entry.leaving.take() {
                held.ordinary += 1;
                held.leaving -= bytes;
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        if let Some(entry) = held.connections.remove(&self.id) {
            held.ordinary -= usize::from(!entry.in_reserve && entry.leaving.is_none());
            held.reserved -= usize::from(entry.in_reserve);
            held.leaving -= entry.leaving.unwrap_or(0);
            held.leaves(entry.peer);
        }
        drop(held);
        self.places.left.notify_waiters();
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
mod tests;
