//! The tables of what is kept, shared by all requests. Not for what is done with it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::proxy::state::kept::{Found, Kept, StateOwner, StoredResponse};
use crate::proxy::state::table::{BoundedTable, TableLimits};
use photofinish_base::clock::Instant;
use photofinish_base::memory::{Lease, Memory};
use photofinish_config::StoredLimits;
use photofinish_dialects::responses::stored::StoredAnswer;

/// Which upstream made what: at most these bytes, some 25,000 ids.
const OWNERS: TableLimits = TableLimits { kept_for: Duration::from_secs(30 * 86_400), bytes: 16 << 20 };
/// Answers take at most one part in four of all memory, whatever `stored` allows.
const MEMORY_SHARE: usize = 4;
/// Owners of one id: callers, and upstreams that number what they make.
const OWNERS_MAX: usize = 16;
/// Bytes of the id of an answer that is looked up. Vendors use some 50.
const ID_MAX: usize = 128;

/// Shared by all requests; a reload keeps it.
pub struct StoredState {
    pub memory: Memory,
    limits: Mutex<StoredLimits>,
    here: Mutex<KeptHere>,
    owners: Mutex<BoundedTable<Vec<StateOwner>>>,
}

/// The table of what is kept whole, with the memory for it.
struct KeptHere {
    table: BoundedTable<Kept>,
    lease: Lease,
}

impl StoredState {
    pub fn new(memory: Memory, limits: StoredLimits) -> StoredState {
        let here = Mutex::new(KeptHere { table: BoundedTable::default(), lease: memory.lease() });
        StoredState { memory, limits: Mutex::new(limits), here, owners: Mutex::default() }
    }

    /// Drops what is too old or too much.
    pub fn trim(&self) {
        self.here(|table| table.trim(self.limits(), Instant::now()));
    }

    /// Of a new configuration.
    pub fn resize(&self, limits: StoredLimits) {
        *lock(&self.limits) = limits;
        self.trim();
    }

    /// Bytes of all that is kept whole.
    pub fn bytes(&self) -> usize {
        lock(&self.here).table.bytes()
    }

    fn here<T>(&self, act: impl FnOnce(&mut BoundedTable<Kept>) -> T) -> T {
        let here = &mut *lock(&self.here);
        let done = act(&mut here.table);
        here.lease.settle(here.table.bytes());
        done
    }

    fn limits(&self) -> TableLimits {
        let StoredLimits { kept_for, size } = *lock(&self.limits);
        TableLimits { kept_for, bytes: size.min(self.memory.max() / MEMORY_SHARE) }
    }

    /// Answers are kept at all.
    pub fn is_on(&self) -> bool {
        lock(&self.limits).size > 0
    }

    pub fn get<T>(&self, caller: u64, id: &str, read: impl FnOnce(&Kept) -> Option<T>) -> Option<T> {
        if id.len() > ID_MAX {
            return None;
        }
        self.here(|table| table.get(&key(caller, id), self.limits(), Instant::now()).and_then(read))
    }

    /// False: there is no room for it.
    pub fn put(&self, caller: u64, id: &str, kept: Kept, bytes: usize) -> bool {
        let fits = id.len() <= ID_MAX && self.memory.has_room(bytes);
        fits && self.here(|table| table.put((caller, key(caller, id)), kept, bytes, self.limits(), Instant::now()))
    }

    /// Changes an entry, if it is there, exclusively. None: there is no room for what became of it, or `change` has none.
    pub fn change<T>(
        &self,
        caller: u64,
        id: &str,
        change: impl FnOnce(&Kept) -> Option<(Kept, usize, T)>,
    ) -> Option<T> {
        let (key, limits, now) = (key(caller, id), self.limits(), Instant::now());
        self.here(|table| {
            let (kept, bytes, result) = table.get(&key, limits, now).and_then(change)?;
            (self.memory.has_room(bytes) && table.put((caller, key), kept, bytes, limits, now)).then_some(result)
        })
    }

