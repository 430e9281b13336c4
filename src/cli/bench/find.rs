//! The search of a run: trials until one rate passes and one fails, for each target. Not for its decisions: see
//! `photofinish_lab::bench::search`.

use std::io::Write;
use std::time::Duration;

use super::session::BenchSession;
use photofinish_lab::bench::measured::MeasuredRequest;
use photofinish_lab::bench::search::{self, RateSearch, RateTrial, TrialQuestion, TrialVerdict};
use photofinish_lab::bench::{BlockPlan, BlockStop, Load, Progress, stage};

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
            decided = search::verdict(&question, &ended, scheduled, now_us, false);
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
        let ended = block.requests.iter().map(|request| request.ended_us).max().unwrap_or(0);
        let sent = &times[..times.len().min(block.requests.len())];
        let verdict = decided
            .or_else(|| search::verdict(&question, &block.requests, sent, ended + question.horizon_us, true))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_looked_at_every_second() {
        let mut looks = EverySecond { next_us: LOOK_EVERY_US };
        // A running block is shown every 100 ms.
        let due: Vec<i64> = (0..40).map(|at| at * 100_000).filter(|now_us| looks.is_due(*now_us)).collect();
        assert_eq!(due, [1_000_000, 2_000_000, 3_000_000]);
    }
}
