//! One run of `bench`: the gateway, the calibration, a first request of each target, the stages, and what they show.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::calibration;
use super::live::{LiveView, StageTitle};
use super::plan::{BenchPlan, Levels};
use super::record;
use super::target::BenchTargets;
use crate::app::LocalGateway;
use crate::bench::arrivals::ARRIVALS_MAX;
use crate::bench::compare::{self, ComparedFigure, LoadComparison};
use crate::bench::figures::{StageFigures, StageQuestion};
use crate::bench::measured::MeasuredRequest;
use crate::bench::prompt::PromptMaker;
use crate::bench::result::{self, RESULT_VERSION, RunResult};
use crate::bench::spend::Spend;
use crate::bench::stage;
use crate::bench::{
    BlockPlan, BlockResult, BlockStop, Generator, Load, LoadClient, LoadTarget, Progress, RowFeed, failing_alone, ramp,
};
use crate::cli::outcome::WrongUse;
use crate::cli::signals::Signals;
use crate::clock::{Instant, wall_micros};
use crate::config::UpstreamConfig;

/// Prompts of one block at most, so that no two blocks share one.
const BLOCK_PROMPTS: u64 = 10_000_000;
/// First requests of each target: the second has the length that the first taught.
pub(super) const FIRST_REQUESTS: usize = 2;
/// How long losers that run on are awaited at the end.
const LOSERS_FOR: Duration = Duration::from_secs(10);

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
    pub(super) signals: Signals,
    pub(super) result: RunResult,
    pub(super) begun: Instant,
    pub(super) calibration_us: Option<f64>,
    /// Blocks so far.
    pub(super) blocks: u64,
    /// The length of one answer, by target.
    pub(super) answers: Vec<Duration>,
    pub(super) interrupted: Arc<AtomicBool>,
}

impl<'a, E: Write + Send> BenchSession<'a, E> {
    /// # Errors
    /// The gateway cannot be built, or the store cannot be opened.
    pub async fn start(
        targets: BenchTargets,
        plan: BenchPlan,
        stored: bool,
        label: Option<String>,
        mut live: LiveView<'a, E>,
    ) -> anyhow::Result<Self> {
        let signals = Signals::new()?;
        let feed = RowFeed::new();
        let run_id = uuid::Uuid::now_v7().to_string();
        let alone = LocalGateway::start(targets.config, stored, Arc::clone(&feed) as _).await?;
        let calibration_us = calibration::error_us(plan.requests).await;
        let prompts = PromptMaker::new(plan.workload.clone(), plan.prefix, plan.seed).given(plan.prompts.clone());
        let spend = plan.max_cost.map_or_else(Spend::unlimited, |cap| Spend::new(cap, 0.0));
        let client = LoadClient::new(Arc::clone(alone.gateway()), feed);
        let generator = Generator::new(client, prompts, spend, plan.members.clone(), run_id.clone());
        let result = RunResult {
            version: RESULT_VERSION,
            run_id,
            label,
            started_at: wall_micros(),
            targets: targets.targets.iter().map(|target| target.name.clone()).collect(),
            workload: plan.workload.clone(),
            prefix: plan.prefix,
            seed: plan.seed,
            slo: plan.slo,
            calibration_ms: calibration_us.map(|us| us / 1e3),
            machine: record::machine(),
            ..RunResult::default()
        };
        let asked = format!("{}: {}, seed {}", result.targets.join(", "), record::describe(&plan), plan.seed);
        live.say(&asked);
        let session = BenchSession {
            alone,
            generator,
            plan,
            targets: targets.targets,
            upstreams: targets.upstreams,
            live,
            signals,
            result,
            begun: Instant::now(),
            calibration_us,
            blocks: 0,
            answers: Vec::new(),
            interrupted: Arc::default(),
        };
        session.record(false);
        Ok(session)
    }

    /// Runs all stages, writes the run, and ends the gateway.
    ///
    /// # Errors
    /// A target does not answer its first request.
    pub async fn run(mut self) -> anyhow::Result<FinishedRun> {
        let first = self.first_requests().await;
        if first.is_ok() {
            match self.plan.levels.clone() {
                Levels::Users(levels) => self.users(&levels).await,
                Levels::Rates(rates) => self.rates(&rates).await,
                Levels::FindRate => self.find_rate().await,
            }
        }
        let cut = self.interrupted.load(Ordering::Relaxed);
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
        if !cut {
            self.alone.losers_ended(LOSERS_FOR).await;
        }
        let lost = self.alone.stop().await;
        if let (Err(why), false) = (first, cut) {
            anyhow::bail!(why);
        }
        Ok(FinishedRun { result: self.result, interrupted: cut, lost })
    }

