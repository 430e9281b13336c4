//! The search of a run: trials until one rate passes and one fails, for each target. Not for its decisions: see
//! `crate::bench::search`.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::BenchSession;
use crate::bench::search::{self, RateSearch, RateTrial, TrialVerdict};
use crate::bench::{BlockPlan, BlockStop, Load, Progress, stage};

/// A search ends between rates that are this far apart.
const RESOLUTION: f64 = 0.1;
/// How long a request may take that meets its targets, if they do not bound it.
const HORIZON_US: i64 = 30_000_000;

impl<E: Write + Send> BenchSession<'_, E> {
    pub(super) async fn find_rate(&mut self) {
        for target in 0..self.targets.len() {
            let answer = self.answers.get(target).map_or(1.0, Duration::as_secs_f64);
            let name = self.targets[target].name.clone();
            let mut search = RateSearch::new(&name, self.plan.attain, 1.0 / answer.max(1e-3), RESOLUTION);
            while let Some(rate) = search.next() {
                let Some(trial) = self.trial(target, rate).await else { break };
                let said = super::output::trial(&name, &trial);
                self.live.say(&said);
                search.take(trial);
                self.charge();
            }
            self.result.found.push(search.found());
            if self.interrupted.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// None: the run is over.
    async fn trial(&mut self, target: usize, rate: f64) -> Option<RateTrial> {
        let slo = self.plan.slo?;
        let load = Load::Rate { per_second: rate, arrivals: self.plan.arrivals };
        let requests = self.plan.requests.min(search::TRIAL_MAX);
        let plan = BlockPlan { requests, ..self.block(load, target) };
        self.blocks += 1;
        let name = self.targets[target].name.clone();
        let title = self.title(format!("search: {name}, {rate:.3}/s"), plan.duration, Some(requests));
        let times = self.plan.arrivals.draw(rate, plan.duration, requests, plan.seed);
        let horizon = slo.longest_us(self.plan.workload.output_tokens).unwrap_or(HORIZON_US);
        let attain = self.plan.attain;
        let mut decided = None;
        let on = self.targets[target].clone();
        let mut watch = |progress: Progress<'_>| {
            let now_us = crate::clock::micros(progress.elapsed);
            let scheduled = &times[..times.partition_point(|at| *at <= now_us)];
            decided = search::verdict(&progress.ended, scheduled, now_us, horizon, &slo, attain);
            decided.is_none()
        };
        let block = self.run_block(&on, &plan, &title, &mut watch).await;
        if self.interrupted.load(Ordering::Relaxed) || block.stop == Some(BlockStop::Spent) {
            return None;
        }
        let ended = block.requests.iter().map(|request| request.ended_us).max().unwrap_or(0);
        let sent = &times[..times.len().min(block.requests.len())];
        let verdict = decided
            .or_else(|| search::verdict(&block.requests, sent, ended + horizon, horizon, &slo, attain))
            .unwrap_or(if block.stop.is_some() { TrialVerdict::Fail } else { TrialVerdict::Undecided });
        let figures = stage::figures(&name, std::slice::from_ref(&block), &self.question());
        let doubts = figures.doubts.clone();
        // What the client spoiled proves nothing.
        let verdict = if doubts.is_empty() { verdict } else { TrialVerdict::Undecided };
        let attainment = figures.attainment.map_or(0.0, |estimate| estimate.value);
        let (requests, missed) = (block.requests.len(), figures.first_missed);
        self.result.stages.push(figures);
        Some(RateTrial { rate, verdict, requests, attainment, missed, doubts })
    }
}
