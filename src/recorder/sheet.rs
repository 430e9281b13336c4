//! Keeps the rows of one race together until all of them are there, and then puts them into the queue.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::QUEUE_MAX;
use super::state::State;
use crate::store::Record;

/// Shared by everything of one race that records. Whoever drops it last sends it: by then nothing can come any more.
pub(super) struct Sheet {
    rows: Mutex<Vec<Record>>,
    queue: Queue,
}

impl Sheet {
    pub(super) fn new(queue: Queue) -> Sheet {
        Sheet { rows: Mutex::default(), queue }
    }

    pub(super) fn add(&self, record: Record) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        let rows = self.rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !rows.is_empty() {
            self.queue.send(std::mem::take(rows));
        }
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