    /// Really drops it.
    pub fn remove(&self, caller: u64, id: &str) -> Option<Kept> {
        self.here(|table| table.remove(&key(caller, id)))
    }

    pub fn response(&self, caller: u64, id: &str) -> Option<Arc<StoredResponse>> {
        self.get(caller, id, |kept| match kept {
            Kept::Response(response) => Some(response.clone()),
            Kept::Item(_) | Kept::Conversation(_) => None,
        })
    }

    /// Drops a response with the places of its items.
    pub fn forget(&self, caller: u64, response: &StoredResponse, id: &str) {
        self.remove(caller, id);
        item_ids(response).iter().for_each(|id| drop(self.remove(caller, id)));
    }

    /// A response and all that it continues, the newest first. Its items are used with it. None: one of them is not here, or they go
    /// round in a circle.
    pub fn chain(&self, caller: u64, id: &str) -> Option<Vec<Arc<StoredResponse>>> {
        let (mut chain, mut seen, mut next) = (Vec::new(), HashSet::new(), Some(id.to_owned()));
        while let Some(id) = next {
            let response = self.response(caller, &id)?;
            next = response.previous.clone();
            for item in item_ids(&response) {
                self.get(caller, &item, |_| Some(()));
            }
            chain.push(response);
            if !seen.insert(id) {
                return None;
            }
        }
        Some(chain)
    }

    /// The items up to the end of this response, the oldest first, as JSON texts without brackets.
    pub fn items_until(&self, caller: u64, id: &str) -> Option<Vec<Bytes>> {
        let chain = self.chain(caller, id)?;
        Some(chain.iter().rev().flat_map(|response| [response.input.clone(), response.output()]).collect())
    }

    /// One item of an answer.
    pub fn item(&self, caller: u64, id: &str) -> Option<Bytes> {
        let response = self.get(caller, id, |kept| match kept {
            Kept::Item(response) => Some(response.clone()),
            Kept::Response(_) | Kept::Conversation(_) => None,
        })?;
        let response = self.response(caller, &response)?;
        let answer = StoredAnswer::read(&response.answer)?;
        let item = answer.items().find(|(item, _)| item == id)?.1;
        Some(response.answer.slice_ref(item.as_bytes()))
    }

    /// Where this is: `here` looks for it among what is kept whole.
    pub fn find<T>(&self, caller: u64, id: &str, here: impl FnOnce() -> Option<T>) -> Found<T> {
        if let Some(found) = here() {
            return Found::Here(found);
        }
        let mut owners = lock(&self.owners);
        let Some(all) = owners.get(id, OWNERS, Instant::now()) else { return Found::Unknown };
        let own: Vec<StateOwner> = all.iter().filter(|owner| owner.caller == caller).cloned().collect();
        if own.is_empty() { Found::Foreign } else { Found::At(own) }
    }

    /// An upstream made it. Another that made the same id stays, and so does another caller.
    pub fn owned(&self, id: &str, owner: &StateOwner) {
        if id.len() > ID_MAX {
            return;
        }
        let (mut owners, now) = (lock(&self.owners), Instant::now());
        let others = owners.get(id, OWNERS, now).map(Vec::as_slice).unwrap_or_default();
        let others = others.iter().filter(|other| (other.caller, &other.upstream) != (owner.caller, &owner.upstream));
        let all: Vec<StateOwner> = [owner].into_iter().chain(others).take(OWNERS_MAX).cloned().collect();
        let bytes = all.iter().map(StateOwner::bytes).sum();
        owners.put((owner.caller, id.to_owned()), all, bytes, OWNERS, now);
    }
}

fn item_ids(response: &StoredResponse) -> Vec<String> {
    let answer = StoredAnswer::read(&response.answer);
    answer.iter().flat_map(StoredAnswer::items).map(|(id, _)| id.into_owned()).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ids of two callers never meet.
fn key(caller: u64, id: &str) -> String {
    format!("{caller:x}/{id}")
}
