//! One run of `bench`: the gateway, the calibration, a first request of each target, the stages, and what they show.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use super::calibration;
use super::live::{LiveView, StageTitle};
use super::plan::{BenchPlan, Levels};
use super::record;
use super::target::BenchTargets;
use crate::cli::outcome::WrongUse;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::UpstreamConfig;
use photofinish_lab::bench::against;
use photofinish_lab::bench::arrivals::ARRIVALS_MAX;
use photofinish_lab::bench::figures::{StageEnd, StageFigures, StageQuestion};
use photofinish_lab::bench::measured::MeasuredRequest;
use photofinish_lab::bench::prompt::PromptMaker;
use photofinish_lab::bench::result::{self, RunResult};
use photofinish_lab::bench::spend::Spend;
use photofinish_lab::bench::stage;
use photofinish_lab::bench::{
    BlockPlan, BlockResult, BlockStop, Generator, Load, LoadClient, LoadTarget, Progress, RowFeed, failing_alone, ramp,
};
use photofinish_serve::app::LocalGateway;

/// Prompts of one block at most, so that no two blocks share one.
const BLOCK_PROMPTS: u64 = 10_000_000;
/// First requests of each target: the second has the length that the first taught.
pub(super) const FIRST_REQUESTS: usize = 2;
/// How long losers that run on are awaited at the end.
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
        let calibration_us = calibration::error_us(plan.requests).await;
        let prompts = PromptMaker::new(plan.workload.clone(), plan.prefix, plan.seed)
            .salted(&asked.run_id)
            .given(plan.prompts.clone());
        let spend = plan.max_cost.map_or_else(Spend::unlimited, |cap| Spend::new(cap, 0.0));
        let client = LoadClient::new(Arc::clone(alone.gateway()), feed);
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
        let compared = against::targets(&self.result.stages[begin..], &requests, self.plan.margin);
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
        self.alone.gateway().recorder().run(record::row(&self.result, &self.plan, ended));
    }

    pub(super) fn charge(&mut self) {
        self.result.cost_usd.1 = self.generator.spend().spent();
        self.result.cost_usd.0 = self.result.stages.iter().map(|stage| stage.cost_usd.0).sum();
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
