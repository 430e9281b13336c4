//! One run of `bench`: the gateway, the calibration, a first request of each target, the stages or the search, and what they
//! show. Not for the decisions of a search: see `photofinish_lab::bench::search`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use super::live::{LiveView, StageTitle};
use super::plan::{BenchPlan, Levels};
use super::record;
use super::target::BenchTargets;
use crate::cli::check::live;
use crate::cli::outcome::WrongUse;
use photofinish_base::clock::{Instant, SECOND_US, micros_between};
use photofinish_base::failure::FailureKind;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{self as config, Keys, UpstreamConfig};
use photofinish_facts::estimate::cost::Cost;
use photofinish_lab::bench::block::ARRIVALS_MAX;
use photofinish_lab::bench::measured::{MeasuredRequest, RequestEnd};
use photofinish_lab::bench::prompt::{PromptMaker, SessionSource, Workload};
use photofinish_lab::bench::result::{self, RunResult};
use photofinish_lab::bench::search::{self, RateSearch, RateTrial, TRIAL_MAX, TRIALS_MAX, TrialQuestion, TrialVerdict};
use photofinish_lab::bench::spend::{OVERRUN, Spend};
use photofinish_lab::bench::stage::{self, StageEnd, StageFigures, StageQuestion};
use photofinish_lab::bench::{
    BlockPlan, BlockResult, BlockStop, Generator, Load, LoadTarget, Progress, RowFeed, failing_alone, ramp, statistics,
};
use photofinish_serve::app::LocalGateway;

/// Prompts of one block at most, so that no two blocks share one.
const BLOCK_PROMPTS: u64 = 10_000_000;
/// First requests of each target: the second has the length that the first taught.
pub(super) const FIRST_REQUESTS: usize = 2;
/// How long a benchmark awaits losers that run on at its end.
const LOSERS_FOR: Duration = Duration::from_secs(10);
/// How long rows are written after a signal. The rest goes to the spill file.
const INTERRUPTED_FLUSH_FOR: Duration = Duration::from_secs(5);

/// What a run came to.
pub struct FinishedRun {
    pub result: RunResult,
    /// A signal cut it short.
    pub interrupted: bool,
    /// Rows that could not be written.
    pub lost: usize,
}

/// Everything that a run holds.
pub struct BenchSession<'a, E> {
    pub(super) alone: LocalGateway,
    pub(super) generator: Generator,
    pub(super) plan: BenchPlan,
    pub(super) targets: Vec<LoadTarget>,
    /// Of each target that is one upstream: that upstream.
    pub(super) upstreams: Vec<Option<UpstreamConfig>>,
    pub(super) live: LiveView<'a, E>,
    pub(super) result: RunResult,
    pub(super) begun: Instant,
    pub(super) calibration_us: Option<f64>,
    /// Blocks so far.
    pub(super) blocks: u64,
    /// The length of one answer, by target.
    pub(super) answers: Vec<Duration>,
    /// Drained at the first signal: the block ends with what there is.
    pub(super) interrupt: Shutdown,
}

impl<'a, E: Write + Send> BenchSession<'a, E> {
    /// `asked`: the result before it begins.
    ///
    /// # Errors
    /// The gateway cannot be built, or the store cannot be opened.
    pub async fn start(
        targets: BenchTargets,
        plan: BenchPlan,
        asked: RunResult,
        stored: bool,
        mut live: LiveView<'a, E>,
        interrupt: Shutdown,
    ) -> anyhow::Result<Self> {
        let feed = RowFeed::new();
        let alone = LocalGateway::start(targets.config, stored, Arc::clone(&feed) as _).await?;
        let calibration_us = calibration_error_us(plan.requests).await;
        let prompts = PromptMaker::new(plan.workload.clone(), plan.prefix, plan.seed)
            .salted(&asked.run_id)
            .given(plan.prompts.clone())
            .sessions(plan.sessions.clone());
        let spend = plan.max_cost.map_or_else(Spend::unlimited, |cap| Spend::new(cap, 0.0));
        let client = alone.load_client(feed);
        let generator = Generator::new(client, prompts, spend, plan.members.clone(), asked.run_id.clone());
        let result = RunResult { calibration_ms: calibration_us.map(|us| us / 1e3), ..asked };
        let asked = format!("{}: {}, seed {}", result.targets.join(", "), record::describe(&plan), plan.seed);
        live.say(&asked);
        let session = BenchSession {
            alone,
            generator,
            plan,
            targets: targets.targets,
            upstreams: targets.upstreams,
            live,
            result,
            begun: Instant::now(),
            calibration_us,
            blocks: 0,
            answers: Vec::new(),
            interrupt,
        };
        session.record(false);
        Ok(session)
    }

