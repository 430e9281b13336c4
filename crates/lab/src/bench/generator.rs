//! Sends the requests of a block: users who wait for their answers (closed loop), or arrivals at times that were drawn before
//! (open loop). Nothing moves or drops an arrival silently: one that finds too many in flight is counted as dropped, and how
//! late each request left is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::block::{BlockPlan, BlockResult, BlockStop, Load, LoadTarget, Progress};
use super::client::{LoadAnswer, LoadClient, Sending};
use super::measured::{MeasuredRequest, RequestEnd};
use super::prompt::{LoadSession, Prompt, PromptMaker};
use super::spend::{Reservation, Spend};
use super::trust::Heartbeat;
use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::shutdown::Shutdown;
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::record::{RaceSource, RequestOrigin};

/// A thread sleeps to this long before an arrival and then watches the clock: a sleep ends late by about that.
const SPIN: Duration = Duration::from_micros(80);
/// From one look at a running block to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A block ends when this many of its first requests failed and none was answered.
const FAILURES_AT_FIRST: usize = 10;
/// A block also ends when this number, and this share, of its requests were rate limited.
const LIMITED_LEAST: usize = 10;
const LIMITED_SHARE: f64 = 0.2;
/// How long the rows of a request are awaited after its block has ended early: losers may run on to be audited.
const ROWS_AFTER_END_FOR: Duration = Duration::from_secs(3);
/// How long the rows of a block are awaited before the next.
const WRITTEN_FOR: Duration = Duration::from_secs(5);

/// Sends blocks, one after the other, through one gateway.
#[derive(Clone)]
pub struct Generator(Arc<Sending>);

/// One block while it runs.
struct RunningBlock {
    sending: Arc<Sending>,
    target: LoadTarget,
    begun: Instant,
    /// Arrivals, not users.
    is_open: bool,
    /// Prompts taken so far.
    taken: AtomicU64,
    /// Sessions begun so far.
    sessions: AtomicU64,
    first: u64,
    most: u64,
    until: Instant,
    in_flight: AtomicUsize,
    ended: Mutex<Vec<MeasuredRequest>>,
    stop: Mutex<Option<BlockStop>>,
    is_over: AtomicBool,
    issued_us: AtomicU64,
    tasks: Shutdown,
}

/// A request counts as in flight until this is dropped.
struct InFlight {
    block: Arc<RunningBlock>,
    /// Dropping it wakes the task that waits for the answer.
    _answered: Option<oneshot::Sender<()>>,
}

