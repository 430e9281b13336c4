//! The bound on the memory of all bodies and buffers together: one counter, and leases on it. A lease grows with the
//! data it covers and is returned when that data is dropped.
//!
//! It counts and does not allocate: code that buffers leases the bytes first. Data that only passes through is not
//! counted. What clients hold by their connections is counted too, as a part that has a bound of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The smallest growth of a lease, in bytes, so that many small reads do not each touch the shared counter.
const STEP: usize = 4 << 10;

/// The part of `memory` that clients may hold by their connections: one in four. So they alone never bring about that
/// requests go without extra attempts, which begins at three quarters.
const CLIENTS_MAX: usize = 4;

/// There is no room for the requested bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFull;

/// Cheap to clone; all clones share one counter.
#[derive(Clone, Debug)]
pub struct Memory {
    inner: Arc<MemoryState>,
}

#[derive(Debug)]
struct MemoryState {
    /// Bytes that may be leased in total.
    max: AtomicUsize,
    /// Bytes that are leased.
    used: AtomicUsize,
    /// The part of `used` in [`ClientLease`]s.
    clients: AtomicUsize,
}

impl Memory {
    /// `max`: bytes.
    pub fn new(max: usize) -> Memory {
        let (used, clients) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Memory { inner: Arc::new(MemoryState { max: AtomicUsize::new(max), used, clients }) }
    }

    /// Changes its size to `max` bytes. Existing leases stay.
    pub fn resize(&self, max: usize) {
        self.inner.max.store(max, Ordering::Relaxed);
    }

    pub fn max(&self) -> usize {
        self.inner.max.load(Ordering::Relaxed)
    }

    /// Bytes that are leased now.
    pub fn used(&self) -> usize {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Bytes of [`Memory::used`] that clients hold by their connections.
    pub fn clients(&self) -> usize {
        self.inner.clients.load(Ordering::Relaxed)
    }

    /// The most that clients may hold by their connections, so that bodies always have the rest.
    pub fn clients_max(&self) -> usize {
        self.max() / CLIENTS_MAX
    }

    /// Whether this many bytes could be leased now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.max()
    }

    /// A new, empty lease.
    pub fn lease(&self) -> Lease {
        Lease { memory: self.clone(), bytes: 0 }
    }

    fn take(&self, bytes: usize) -> Result<(), MemoryFull> {
        // One atomic step, so that a refused lease never makes other leases fail.
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max());
        self.inner.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map(drop).map_err(|_| MemoryFull)
    }

    fn give_back(&self, bytes: usize) {
        self.inner.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A part of the memory, returned on drop. Not `Clone`: two would return one part twice.
#[derive(Debug)]
pub struct Lease {
    memory: Memory,
    bytes: usize,
}

impl Lease {
    /// Grows the lease to at least this many bytes; never shrinks it. Cheap if it is large enough already.
    ///
    /// # Errors
    /// There is no room. The lease is then unchanged.
    pub fn cover(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        let Some(lacking) = bytes.checked_sub(self.bytes).filter(|lacking| *lacking > 0) else { return Ok(()) };
        let grown = lacking.max(STEP);
        self.memory.take(grown)?;
        self.bytes += grown;
        Ok(())
    }

    /// Sets the lease to exactly this many bytes. They are allocated already, so this works beyond the maximum too.
    pub fn settle(&mut self, bytes: usize) {
        self.memory.inner.used.fetch_add(bytes, Ordering::Relaxed);
        self.memory.give_back(self.bytes);
        self.bytes = bytes;
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another lease, of exactly this many bytes. They are allocated already, so this works beyond the maximum too.
    pub fn another(&self, bytes: usize) -> Lease {
        let mut lease = self.memory.lease();
        lease.settle(bytes);
        lease
    }

    /// Ties the lease to its bytes: it is returned when the last clone or slice of them is dropped.
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Leased { bytes, _lease: self })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// What one client holds by its connection. Its memory is taken already when it is counted, so this works beyond the
/// maximum too: who lets a connection or a request in compares [`Memory::clients`] with [`Memory::clients_max`] first.
///
/// The requests of the connection share it.
#[derive(Debug)]
pub struct ClientLease {
    memory: Memory,
    bytes: AtomicUsize,
}

impl ClientLease {
    pub fn new(memory: &Memory) -> ClientLease {
        ClientLease { memory: memory.clone(), bytes: AtomicUsize::new(0) }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.memory.inner.clients.fetch_add(bytes, Ordering::Relaxed);
        self.memory.inner.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns bytes that it has grown by.
    pub fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.inner.clients.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.give_back(bytes);
    }
}

impl Drop for ClientLease {
    fn drop(&mut self) {
        self.shrink(self.bytes());
    }
}

struct Leased<B> {
    bytes: B,
    _lease: Lease,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Leased<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_share_one_budget_and_give_back() {
        let memory = Memory::new(100_000);
        let (mut a, mut b) = (memory.lease(), memory.lease());
        assert_eq!((a.cover(60_000), b.cover(50_000)), (Ok(()), Err(MemoryFull)));
        assert_eq!((memory.used(), b.bytes()), (60_000, 0), "what was refused took nothing");
        assert_eq!((b.cover(40_000), a.cover(60_000), a.cover(60_001)), (Ok(()), Ok(()), Err(MemoryFull)));
        drop(b);
        assert_eq!((a.cover(60_001), memory.used()), (Ok(()), 60_000 + STEP));
        a.settle(7);
        assert!(memory.used() == 7 && memory.has_room(99_993) && !memory.has_room(99_994));
        drop(a);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_lease_lasts_as_long_as_its_bytes() {
        let memory = Memory::new(1 << 20);
        let mut lease = memory.lease();
        lease.cover(10_000).unwrap();
        let bytes = lease.hold(vec![b'x'; 10_000]);
        let slice = bytes.slice(5..9);
        drop(bytes);
        assert_eq!((memory.used(), &slice[..]), (10_000, &b"xxxx"[..]));
        drop(slice);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn what_clients_hold_is_a_part_of_what_is_used() {
        let memory = Memory::new(10_000);
        let (a, b) = (ClientLease::new(&memory), ClientLease::new(&memory));
        let mut body = memory.lease();
        body.cover(5_000).unwrap();
        a.grow(3_000);
        b.grow(4_000);
        assert_eq!((memory.used(), memory.clients(), memory.clients_max()), (12_000, 7_000, 2_500));
        assert_eq!(body.cover(5_001), Err(MemoryFull), "bodies have no room either");
        a.shrink(1_000);
        drop(b);
        assert_eq!((memory.used(), memory.clients(), a.bytes()), (7_000, 2_000, 2_000));
        drop((a, body));
        assert_eq!((memory.used(), memory.clients()), (0, 0));
    }

    #[test]
    fn a_smaller_budget_waits_for_what_is_leased() {
        let memory = Memory::new(10_000);
        let mut lease = memory.lease();
        lease.cover(9_000).unwrap();
        memory.resize(5_000);
        assert_eq!((memory.lease().cover(1), lease.cover(9_000)), (Err(MemoryFull), Ok(())));
        assert_eq!(memory.lease().cover(usize::MAX), Err(MemoryFull));
    }
}