    /// Runs all stages, writes the run, and ends the gateway.
    ///
    /// # Errors
    /// A target does not answer its first request.
    pub async fn run(mut self) -> anyhow::Result<FinishedRun> {
        let first = if self.is_interrupted() { Ok(()) } else { self.first_requests().await };
        if first.is_ok() && !self.is_interrupted() {
            let mut loads = self.plan.loads();
            match self.plan.levels {
                Levels::FindRate => self.find_rate().await,
                Levels::Rates(_) => self.levels(loads).await,
                Levels::Users(_) => {
                    // The first level again: does the server still do what it did?
                    loads.extend(loads.first().copied().filter(|_| loads.len() > 1));
                    self.levels(loads).await;
                }
            }
        }
        let cut = self.is_interrupted();
        if cut {
            self.result.cut_short = Some("it was interrupted".to_owned());
        } else if let Err(why) = &first {
            self.result.cut_short = Some(why.clone());
        }
        self.live.clear();
        self.result.seconds = self.begun.elapsed().as_secs_f64();
        self.result.curves = match self.plan.levels {
            Levels::Users(_) => {
                self.result.targets.iter().map(|target| result::curve(target, &self.result.stages)).collect()
            }
            _ => Vec::new(),
        };
        self.record(true);
        tokio::select! {
            () = self.alone.losers_ended(LOSERS_FOR) => {}
            () = self.interrupt.draining() => {}
        }
        let interrupted = self.interrupt.draining();
        let hurry = async {
            interrupted.await;
            tokio::time::sleep(INTERRUPTED_FLUSH_FOR).await;
        };
        let lost = self.alone.stop_unless(hurry).await;
        if let (Err(why), false) = (first, cut) {
            anyhow::bail!(why);
        }
        Ok(FinishedRun { result: self.result, interrupted: cut, lost })
    }