impl InFlight {
    fn new(block: &Arc<RunningBlock>, answered: Option<oneshot::Sender<()>>) -> InFlight {
        block.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { block: Arc::clone(block), _answered: answered }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.block.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Generator {
    pub fn new(
        client: LoadClient,
        prompts: PromptMaker,
        spend: Spend,
        members: Map<String, Value>,
        run_id: String,
    ) -> Generator {
        Generator(Arc::new(Sending::new(client, prompts, spend, members, run_id)))
    }

    pub fn prompts(&self) -> &PromptMaker {
        &self.0.prompts
    }

    pub fn spend(&self) -> &Spend {
        &self.0.spend
    }

    /// What all requests cost so far.
    pub fn cost(&self) -> CostSum {
        self.0.cost()
    }

    /// USD of the request with this number, if the server keeps to its bounds.
    pub fn estimate(&self, number: u64, target: &LoadTarget) -> f64 {
        self.0.estimate(&self.0.prompt(number, target), target)
    }

    /// Runs the block to its end. `watch` sees it every 100 ms and ends it by saying false: requests in flight are then
    /// cancelled.
    pub async fn run(
        &self,
        target: &LoadTarget,
        plan: &BlockPlan,
        watch: &mut (dyn FnMut(Progress<'_>) -> bool + Send),
    ) -> BlockResult {
        // Writing them would take the processor from what is measured.
        let recorder = self.0.client.recorder();
        let held = recorder.hold();
        let begun = Instant::now();
        let block = Arc::new(RunningBlock {
            sending: Arc::clone(&self.0),
            target: target.clone(),
            begun,
            taken: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            is_open: matches!(plan.load, Load::Rate { .. }),
            first: plan.first,
            most: plan.requests as u64,
            until: begun + plan.duration,
            in_flight: AtomicUsize::new(0),
            ended: Mutex::default(),
            stop: Mutex::default(),
            is_over: AtomicBool::new(false),
            issued_us: AtomicU64::new(0),
            tasks: Shutdown::new(),
        });
        let watching = Shutdown::new();
        let heartbeat = Heartbeat::start(&watching);
        match plan.load {
            Load::Users(users) => block.start_users(users, plan.ramp),
            Load::Rate { per_second, arrivals } => {
                let times = arrivals.draw(per_second, plan.duration, plan.requests, plan.seed);
                block.start_arrivals(times, plan.in_flight_max);
            }
        }
        while !block.tasks.finished(LOOK_EVERY).await {
            let progress = Progress {
                elapsed: begun.elapsed(),
                in_flight: block.in_flight.load(Ordering::Relaxed),
                client: heartbeat.so_far(),
                ended: block.ended.lock().unwrap_or_else(PoisonError::into_inner),
            };
            if !block.tasks.is_cancelled() && (block.is_hopeless() || !watch(progress)) {
                block.end(BlockStop::Decided);
                block.tasks.cancel();
            }
        }
        let client = heartbeat.stop().await;
        drop(held);
        recorder.until_written(WRITTEN_FOR).await;
        let mut requests = std::mem::take(&mut *block.ended.lock().unwrap_or_else(PoisonError::into_inner));
        requests.sort_by_key(|request| (request.scheduled_us, request.number));
        let stop = block.stop.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let issued_us = i64::try_from(block.issued_us.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        BlockResult { load: plan.load, requests, issued_us, stop, client }
    }
}

impl RunningBlock {
    fn now_us(&self) -> i64 {
        micros_between(self.begun, Instant::now())
    }

    /// Nothing more is sent. The first reason counts.
    fn end(&self, stop: BlockStop) {
        let mut first = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_over.swap(true, Ordering::Relaxed) {
            *first = Some(stop);
        }
    }

    /// It is over, and what is in flight is not worth waiting for. What the cap ended is: it is paid for.
    fn is_hopeless(&self) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_over.load(Ordering::Relaxed) && stop.as_ref().is_some_and(|stop| !stop.is_of_money())
    }

    /// Whether no more is sent.
    fn is_done(&self) -> bool {
        let is_over = self.is_over.load(Ordering::Relaxed) || Instant::now() >= self.until;
        is_over || self.taken.load(Ordering::Relaxed) >= self.most
    }

    /// The number of the next prompt; none if all are taken or the time is over.
    fn take(&self) -> Option<u64> {
        if self.is_done() {
            return None;
        }
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        (taken < self.most).then_some(self.first + taken)
    }

    fn prompt(&self, number: u64) -> Prompt {
        self.sending.prompt(number, &self.target)
    }

    /// The next request of a user, in a session after the pause of its turn; none: this user has no more. The first user
    /// without another session ends the window, because from here on fewer would ask.
    async fn next(&self, session: &mut Option<LoadSession>) -> Option<(u64, Prompt)> {
        let prompts = &self.sending.prompts;
        if !prompts.has_sessions() {
            let number = self.take()?;
            return Some((number, self.prompt(number)));
        }
        let pause = match session.as_ref().and_then(LoadSession::pause) {
            Some(pause) => pause,
            None => {
                let which = self.sessions.fetch_add(1, Ordering::Relaxed);
                *session = prompts.session(which, self.first, self.target.lane);
                self.is_over.fetch_or(session.is_none(), Ordering::Relaxed);
                Duration::ZERO
            }
        };
        let due = Instant::now() + pause;
        while Instant::now() < due && !self.is_done() {
            tokio::time::sleep(due.duration_since(Instant::now()).min(LOOK_EVERY)).await;
        }
        let number = self.take()?;
        Some((number, self.sending.turn(session.as_mut()?, number, &self.target)?))
    }

    fn start_users(self: &Arc<Self>, users: usize, ramp: Duration) {
        for user in 0..users {
            let (block, wait) = (Arc::clone(self), ramp.mul_f64(user as f64 / users as f64));
            self.tasks.spawn(async move {
                let cancelled = block.tasks.cancelled();
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = cancelled => return,
                }
                let mut session = None;
                while let Some((number, prompt)) = block.next(&mut session).await {
                    let (sender, answered) = oneshot::channel();
                    let (asking, in_flight) = (Arc::clone(&block), InFlight::new(&block, Some(sender)));
                    let at = block.now_us();
                    // In this task: another one would wait for its turn first.
                    let mut asked = Box::pin(async move { asking.ask(number, prompt, at, in_flight).await });
                    // It asks again once it is answered, not once its rows are there: losers may still run.
                    tokio::select! {
                        biased;
                        () = &mut asked => {}
                        _ = answered => drop(block.tasks.spawn(asked)),
                    }
                }
            });
        }
    }

    /// A thread of its own waits for each arrival: a timer of tokio is late by up to a millisecond.
    fn start_arrivals(self: &Arc<Self>, times: Vec<i64>, in_flight_max: usize) {
        let block = Arc::clone(self);
        self.tasks.run_blocking(move || {
            for (number, at) in (block.first..).zip(times) {
                // Made before it is due, so that the work is no part of the lag.
                let prompt = block.prompt(number);
                if !block.wait_until(at) {
                    return;
                }
                block.issued_us.store(u64::try_from(at).unwrap_or(0), Ordering::Relaxed);
                if block.in_flight.load(Ordering::Relaxed) >= in_flight_max {
                    let (scheduled_us, sent_us, ended_us) = (at, at, at);
                    let end = RequestEnd::Dropped;
                    let dropped =
                        MeasuredRequest { number, scheduled_us, sent_us, ended_us, end, ..Default::default() };
                    block.ended.lock().unwrap_or_else(PoisonError::into_inner).push(dropped);
                    continue;
                }
                let (asking, in_flight) = (Arc::clone(&block), InFlight::new(&block, None));
                block.tasks.spawn(async move { asking.ask(number, prompt, at, in_flight).await });
            }
        });
    }

    /// Whether the block still runs at that time.
    #[expect(clippy::disallowed_methods, reason = "on a thread of its own")]
    fn wait_until(&self, at_us: i64) -> bool {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            let left = Duration::from_micros(u64::try_from(at_us - self.now_us()).unwrap_or(0));
            if left.is_zero() {
                return true;
            }
            match left.checked_sub(SPIN) {
                Some(sleep) => std::thread::sleep(sleep.min(LOOK_EVERY)),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Sends one request. It is in flight until its answer has ended; its rows may come later.
    async fn ask(&self, number: u64, prompt: Prompt, scheduled_us: i64, in_flight: InFlight) {
        let estimate = self.sending.estimate(&prompt, &self.target);
        let Some(reservation) = self.set_aside(estimate).await else { return };
        let (target, client, at_us) = (&self.target, &self.sending.client, self.now_us());
        self.issued_us.fetch_max(u64::try_from(at_us).unwrap_or(0), Ordering::Relaxed);
        // What is left of the block, and then as long as an answer may need.
        let within = self.until.saturating_duration_since(Instant::now()) + self.sending.patience(&prompt);
        let asked =
            client.ask(&target.model, prompt.members, target.headers.clone(), self.origin(scheduled_us), within);
        let cancelled = self.tasks.cancelled();
        let (LoadAnswer { race_id, said }, was_cut) = tokio::select! {
            biased;
            answer = asked => (answer, false),
            () = cancelled => (LoadAnswer { race_id: None, said: None }, true),
        };
        drop(in_flight);
        let too_late = async {
            self.tasks.cancelled().await;
            tokio::time::sleep(ROWS_AFTER_END_FOR).await;
        };
        let measured = match &race_id {
            Some(race_id) => tokio::select! {
                measured = client.measured(race_id) => measured,
                () = too_late => None,
            },
            None => None,
        };
        let measured = match measured {
            Some(measured) => MeasuredRequest { number, said, ..measured.scheduled_at(scheduled_us) },
            None => MeasuredRequest {
                number,
                scheduled_us,
                sent_us: at_us,
                ended_us: self.now_us(),
                end: if was_cut { RequestEnd::CutShort } else { RequestEnd::Failed },
                failure: (!was_cut).then_some("no_row"),
                // It was billed for what was written until it was cut: as if it had kept to its bounds.
                cost: CostSum::of([Cost::between(0.0, Some(estimate))]),
                ..MeasuredRequest::default()
            },
        };
        reservation.settle(measured.cost.max_usd().unwrap_or_else(|| estimate.max(measured.cost.least_usd())));
        if let Some(tokens) = measured.input_tokens {
            self.sending.prompts.counted(&target.name, prompt.bytes, tokens - prompt.template_tokens);
        }
        self.take_result(measured);
    }

    fn origin(&self, scheduled_us: i64) -> RequestOrigin {
        RequestOrigin {
            source: RaceSource::Bench,
            run_id: Some(self.sending.run_id.clone()),
            workload: Some(self.sending.prompts.workload().name.clone()),
            scheduled: Some(self.begun + Duration::from_micros(u64::try_from(scheduled_us).unwrap_or(0))),
        }
    }

    /// Money for a request. A user waits while that of others is in the way; an arrival would be sent later than it was drawn, so
    /// the block ends. None: it is not sent.
    async fn set_aside(&self, estimate: f64) -> Option<Reservation<'_>> {
        let spend = &self.sending.spend;
        if let Some(reservation) = spend.reserve(estimate) {
            return Some(reservation);
        }
        if self.is_open && spend.is_enough_for(estimate) {
            self.end(BlockStop::Uncovered);
            return None;
        }
        if spend.is_enough_for(estimate) {
            // It goes on, with fewer at once than asked for.
            self.stop.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(BlockStop::Uncovered);
        }
        let cancelled = self.tasks.cancelled();
        let reservation = tokio::select! {
            reservation = spend.reserve_in_turn(estimate) => reservation,
            () = cancelled => return None,
        };
        if reservation.is_none() {
            self.end(BlockStop::Spent);
        }
        reservation.filter(|_| !self.is_over.load(Ordering::Relaxed) && Instant::now() < self.until)
    }

    fn take_result(&self, measured: MeasuredRequest) {
        self.sending.costs(&measured.cost);
        if measured.is_answered() {
            self.sending.took(measured.ended_us - measured.sent_us);
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push(measured);
        let is = |end: RequestEnd| ended.iter().filter(|request| request.end == end).count();
        let last = &ended[ended.len() - 1];
        match last.end {
            RequestEnd::RateLimited => {
                let limited = is(RequestEnd::RateLimited);
                if limited >= LIMITED_LEAST && limited as f64 > LIMITED_SHARE * ended.len() as f64 {
                    self.end(BlockStop::RateLimited);
                }
            }
            RequestEnd::Failed if ended.len() == FAILURES_AT_FIRST && is(RequestEnd::Failed) == ended.len() => {
                self.end(BlockStop::Failing(last.failure.unwrap_or("failed")));
            }
            _ => {}
        }
    }
}
