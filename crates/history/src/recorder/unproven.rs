//! The batches that were written and not read back yet. They stay in memory, so that damage to the database costs none of
//! them.
//!
//! Not for rows that wait to be written: those are in the queue or in the spill file.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::Record;

/// From the first write after a look to the next look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Rows, a few MB, at which the next look comes at once. If it cannot tell, the oldest are let go.
const UNPROVEN_MAX: usize = 8_192;

#[derive(Default)]
pub(super) struct Unproven {
    /// The file that they were written to: see [`crate::store::Store::files`].
    pub files: u64,
    batches: Vec<Arc<Vec<Record>>>,
    look_at: Option<Instant>,
}

impl Unproven {
    pub fn in_file(files: u64) -> Unproven {
        Unproven { files, ..Unproven::default() }
    }

    pub fn add(&mut self, batch: &Arc<Vec<Record>>) {
        if !batch.is_empty() {
            self.batches.push(Arc::clone(batch));
            self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
    }

    /// When to read them back. None: there are none.
    pub fn look_at(&self) -> Option<Instant> {
        if self.rows() >= UNPROVEN_MAX { Some(Instant::now()) } else { self.look_at }
    }

    pub fn batches(&self) -> Vec<Arc<Vec<Record>>> {
        self.batches.clone()
    }

    /// Takes all of them out: they are proven, or to be written again.
    pub fn take(&mut self) -> Vec<Arc<Vec<Record>>> {
        self.look_at = None;
        std::mem::take(&mut self.batches)
    }

    /// A look could not tell, or has more to do: the next one comes even if no row does.
    pub fn not_now(&mut self) {
        while self.rows() >= UNPROVEN_MAX {
            self.batches.remove(0);
        }
        self.look_at = Some(Instant::now() + LOOK_EVERY);
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample;

    fn batch(rows: usize) -> Arc<Vec<Record>> {
        Arc::new(vec![Record::Race(Box::new(sample::race(0))); rows])
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_read_back_soon_and_many_at_once() {
        let (mut unproven, now) = (Unproven::default(), Instant::now());
        unproven.add(&batch(0));
        assert_eq!(unproven.look_at(), None);
        unproven.add(&batch(1));
        tokio::time::advance(LOOK_EVERY / 2).await;
        unproven.add(&batch(1));
        assert_eq!(unproven.look_at(), Some(now + LOOK_EVERY), "further rows do not put it off");
        unproven.add(&batch(UNPROVEN_MAX - 2));
        assert_eq!(unproven.look_at(), Some(Instant::now()));
        unproven.not_now();
        assert_eq!((unproven.rows(), unproven.look_at()), (UNPROVEN_MAX - 1, Some(Instant::now() + LOOK_EVERY)));
        assert_eq!((unproven.take().len(), unproven.look_at()), (2, None));
    }
}