    async fn levels(&mut self, loads: Vec<Load>) {
        for (at, load) in loads.iter().enumerate() {
            if self.is_interrupted() {
                return;
            }
            let begin = self.result.stages.len();
            self.stage(*load, at, loads.len()).await;
            let ends = self.result.stages[begin..].iter().filter(|stage| is_final(stage));
            if let Some(last) = ends.max_by_key(|stage| stage.ended_by == Some(StageEnd::Failing)) {
                let why = format!("{}: {}", last.name(), last.ended.as_deref().unwrap_or_default());
                self.result.cut_short = (at + 1 < loads.len()).then_some(why);
                return;
            }
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_draining()
    }

    /// One level for every target, in interleaved blocks: A B B A.
    async fn stage(&mut self, load: Load, at: usize, of: usize) {
        let count = self.targets.len();
        let rounds = if count > 1 { 2 } else { 1 };
        let mut blocks: Vec<Vec<BlockResult>> = vec![Vec::new(); count];
        let first_block = self.blocks;
        for round in 0..rounds {
            let order: Vec<usize> = if round % 2 == 0 { (0..count).collect() } else { (0..count).rev().collect() };
            for target in order {
                if self.is_interrupted() {
                    break;
                }
                // The same prompts for every target.
                self.blocks = first_block + round as u64;
                let plan = BlockPlan {
                    duration: self.plan.duration / rounds,
                    requests: self.plan.requests.div_ceil(rounds as usize),
                    ..self.block(load, target)
                };
                let target_name = self.targets[target].name.clone();
                let title = self.title(
                    format!("stage {} of {of}: {target_name}, {load}", at + 1),
                    plan.duration,
                    self.asked_requests(&plan),
                );
                let (on, block) = (self.targets[target].clone(), plan);
                let block = self.run_block(&on, &block, &title, &mut |_| true).await;
                blocks[target].push(block);
            }
        }
        self.blocks = first_block + u64::from(rounds);
        let begin = self.result.stages.len();
        for (target, blocks) in self.targets.iter().zip(&blocks).filter(|(_, blocks)| !blocks.is_empty()) {
            self.result.stages.push(stage::figures(&target.name, blocks, &self.question()));
        }
        self.compare(begin, &blocks);
        let said: Vec<String> = self.result.stages[begin..].iter().map(super::output::brief).collect();
        said.iter().for_each(|line| self.live.say(line));
        self.charge();
    }

    /// The targets of a level against the first. After an interrupt there may be none.
    fn compare(&mut self, begin: usize, blocks: &[Vec<BlockResult>]) {
        if blocks.iter().any(Vec::is_empty) {
            return;
        }
        let question = self.question();
        let measured = |blocks: &Vec<BlockResult>| -> Vec<MeasuredRequest> {
            blocks.iter().flat_map(|block| stage::measured_in(block, &question)).cloned().collect()
        };
        let requests: Vec<Vec<MeasuredRequest>> = blocks.iter().map(measured).collect();
        let compared = result::compare_targets(&self.result.stages[begin..], &requests, self.plan.margin);
        self.result.comparisons.extend(compared.comparisons);
        self.result.not_compared.extend(compared.reasons);
    }

    pub(super) fn block(&self, load: Load, target: usize) -> BlockPlan {
        let answer = self.answers.get(target).copied().unwrap_or_default();
        // Given prompts are used in turn: a block begins behind those of the first requests, which a server may have cached.
        let turn = BLOCK_PROMPTS - BLOCK_PROMPTS % (self.plan.prompts.len() as u64).max(1);
        let sent = if self.blocks == 0 { 0 } else { FIRST_REQUESTS as u64 };
        BlockPlan {
            load,
            duration: self.plan.duration,
            requests: self.plan.requests,
            first: self.blocks * turn + sent,
            in_flight_max: self.plan.in_flight_allowed(),
            ramp: if matches!(load, Load::Users(1)) { Duration::ZERO } else { ramp(answer) },
            seed: self.plan.seed.wrapping_add(self.blocks),
        }
    }

    fn asked_requests(&self, plan: &BlockPlan) -> Option<usize> {
        (self.plan.requests < ARRIVALS_MAX).then_some(plan.requests)
    }

    pub(super) fn title(&self, text: String, length: Duration, requests: Option<usize>) -> StageTitle {
        let spend = self.generator.spend();
        StageTitle {
            text,
            length,
            requests,
            is_open_loop: !matches!(self.plan.levels, Levels::Users(_)),
            calibration_us: self.calibration_us,
            spent: spend.spent(),
            cap: spend.cap(),
        }
    }

    pub(super) fn question(&self) -> StageQuestion<'_> {
        let prompts = self.generator.prompts();
        StageQuestion {
            workload: &self.plan.workload,
            unique: prompts.are_unique(),
            made: prompts.are_made(),
            warm_up: self.plan.warm_up,
            slo: self.plan.slo,
            calibration_us: self.calibration_us,
        }
    }

