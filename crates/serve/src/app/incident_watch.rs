//! Watches for incidents: takes the attempts that the recorder hands on, every few seconds, and reports what begins and ends to the history,
//! the log, the metrics and the webhook. It also reports budgets that come near their ends.
//!
//! `estimate::incident` has the rules. No decision depends on it, and no request waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::duty;
use super::webhook::{self, Webhook};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::StoreAddress;
use photofinish_facts::estimate::incident::{IncidentChange, IncidentStep, IncidentWatch};
use photofinish_gateway::proxy::{Gateway, LimitedCounts};
use photofinish_history::recorder::Recorder;
use photofinish_history::report::incidents::{name, resume, usual, words};
use photofinish_limits::{BudgetWarning, UsageBook};

/// From one check to the next.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// From one reading of what is usual to the next.
const READ_EVERY: Duration = Duration::from_secs(3_600);
/// The same after one that failed.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// The task.
struct IncidentTask {
    watch: IncidentWatch,
    store: StoreAddress,
    recorder: Recorder,
    webhook: Webhook,
    shutdown: Shutdown,
    /// When it began to take attempts; microseconds since 1970, UTC.
    began_us: i64,
    /// It knows what was open and what was asked before.
    is_resumed: bool,
    /// What began before `began_us` comes with the rows of the history: until the first check after them.
    has_rows_to_come: bool,
    read_at: Instant,
    /// The last reading failed.
    failed: bool,
    /// Of several gateways on one database, this one reports.
    is_ours: bool,
}

/// Runs until the gateway drains.
pub(super) async fn watch(store: StoreAddress, gateway: Arc<Gateway>, recorder: Recorder) {
    let (webhook, calls) = webhook::new();
    let mut task = IncidentTask::new(store, recorder, webhook, gateway.shutdown().clone(), wall_micros());
    let shutdown = task.shutdown.clone();
    let mut draining = std::pin::pin!(shutdown.draining());
    let mut posting = std::pin::pin!(webhook::run(calls, &gateway));
    loop {
        tokio::select! {
            () = &mut draining => return,
            () = &mut posting => return,
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        if let Some(is_ours) = duty::is_ours(&shutdown, &task.store, "incidents").await {
            task.take_duty(is_ours, wall_micros());
        }
        if task.read().await.is_none() {
            return;
        }
        task.check(wall_micros(), &gateway.open_breakers());
        task.warn(gateway.usage(), &gateway.totals().near_end);
    }
}

impl IncidentTask {
    fn new(store: StoreAddress, recorder: Recorder, webhook: Webhook, shutdown: Shutdown, now_us: i64) -> IncidentTask {
        // From now on they are kept.
        drop(recorder.attempts());
        let (watch, read_at) = (IncidentWatch::default(), Instant::now());
        let is_ours = !store.is_server();
        IncidentTask {
            watch,
            store,
            recorder,
            webhook,
            shutdown,
            began_us: now_us,
            is_resumed: false,
            has_rows_to_come: true,
            read_at,
            failed: false,
            is_ours,
        }
    }

    /// Whether this gateway reports from now on. One that begins to goes on with what the one before it reported.
    fn take_duty(&mut self, is_ours: bool, now_us: i64) {
        if is_ours && !self.is_ours {
            drop(self.recorder.attempts());
            self.watch = IncidentWatch::default();
            (self.began_us, self.is_resumed, self.read_at) = (now_us, false, Instant::now());
            self.has_rows_to_come = true;
        }
        self.is_ours = is_ours;
    }

    /// Reads what is usual, if that is due; at first also what was before. None once the gateway drains.
    async fn read(&mut self) -> Option<()> {
        if Instant::now() < self.read_at {
            return Some(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (recorder, store, stopped) = (self.recorder.clone(), self.store.clone(), stop.clone());
        let (mut watch, is_resumed, began_us) = (std::mem::take(&mut self.watch), self.is_resumed, self.began_us);
        let reading = self.shutdown.run_blocking(move || {
            let reader = recorder.read_history(&store).map_err(|error| error.to_string());
            let read = reader.and_then(|reader| {
                let reader = reader.stopped_by(stopped);
                watch.compare_with(usual(&reader, wall_micros()).map_err(|error| error.to_string())?);
                let resumed = if is_resumed { Ok(()) } else { resume(&reader, &mut watch, began_us) };
                resumed.map_err(|error| error.to_string())
            });
            (watch, read)
        });
        let read = tokio::select! {
            biased;
            () = self.shutdown.draining() => {
                stop.store(true, Relaxed);
                return None;
            }
            read = reading => read,
        };
        let read = read.map_err(|error| error.to_string()).and_then(|(watch, read)| {
            self.watch = watch;
            read
        });
        if let Some(error) = read.as_ref().err().filter(|_| !self.failed) {
            tracing::warn!(%error, "cannot read what is usual for the upstreams: incidents are found later, or by older figures");
        }
        self.failed = read.is_err();
        self.is_resumed |= read.is_ok();
        self.read_at = Instant::now() + if self.failed { READ_AGAIN } else { READ_EVERY };
        Some(())
    }

    /// Takes what came, and reports what changed.
    fn check(&mut self, now_us: i64, open_breakers: &BTreeSet<String>) {
        self.watch.advance(now_us);
        let since_us = if self.has_rows_to_come { self.began_us } else { i64::MIN };
        for (upstream, attempt) in self.recorder.attempts().into_iter().filter(|(_, attempt)| attempt.at_us >= since_us)
        {
            self.watch.see(&upstream, &attempt);
        }
        self.has_rows_to_come = !self.is_resumed;
        if !self.is_resumed {
            // An incident that is known already must not begin again.
            return;
        }
        for change in self.watch.check(open_breakers).into_iter().filter(|_| self.is_ours) {
            self.report(change, now_us);
        }
        let open = self.watch.open().filter_map(|open| Some((open.upstream.clone()?, open.kind)));
        self.recorder.metrics().current_incidents(open.collect());
    }

    /// Reports the budgets that came near their ends.
    fn warn(&self, book: &UsageBook, counts: &LimitedCounts) {
        for warning in book.take_warnings() {
            let BudgetWarning { level, near } = &warning;
            counts.count(level, near.calendar.budget());
            tracing::warn!(%level, budget = near.calendar.as_str(), "a budget comes near its end: {near}");
            self.webhook.warn(&warning);
        }
    }

    fn report(&self, IncidentChange { step, incident }: IncidentChange, now_us: i64) {
        let (upstream, kind) = (name(&incident), incident.kind.as_str());
        match step {
            IncidentStep::Begun => {
                if let Some(upstream) = &incident.upstream {
                    self.recorder.metrics().incident(upstream, incident.kind);
                }
                tracing::warn!(upstream, kind, "an incident: {}", words(&incident, now_us));
                self.webhook.enqueue("begun", &incident, now_us);
            }
            IncidentStep::Ended => {
                tracing::info!(upstream, kind, "an incident is over: {}", words(&incident, now_us));
                self.webhook.enqueue("ended", &incident, now_us);
            }
            IncidentStep::GoesOn => {}
        }
        self.recorder.incident(incident);
    }
}

#[cfg(test)]
mod tests;