    async fn users(&mut self, levels: &[usize]) {
        let mut all = levels.to_vec();
        // The first level again: does the server still do what it did?
        if levels.len() > 1 {
            all.push(levels[0]);
        }
        for (at, users) in all.iter().enumerate() {
            let name = format!("{users} {}", if *users == 1 { "user" } else { "users" });
            self.stage(Load::Users(*users), &name, at, all.len()).await;
            if self.is_over() {
                return;
            }
        }
    }

    async fn rates(&mut self, rates: &[f64]) {
        for (at, rate) in rates.iter().enumerate() {
            let load = Load::Rate { per_second: *rate, arrivals: self.plan.arrivals };
            self.stage(load, &format!("{rate}/s"), at, rates.len()).await;
            if self.is_over() {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        let spent = |stage: &StageFigures| stage.ended.as_ref().is_some_and(|why| why.contains("cap of spending"));
        self.interrupted.load(Ordering::Relaxed) || self.result.stages.last().is_some_and(spent)
    }

    /// One level for every target, in interleaved blocks: A B B A.
    async fn stage(&mut self, load: Load, name: &str, at: usize, of: usize) {
        let count = self.targets.len();
        let rounds = if count > 1 { 2 } else { 1 };
        let mut blocks: Vec<Vec<BlockResult>> = vec![Vec::new(); count];
        let first_block = self.blocks;
        for round in 0..rounds {
            let order: Vec<usize> = if round % 2 == 0 { (0..count).collect() } else { (0..count).rev().collect() };
            for target in order {
                if self.interrupted.load(Ordering::Relaxed) {
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
                    format!("stage {} of {of}: {target_name}, {name}", at + 1),
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
        self.compare(begin, &blocks, name);
        let said: Vec<String> =
            self.result.stages[begin..].iter().map(|stage| super::output::brief(stage, name)).collect();
        said.iter().for_each(|line| self.live.say(line));
        self.charge();
    }

    fn compare(&mut self, begin: usize, blocks: &[Vec<BlockResult>], load: &str) {
        let stages = &self.result.stages[begin..];
        if stages.len() < 2 || !stages.iter().all(StageFigures::counts) {
            return;
        }
        let requests = |blocks: &[BlockResult]| -> Vec<MeasuredRequest> {
            blocks.iter().flat_map(|block| block.requests.iter().cloned()).collect()
        };
        let base = requests(&blocks[0]);
        let mut found = Vec::new();
        for (other, blocks) in stages.iter().zip(blocks).skip(1) {
            let own = requests(blocks);
            for figure in ComparedFigure::ALL {
                let Some((ratio, pairs)) = compare::paired(figure, &base, &own) else { continue };
                let verdict = compare::judge(figure, &ratio, self.plan.margin, pairs);
                found.push(LoadComparison {
                    figure,
                    base: stages[0].target.clone(),
                    other: other.target.clone(),
                    load: load.to_owned(),
                    pairs: Some(pairs),
                    ratio,
                    margin: self.plan.margin,
                    verdict,
                });
            }
        }
        self.result.comparisons.extend(found);
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
        StageTitle { text, length, requests, spent: spend.spent(), cap: spend.cap() }
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

    /// The first signal ends the block with what there is; the second does not wait for it.
    pub(super) async fn run_block(
        &mut self,
        target: &LoadTarget,
        plan: &BlockPlan,
        title: &StageTitle,
        decide: &mut (dyn FnMut(Progress<'_>) -> bool + Send),
    ) -> BlockResult {
        let (live, interrupted, generator) = (&mut self.live, Arc::clone(&self.interrupted), self.generator.clone());
        let mut failing = None;
        let mut watch = |progress: Progress<'_>| {
            live.show(title, &progress);
            failing = failing_alone(&progress);
            failing.is_none() && !interrupted.load(Ordering::Relaxed) && decide(progress)
        };
        let mut running = Box::pin(generator.run(target, plan, &mut watch));
        let mut block = loop {
            tokio::select! {
                block = &mut running => break block,
                () = self.signals.next() => self.interrupted.store(true, Ordering::Relaxed),
            }
        };
        drop(running);
        if let Some(failure) = failing {
            block.stop = Some(BlockStop::Failing(failure));
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

/// Wrong use as an error of the command.
pub fn wrong(problem: String) -> anyhow::Error {
    WrongUse(problem).into()
}