    /// The first signal ends the block with what there is. The second ends the command: see `bench::run`.
    pub(super) async fn run_block(
        &mut self,
        target: &LoadTarget,
        plan: &BlockPlan,
        title: &StageTitle,
        decide: &mut (dyn FnMut(Progress<'_>) -> bool + Send),
    ) -> BlockResult {
        let (live, interrupt) = (&mut self.live, self.interrupt.clone());
        let mut failing = None;
        let mut watch = |progress: Progress<'_>| {
            live.show(title, &progress);
            failing = failing_alone(&progress);
            failing.is_none() && !interrupt.is_draining() && decide(progress)
        };
        let mut block = Box::pin(self.generator.run(target, plan, &mut watch)).await;
        if block.stop == Some(BlockStop::Decided) {
            let interrupted = self.interrupt.is_draining().then_some(BlockStop::Interrupted);
            block.stop = failing.map(BlockStop::Failing).or(interrupted).or(block.stop);
        }
        block
    }

    fn record(&self, ended: bool) {
        self.alone.recorder().run(record::row(&self.result, &self.plan, ended));
    }

    pub(super) fn charge(&mut self) {
        self.result.cost = self.generator.cost().cost();
    }
}

/// Whether a stage leaves nothing to ask: the money is spent, or the server answers nothing.
fn is_final(stage: &StageFigures) -> bool {
    matches!(stage.ended_by, Some(StageEnd::Spent | StageEnd::Failing))
}

/// Wrong use as an error of the command.
pub fn wrong(problem: String) -> anyhow::Error {
    WrongUse(problem).into()
}

const NAME: &str = "exact";
const PROVIDER: &str = "[providers.exact]\nsimulate = { ttft = \"50ms\", jitter = 0.0, tokens_per_second = 100.0, tokens = 10, seed = 1 }\n";
const USERS: usize = 8;
const FOR: Duration = Duration::from_millis(1_000);

/// How far the median TTFT is from what the simulated provider did, in µs. None if the calibration cannot run.
/// `requests`: of a stage; a short one has a short calibration.
async fn calibration_error_us(requests: usize) -> Option<f64> {
    let config = config::parse(PROVIDER, Path::new("calibration"), &|_| None).ok()?;
    let feed = RowFeed::new();
    let alone = LocalGateway::start(config, false, Arc::clone(&feed) as _).await.ok()?;
    let prompts = PromptMaker::new(Workload::new("calibration", 50, 10), 0.0, 1);
    let client = alone.load_client(feed);
    let generator = Generator::new(client, prompts, Spend::unlimited(), serde_json::Map::new(), String::new());
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    let model = format!("{NAME}/m");
    let target = LoadTarget { name: model.clone(), model, headers, prices: Vec::new(), lane: 0 };
    let plan = BlockPlan {
        load: Load::Users(USERS),
        duration: FOR,
        requests: requests.max(2 * USERS),
        first: 0,
        in_flight_max: usize::MAX,
        ramp: Duration::from_millis(100),
        seed: 1,
    };
    let block = generator.run(&target, &plan, &mut |_| true).await;
    let provider = alone.simulator(NAME).await;
    alone.stop().await;
    // The first requests open their connections.
    let answered = block.requests.iter().filter(|request| request.conn_reused == Some(true));
    let measured = answered.filter_map(|request| Some(request.ttft_us? as f64)).collect();
    let sent = provider?.ended().into_iter();
    let sent = sent.filter_map(|request| Some(micros_between(request.started, request.first_token?) as f64)).collect();
    median_error(measured, sent)
}

/// Of the measured times against those of the provider. Its own lateness, such as that of its timers, is in both.
fn median_error(measured: Vec<f64>, sent: Vec<f64>) -> Option<f64> {
    let [measured, sent] = [measured, sent].map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        statistics::quantile(&times, 0.5)
    });
    Some((measured? - sent?).abs())
}

/// How long the first request of a run is waited for, unless its stage is shorter.
const FIRST_WITHIN_MAX: Duration = Duration::from_secs(600);

