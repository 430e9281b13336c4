//! Keeps the rows of one race together until all of them are there, and then puts them into the queue.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::QUEUE_MAX;
use super::onlooker::Onlooker;
use super::state::State;
use crate::routing::bill::{self, Bill};
use crate::store::Record;

/// Shared by everything of one race that records. Whoever drops it last sends it: by then nothing can come any more.
pub(super) struct Sheet {
    kept: Mutex<Kept>,
    /// None where nothing is to be stored.
    queue: Option<Queue>,
    onlooker: Option<Arc<dyn Onlooker>>,
}

#[derive(Default)]
struct Kept {
    rows: Vec<Record>,
    /// By ordinal: what each attempt is billed by.
    bills: Vec<(i64, Bill)>,
}

impl Sheet {
    pub(super) fn new(queue: Option<Queue>, onlooker: Option<Arc<dyn Onlooker>>) -> Sheet {
        Sheet { kept: Mutex::default(), queue, onlooker }
    }

    pub(super) fn add(&self, record: Record) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).rows.push(record);
    }

    pub(super) fn bill(&self, ordinal: i64, bill: Bill) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).bills.push((ordinal, bill));
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        let Kept { mut rows, bills } = std::mem::take(self.kept.get_mut().unwrap_or_else(PoisonError::into_inner));
        if rows.is_empty() {
            return;
        }
        settle(&mut rows, &bills);
        if let Some(onlooker) = &self.onlooker {
            onlooker.settled(&rows);
        }
        if let Some(queue) = &self.queue {
            queue.send(rows);
        }
    }
}

/// What each attempt cost at least and at most: known once all of them are over.
fn settle(rows: &mut [Record], bills: &[(i64, Bill)]) {
    let (mut race, mut attempts) = (None, Vec::with_capacity(bills.len()));
    for row in rows {
        match row {
            Record::Race(record) => race = Some(&**record),
            Record::Attempt(record) => {
                if let Some((_, bill)) = bills.iter().find(|(ordinal, _)| *ordinal == record.ordinal) {
                    attempts.push((&mut **record, *bill));
                }
            }
        }
    }
    if let Some(race) = race {
        bill::settle(race, &mut attempts);
    }
}

/// The way to the writer, for rows that belong together. Bounded by rows.
#[derive(Clone)]
pub(super) struct Queue {
    pub sender: mpsc::Sender<Vec<Record>>,
    pub state: Arc<State>,
}

impl Queue {
    /// Never waits.
    pub(super) fn send(&self, rows: Vec<Record>) {
        let count = rows.len();
        // Counted before they are sent, so that the writer never takes off what was not added.
        let before = self.state.add(count);
        if before + count <= QUEUE_MAX && self.sender.try_send(rows).is_ok() {
            return;
        }
        self.state.lose(count);
        if self.state.overflow.is_due() {
            let dropped = self.state.dropped();
            tracing::error!(dropped, "the record queue is full: rows of the history are lost");
        }
    }
}
