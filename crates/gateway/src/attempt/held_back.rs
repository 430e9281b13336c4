//! Events that were read during a hold, in order and within a bound.

use std::collections::VecDeque;

use super::item::StreamItem;

/// Bytes that are read ahead during a hold, including the size of each item; beyond that reading waits.
const READ_AHEAD_MAX: usize = 256 << 10;

#[derive(Default)]
pub struct HeldBack {
    items: VecDeque<StreamItem>,
    bytes: usize,
}

impl HeldBack {
    pub fn is_full(&self) -> bool {
        self.bytes >= READ_AHEAD_MAX
    }

    pub fn push(&mut self, item: StreamItem) {
        self.bytes += cost(&item);
        self.items.push_back(item);
    }

    pub fn pop(&mut self) -> Option<StreamItem> {
        let item = self.items.pop_front()?;
        self.bytes -= cost(&item);
        Some(item)
    }
}

fn cost(item: &StreamItem) -> usize {
    item.raw.len() + size_of::<StreamItem>()
}