impl<E: Write + Send> BenchSession<'_, E> {
    /// One target after the other, alone: it opens a connection, teaches the length of prompts, and shows whether the
    /// target answers at all before more is spent.
    pub(super) async fn first_requests(&mut self) -> Result<(), String> {
        self.tell_what_it_may_cost();
        for (at, target) in self.targets.clone().iter().enumerate() {
            let duration = self.plan.duration.min(FIRST_WITHIN_MAX);
            let title = self.title(format!("first requests: {}", target.name), duration, Some(FIRST_REQUESTS));
            let mut answer = Duration::ZERO;
            // Each in a block of its own: after one without an answer nothing more is sent.
            for number in 0..FIRST_REQUESTS {
                let usual = self.block(Load::Users(1), at);
                let first = usual.first + number as u64;
                let plan = BlockPlan { requests: 1, duration, first, ..usual };
                let block = self.run_block(target, &plan, &title, &mut |_| true).await;
                if self.is_interrupted() {
                    return Ok(());
                }
                let request = block.requests.first();
                match request.filter(|request| request.is_answered()) {
                    Some(request) => {
                        answer = Duration::from_micros(u64::try_from(request.ended_us - request.sent_us).unwrap_or(0));
                    }
                    None if block.stop == Some(BlockStop::Spent) && number == 0 => {
                        return Err(format!("{}: --max-cost does not cover one request", target.name));
                    }
                    // The stage says so.
                    None if block.stop == Some(BlockStop::Spent) => break,
                    None => {
                        let why = self.why_not(at, request);
                        return Err(format!("{}: {why}; nothing more was sent", target.name));
                    }
                }
            }
            self.answers.push(answer);
        }
        // The stages have other prompts.
        self.blocks += 1;
        self.tell_cost();
        Ok(())
    }

    /// Why a target did not answer, and what to do about it.
    fn why_not(&self, target: usize, request: Option<&MeasuredRequest>) -> String {
        let failed = request.and_then(|request| Some((request, request.failure?)));
        let Some((request, failure)) = failed else { return "it did not answer".to_owned() };
        if request.end == RequestEnd::TimedOut {
            let seconds = (request.ended_us - request.sent_us) / SECOND_US;
            return format!(
                "{failure}: no whole answer in {seconds} s; with a longer --duration it is waited for longer"
            );
        }
        if let Some(said) = request.said_too_long() {
            return format!("{failure}: the prompt is too long, in the server's words: {said}");
        }
        let said = request.said.as_deref().map_or_else(String::new, |said| format!(" ({said})"));
        let kind = FailureKind::from_name(failure);
        let upstream = self.upstreams.get(target).and_then(Option::as_ref);
        let Some((kind, upstream)) = kind.zip(upstream) else { return format!("{failure}{said}") };
        let provider = &upstream.provider;
        if kind == FailureKind::Unauthorized && self.plan.by_url && matches!(provider.keys, Keys::NotConfigured) {
            return format!("{failure}: it needs a key: name its variable with --key-env{said}");
        }
        format!("{failure}: {}{said}", live::explained(kind, provider, &upstream.model))
    }

    /// By its prices and its plan, before a request.
    fn tell_what_it_may_cost(&mut self) {
        let conversations = self.plan.sessions.as_ref().and_then(SessionSource::count);
        let prompts = 0..conversations.unwrap_or(self.plan.prompts.len()).max(1);
        let cost = |target| RequestCost::of(prompts.clone().map(|at| self.generator.estimate(at as u64, target)));
        let each: Vec<RequestCost> = self.targets.iter().map(cost).collect();
        for line in cost_lines(&self.plan, &each) {
            self.live.say(&line);
        }
    }

    /// What the run will cost about, by the first requests.
    fn tell_cost(&mut self) {
        let Levels::Users(levels) = &self.plan.levels else { return };
        let spent = self.generator.spend().spent();
        let (count, first) = (self.targets.len() as f64, (FIRST_REQUESTS * self.targets.len()) as f64);
        // The first of several levels runs again at the end.
        let all = || levels.iter().chain(levels.first().filter(|_| levels.len() > 1));
        let users: usize = all().sum();
        let answer = self.answers.iter().map(Duration::as_secs_f64).sum::<f64>() / count.max(1.0);
        let by_time = users as f64 * self.plan.duration.as_secs_f64() / answer.max(1e-3);
        let requests = count * by_time.min(self.plan.requests as f64 * all().count() as f64);
        if spent > 0.0 {
            let cap = self.generator.spend().cap().map_or(String::new(), |cap| format!("; the cap is {cap} USD"));
            self.live.say(&format!(
                "about {requests:.0} requests and {:.4} USD if every answer is as fast as the first{cap}",
                requests * spent / first
            ));
        }
    }
}

/// A search ends between rates that are this far apart.
const RESOLUTION: f64 = 0.1;
/// How long a request may take that meets its targets, if they do not bound it.
const HORIZON_US: i64 = 30_000_000;
/// From one look at a trial to the next: each is one more chance to decide wrongly.
const LOOK_EVERY_US: i64 = 1_000_000;

