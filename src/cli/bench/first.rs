//! The first requests of a run, and what they say: whether each target answers at all, how fast, and what the run will cost.

use std::io::Write;
use std::time::Duration;

use super::cost::{self, RequestCost};
use super::plan::Levels;
use super::session::{BenchSession, FIRST_REQUESTS};
use crate::cli::check::live::words;
use photofinish_base::clock::SECOND_US;
use photofinish_base::failure::FailureKind;
use photofinish_config::config::Keys;
use photofinish_lab::bench::measured::{MeasuredRequest, RequestEnd};
use photofinish_lab::bench::{BlockPlan, BlockStop, Load};

/// A first request is waited for as long as a stage takes, and then as long as one that was sent at the end of a stage.
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
        let kind = FailureKind::from_name(failure);
        let upstream = self.upstreams.get(target).and_then(Option::as_ref);
        let Some((kind, upstream)) = kind.zip(upstream) else { return failure.to_owned() };
        let provider = &upstream.provider;
        if kind == FailureKind::Unauthorized && self.plan.by_url && matches!(provider.keys, Keys::NotConfigured) {
            return format!("{failure}: it needs a key: name its variable with --key-env");
        }
        format!("{failure}: {}", words::of(kind, provider, &upstream.model))
    }

    /// By its prices and its plan, before a request.
    fn tell_what_it_may_cost(&mut self) {
        let prompts = 0..self.plan.prompts.len().max(1);
        let cost = |target| RequestCost::of(prompts.clone().map(|at| self.generator.estimate(at as u64, target)));
        let each: Vec<RequestCost> = self.targets.iter().map(cost).collect();
        for line in cost::lines(&self.plan, &each) {
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