impl<E: Write + Send> BenchSession<'_, E> {
    pub(super) async fn find_rate(&mut self) {
        for target in 0..self.targets.len() {
            let answer = self.answers.get(target).map_or(1.0, Duration::as_secs_f64);
            let name = self.targets[target].name.clone();
            let mut search = RateSearch::new(&name, self.plan.attain, 1.0 / answer.max(1e-3), RESOLUTION);
            while let Some(rate) = search.next() {
                let Some(trial) = self.trial(target, rate).await else {
                    self.charge();
                    break;
                };
                let said = super::output::trial(&name, &trial);
                self.live.say(&said);
                search.take(trial);
                self.charge();
            }
            self.charge();
            self.result.found.push(search.found());
            if self.is_interrupted() {
                return;
            }
        }
    }

    /// None: the run is over, or the server answers nothing.
    async fn trial(&mut self, target: usize, rate: f64) -> Option<RateTrial> {
        let slo = self.plan.slo?;
        let load = Load::Rate { per_second: rate, arrivals: self.plan.arrivals };
        let requests = self.plan.requests.min(search::TRIAL_MAX);
        let plan = BlockPlan { requests, ..self.block(load, target) };
        self.blocks += 1;
        let name = self.targets[target].name.clone();
        let title = self.title(format!("search: {name}, {rate:.3}/s"), plan.duration, Some(requests));
        let times = self.plan.arrivals.draw(rate, plan.duration, requests, plan.seed);
        let question = TrialQuestion {
            slo,
            attain: self.plan.attain,
            horizon_us: slo.longest_us(self.plan.workload.output_tokens).unwrap_or(HORIZON_US),
            warm_up_us: self.plan.warm_up.map(photofinish_base::clock::micros),
            moved_us: 0.0,
        };
        let (mut decided, mut looks) = (None, EverySecond { next_us: LOOK_EVERY_US });
        let on = self.targets[target].clone();
        let mut watch = |progress: Progress<'_>| {
            let now_us = photofinish_base::clock::micros(progress.elapsed);
            if !looks.is_due(now_us) {
                return true;
            }
            let ended = progress.ended.clone();
            // Requests that end meanwhile do not wait for the verdict.
            drop(progress);
            let scheduled = &times[..times.partition_point(|at| *at <= now_us)];
            let verdict = search::verdict(&question, &ended, scheduled, now_us, false);
            decided = verdict.map(|verdict| TrialLook { verdict, ended, scheduled, now_us, is_over: false });
            decided.is_none()
        };
        let block = self.run_block(&on, &plan, &title, &mut watch).await;
        let has_no_money = block.stop.as_ref().is_some_and(BlockStop::is_of_money);
        let is_dead = matches!(block.stop, Some(BlockStop::Failing(_)))
            && !block.requests.iter().any(MeasuredRequest::is_answered);
        if self.is_interrupted() || has_no_money || is_dead {
            let figures = stage::figures(&name, &[block], &self.question());
            if has_no_money {
                self.result.cut_short.clone_from(&figures.ended);
            }
            self.result.stages.push(figures);
            return None;
        }
        let look = decided.unwrap_or_else(|| {
            let ended = block.requests.iter().map(|request| request.ended_us).max().unwrap_or(0);
            let scheduled = &times[..times.len().min(block.requests.len())];
            let now_us = ended + question.horizon_us;
            let unknown = if block.stop.is_some() { TrialVerdict::Fail } else { TrialVerdict::Undecided };
            let verdict = search::verdict(&question, &block.requests, scheduled, now_us, true).unwrap_or(unknown);
            TrialLook { verdict, ended: block.requests.clone(), scheduled, now_us, is_over: true }
        });
        let figures = stage::figures(&name, std::slice::from_ref(&block), &self.question());
        let (verdict, doubts) = look.despite(&figures, &question);
        let attainment = figures.attainment.map_or(0.0, |estimate| estimate.value);
        let (requests, missed) = (block.requests.len(), figures.first_missed);
        self.result.stages.push(figures);
        Some(RateTrial { rate, verdict, requests, attainment, missed, doubts })
    }
}

/// A trial, when its verdict was given.
struct TrialLook<'t> {
    verdict: TrialVerdict,
    ended: Vec<MeasuredRequest>,
    scheduled: &'t [i64],
    now_us: i64,
    is_over: bool,
}

impl TrialLook<'_> {
    /// The verdict, and why it is left out of the search: what the client's error may have changed proves nothing.
    fn despite(&self, figures: &StageFigures, question: &TrialQuestion) -> (TrialVerdict, Vec<String>) {
        if figures.is_trusted() {
            return (self.verdict, Vec::new());
        }
        let error_us = figures.client_error_ms.filter(|_| !figures.client.is_starved()).map(|ms| ms * 1e3);
        let again = |question: &TrialQuestion| {
            search::verdict(question, &self.ended, self.scheduled, self.now_us, self.is_over)
        };
        match error_us.and_then(|error_us| search::despite(error_us, question, again)) {
            Some(verdict) => (verdict, Vec::new()),
            None => (TrialVerdict::Undecided, figures.doubts.clone()),
        }
    }
}

/// When the next look is due.
struct EverySecond {
    next_us: i64,
}

impl EverySecond {
    fn is_due(&mut self, now_us: i64) -> bool {
        if now_us < self.next_us {
            return false;
        }
        self.next_us = now_us + LOOK_EVERY_US;
        true
    }
}

/// USD of the requests to one target, if it keeps to `max_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestCost {
    pub mean: f64,
    pub most: f64,
}

impl RequestCost {
    pub fn of(each: impl ExactSizeIterator<Item = f64>) -> RequestCost {
        let count = each.len().max(1) as f64;
        let (sum, most) = each.fold((0.0, 0.0_f64), |(sum, most), usd| (sum + usd, most.max(usd)));
        RequestCost { mean: sum / count, most }
    }
}

/// One sentence each; none if nothing has a price. `targets`: the cost of a request to each.
fn cost_lines(plan: &BenchPlan, targets: &[RequestCost]) -> Vec<String> {
    let most = targets.iter().map(|target| target.most).fold(0.0, f64::max);
    if most == 0.0 {
        return Vec::new();
    }
    let cap = plan.max_cost.map_or(String::new(), |cap| format!("; the cap is {cap} USD"));
    let whole = match requests(plan, targets.len()) {
        Some((word, each)) => {
            let usd = each * targets.iter().map(|target| target.mean).sum::<f64>();
            let (count, usd) = (each * targets.len() as f64, Cost::exactly(usd));
            format!("{word} {count:.0} requests and {usd} if answers keep to max_tokens{cap}")
        }
        None => format!(
            "a request costs up to {} if its answer keeps to max_tokens; how many there will be shows after the first{cap}",
            Cost::exactly(most)
        ),
    };
    std::iter::once(whole).chain(at_once(plan, most)).collect()
}

/// The requests to each target, and whether that is a bound. None: as many as are answered in time.
fn requests(plan: &BenchPlan, targets: usize) -> Option<(&'static str, f64)> {
    let first = FIRST_REQUESTS as f64;
    // Several targets get theirs in two blocks.
    let of_stage = if targets > 1 { plan.requests.div_ceil(2) * 2 } else { plan.requests } as f64;
    match &plan.levels {
        Levels::Users(_) if plan.requests >= ARRIVALS_MAX => None,
        Levels::Users(levels) => {
            // The first of several levels runs again at the end.
            let stages = levels.len() + usize::from(levels.len() > 1);
            Some(("at most", stages as f64 * of_stage + first))
        }
        Levels::Rates(rates) => {
            let arrivals = rates.iter().map(|rate| (rate * plan.duration.as_secs_f64()).min(of_stage));
            Some(("about", arrivals.sum::<f64>() + first))
        }
        Levels::FindRate => Some(("at most", (TRIALS_MAX * plan.requests.min(TRIAL_MAX)) as f64 + first)),
    }
}

/// What the cap covers at once, if that is less than the plan asks for.
fn at_once(plan: &BenchPlan, most: f64) -> Option<String> {
    let reserved = most * OVERRUN;
    let covers = (plan.max_cost? / reserved).floor();
    // If it does not cover one, the first request says so.
    let is_less_than = |asked: usize| covers >= 1.0 && covers < asked as f64;
    match &plan.levels {
        Levels::Users(levels) => {
            let users = levels.iter().copied().max().filter(|users| is_less_than(*users))?;
            let needed = users as f64 * reserved;
            Some(format!(
                "{users} users need {} at once, {OVERRUN:.0} times what their requests may cost; --max-cost covers \
                 {covers:.0} of them, so the others wait",
                Cost::exactly(needed)
            ))
        }
        _ if is_less_than(plan.in_flight_allowed()) => Some(format!(
            "--max-cost covers {covers:.0} requests at once; an arrival beyond ends its stage: {OVERRUN:.0} times what a \
             request may cost is set aside for each"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_s_lateness_is_not_the_client_s() {
        let sent = vec![50_900.0, 51_300.0, 53_800.0];
        let measured = |late: f64| sent.iter().rev().map(|time| time + late).collect::<Vec<_>>();
        assert_eq!(median_error(measured(250.0), sent.clone()), Some(250.0));
        assert_eq!(median_error(measured(4_000.0), sent.clone()), Some(4_000.0));
        // One late request is not the median.
        assert_eq!(median_error(vec![51_000.0, 51_400.0, 90_000.0], sent.clone()), Some(100.0));
        assert_eq!(median_error(Vec::new(), sent), None, "nothing was answered");
    }
}

#[cfg(test)]
mod find_tests {
    use super::*;

    #[test]
    fn a_trial_is_looked_at_every_second() {
        let mut looks = EverySecond { next_us: LOOK_EVERY_US };
        // A running block is shown every 100 ms.
        let due: Vec<i64> = (0..40).map(|at| at * 100_000).filter(|now_us| looks.is_due(*now_us)).collect();
        assert_eq!(due, [1_000_000, 2_000_000, 3_000_000]);
    }
}

#[cfg(test)]
mod cost_tests {
    use super::super::plan::tests::plan;
    use super::*;

    fn shown(load: &[&str], targets: usize) -> Vec<String> {
        let plan = plan(&[&["near/x"][..], load].concat()).unwrap();
        // Given prompts have different lengths.
        let cost = RequestCost::of([0.001, 0.003].into_iter());
        cost_lines(&BenchPlan { max_cost: Some(0.1), ..plan }, &vec![cost; targets])
    }

    #[test]
    fn the_whole_run_is_told_where_its_requests_are_known() {
        for (load, targets, said) in [
            // Two levels, the first of them twice, and two first requests.
            (
                &["--concurrency", "1,2", "--requests", "9"][..],
                1,
                "at most 29 requests and $0.058 if answers keep to max_tokens",
            ),
            (&["--concurrency", "4", "--requests", "9"], 2, "at most 24 requests and $0.048"),
            (&["--concurrency", "1"], 1, "a request costs up to $0.003 if its answer keeps to max_tokens; how many"),
            (&["--request-rate", "2,3", "--duration", "10s"], 1, "about 52 requests and $0.10"),
            (&["--request-rate", "2", "--requests", "7"], 1, "about 9 requests and $0.018"),
            (&["--find", "rate", "--slo", "ttft=1s"], 1, "at most 300002 requests and $600.00"),
            (&["--find", "rate", "--slo", "ttft=1s", "--requests", "50"], 1, "at most 1502 requests and $3.00"),
        ] {
            let shown = &shown(load, targets)[0];
            assert!(shown.starts_with(said) && shown.ends_with("; the cap is 0.1 USD"), "{load:?}: {shown}");
        }
        let plan = plan(&["near/x"]).unwrap();
        assert!(cost_lines(&plan, &[RequestCost::default()]).is_empty(), "without a price there is nothing to show");
    }

    #[test]
    fn what_the_cap_covers_at_once_is_told_where_more_is_asked_for() {
        let said = |load: &[&str]| shown(load, 1).get(1).cloned().unwrap_or_default();
        let users = "10 users need $0.24 at once, 8 times what their requests may cost; --max-cost covers 4 of them";
        assert!(said(&["--concurrency", "1,10"]).starts_with(users));
        assert_eq!(said(&["--concurrency", "4"]), "");
        assert!(
            said(&["--request-rate", "1"]).starts_with("--max-cost covers 4 requests at once; an arrival beyond ends")
        );
        assert_eq!(said(&["--request-rate", "1", "--in-flight-max", "4"]), "");
    }
}
