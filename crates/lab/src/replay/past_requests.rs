//! The recorded requests of one model with what is known of every upstream: its outcome, how long it had run when it was cut, or
//! nothing. Not for guessing the rest, which is `upstream_model`'s.

use std::collections::BTreeMap;

use crate::rehearse::SimulatedUpstream;
use photofinish_base::failure::FailureKind;
use photofinish_config::{ModelConfig, UpstreamConfig};
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome};
use photofinish_routing::money::tariff::{PromptTokens, Tariff, tariffs};
use photofinish_routing::quality::JudgedAnswers;

/// Requests that are played again, the newest.
pub const REQUESTS_MAX: usize = 200_000;
/// Of an upstream of which fewer attempts ended or were cut too little is known for a figure.
pub const ENOUGH: u64 = 30;
/// Of requests without a count, where no request has one.
const OUTPUT_TOKENS: u32 = 200;

/// All of them, oldest first.
#[derive(Debug)]
pub struct PastRequests {
    /// As the configuration lists them.
    upstreams: Vec<SimulatedUpstream>,
    /// Whether any price is known; else tokens are counted in place of money.
    pub priced: bool,
    pub(super) requests: Vec<PastRequest>,
    /// By request, then by upstream.
    cells: Vec<PastUpstream>,
    /// Requests by the policy that planned them.
    pub policies: BTreeMap<String, u64>,
    /// Attempts at upstreams that the model no longer lists.
    pub strangers: u64,
    /// Requests with a plain attempt, which has no first token to play: left out.
    pub plain: u64,
    /// Requests whose client left, or that a shutdown ended, before anything was answered: they teach and do not count.
    pub gone: u64,
    /// Upstreams of which too little is known, with how many of their attempts ended or were cut.
    pub little_known: Vec<(String, u64)>,
    judged: JudgedAnswers,
    /// By upstream: it answers worse, by what was judged until now.
    worse: Vec<bool>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct PastRequest {
    /// Microseconds since 1970.
    pub at_us: i64,
    pub whole: bool,
    /// 0: not known.
    pub output_tokens: u32,
    /// Tokens of its prompt, as far as they are known.
    pub input: f64,
    pub was: PastDecision,
}

/// The recorded result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PastDecision {
    /// It enters the figures.
    pub counts: bool,
    pub answered: bool,
    /// The client's TTFT.
    pub ttft_us: Option<i64>,
    /// Time to the end of the answer.
    pub took_us: Option<i64>,
    /// Cost by the tariff.
    pub cost: f64,
    pub attempts: u32,
}

/// One upstream's part in one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PastUpstream {
    pub known: KnownOutcome,
    /// Other attempts that it served at that time.
    pub in_flight: u32,
    /// When it was started, after the request; microseconds.
    pub after_us: i64,
    /// Between tokens, microseconds.
    pub tpot_us: Option<f32>,
    /// Tokens that it said it had cached.
    pub cached: Option<f32>,
    /// By what was judged until then it answers worse, and the request has tools or a schema.
    pub worse: bool,
}

/// What became of an attempt; microseconds since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum KnownOutcome {
    #[default]
    Never,
    Seen(i64),
    Cut(i64),
    Failed {
        after_us: i64,
        limited: bool,
    },
}

/// For one upstream: the number of requests with each kind of knowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastCounts {
    pub upstream: String,
    pub seen: u64,
    pub cut: u64,
    pub failed: u64,
    pub never: u64,
}

impl PastRequests {
    pub fn new(model: &ModelConfig) -> PastRequests {
        let billings: Vec<_> = model.upstreams.iter().map(|upstream| upstream.billing()).collect();
        let mut domains: Vec<String> = Vec::new();
        let mut domain = |upstream: &UpstreamConfig| {
            let name = upstream.provider.domain.clone()?;
            let known = domains.iter().position(|known| *known == name).unwrap_or_else(|| {
                domains.push(name);
                domains.len() - 1
            });
            u32::try_from(known).ok()
        };
        let upstreams = model.upstreams.iter().zip(tariffs(&billings)).map(|(upstream, tariff)| SimulatedUpstream {
            name: upstream.name(),
            tariff,
            domain: domain(upstream),
            weight: upstream.weight,
            tier: upstream.tier,
            in_flight_max: upstream.in_flight_max,
            first_token: upstream.timeouts.first_token,
        });
        PastRequests {
            upstreams: upstreams.collect(),
            priced: billings.iter().any(|(price, _)| price.is_some()),
            requests: Vec::new(),
            cells: Vec::new(),
            policies: BTreeMap::new(),
            strangers: 0,
            plain: 0,
            gone: 0,
            little_known: Vec::new(),
            judged: JudgedAnswers::default(),
            worse: Vec::new(),
        }
    }

    /// Adds the next request, unless it was asked for a plain answer.
    pub fn add(&mut self, recorded: &Recorded) {
        if recorded.attempts.iter().any(|attempt| attempt.plain) {
            self.plain += 1;
            return;
        }
        if let Some(policy) = &recorded.policy {
            *self.policies.entry(policy.clone()).or_default() += 1;
        }
        let first = self.cells.len();
        self.cells.resize(first + self.upstreams.len(), PastUpstream::default());
        let served = recorded.attempts.iter().find(|attempt| recorded.winner == Some(attempt.ordinal));
        let counted = recorded.attempts.iter().filter_map(|attempt| attempt.output_tokens).max();
        let output = served.and_then(|served| served.output_tokens).or(counted).unwrap_or(0);
        let input = recorded.attempts.iter().filter_map(|attempt| attempt.input_tokens).max();
        let input = input.unwrap_or(recorded.input_tokens_estimate).max(0) as f64;
        let mut was = was(recorded);
        for attempt in &recorded.attempts {
            let name = format!("{}/{}", attempt.provider, attempt.model_sent);
            let Some(upstream) = self.upstreams.iter().position(|known| known.name == name) else {
                self.strangers += 1;
                continue;
            };
            was.cost += cost(attempt, &self.upstreams[upstream].tariff, input, output as f64);
            let cell = &mut self.cells[first + upstream];
            if matches!(cell.known, KnownOutcome::Never | KnownOutcome::Failed { .. }) {
                *cell = PastUpstream::new(attempt, took_of(recorded, attempt), output);
            }
        }
        self.judge(recorded, first);
        self.gone += u64::from(!was.counts);
        let output_tokens = u32::try_from(output).unwrap_or(0);
        let Recorded { started_at: at_us, stream, .. } = *recorded;
        self.requests.push(PastRequest { at_us, whole: !stream, output_tokens, input, was });
    }

    /// Marks the upstreams that answered worse until this request, and learns from it.
    fn judge(&mut self, recorded: &Recorded, first: usize) {
        if recorded.has_tools || recorded.attempts.iter().any(|attempt| attempt.tool_set.is_some()) {
            for (upstream, worse) in self.worse.iter().enumerate() {
                self.cells[first + upstream].worse = *worse;
            }
        }
        let judged: Vec<(u32, String, bool)> = recorded.attempts.iter().filter_map(RecordedAttempt::judged).collect();
        for (class, upstream, broken) in &judged {
            self.judged.add(*class, upstream, *broken, recorded.started_at);
        }
        if !judged.is_empty() {
            self.judged.look(recorded.started_at);
            self.worse = self.upstreams.iter().map(|known| self.judged.is_worse(&known.name)).collect();
        }
    }

    /// To be called after the last: fills in lengths that were not counted, and finds upstreams that were hardly tried.
    pub fn settle(&mut self) {
        let mut lengths: Vec<u32> =
            self.requests.iter().map(|asked| asked.output_tokens).filter(|tokens| *tokens > 0).collect();
        lengths.sort_unstable();
        let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(OUTPUT_TOKENS);
        self.requests.iter_mut().filter(|asked| asked.output_tokens == 0).for_each(|asked| asked.output_tokens = usual);
        let tried = self.counts().into_iter().map(|counts| (counts.upstream, counts.seen + counts.cut + counts.failed));
        self.little_known = tried.filter(|(_, tried)| *tried < ENOUGH).collect();
    }

    /// Whether too little is known of this upstream.
    pub(super) fn is_little_known(&self, upstream: usize) -> bool {
        self.little_known.iter().any(|(name, _)| *name == self.upstreams[upstream].name)
    }

    /// The same without the upstreams of which too little is known.
    pub(super) fn of_known(&self) -> PastRequests {
        let all = self.upstreams.len();
        let kept: Vec<usize> = (0..all).filter(|upstream| !self.is_little_known(*upstream)).collect();
        let cells = self.cells.chunks(all.max(1)).flat_map(|row| kept.iter().map(|upstream| row[*upstream]));
        PastRequests {
            upstreams: kept.iter().map(|upstream| self.upstreams[*upstream].clone()).collect(),
            cells: cells.collect(),
            requests: self.requests.clone(),
            policies: self.policies.clone(),
            little_known: Vec::new(),
            judged: JudgedAnswers::default(),
            worse: Vec::new(),
            ..*self
        }
    }

    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// From the first to the last; microseconds since 1970.
    pub fn span_us(&self) -> Option<(i64, i64)> {
        Some((self.requests.first()?.at_us, self.requests.last()?.at_us))
    }

    pub fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    pub fn counts(&self) -> Vec<PastCounts> {
        let mut all: Vec<PastCounts> = self
            .upstreams
            .iter()
            .map(|known| PastCounts { upstream: known.name.clone(), ..PastCounts::default() })
            .collect();
        for row in self.cells.chunks(self.upstreams.len().max(1)) {
            for (counts, cell) in all.iter_mut().zip(row) {
                *match cell.known {
                    KnownOutcome::Never => &mut counts.never,
                    KnownOutcome::Seen(_) => &mut counts.seen,
                    KnownOutcome::Cut(_) => &mut counts.cut,
                    KnownOutcome::Failed { .. } => &mut counts.failed,
                } += 1;
            }
        }
        all
    }

    pub(super) fn cell(&self, request: usize, upstream: usize) -> &PastUpstream {
        &self.cells[request * self.upstreams.len() + upstream]
    }
}

impl PastUpstream {
    fn new(attempt: &RecordedAttempt, took_us: Option<i64>, output: i64) -> PastUpstream {
        let failed = KnownOutcome::Failed {
            after_us: attempt.ended_us.max(0),
            limited: attempt.failure == Some(FailureKind::RateLimited),
        };
        let known = match (attempt.ttft_obs_us, attempt.outcome) {
            (Some(ttft_us), _) if attempt.seen => KnownOutcome::Seen(ttft_us.max(1)),
            (_, AttemptOutcome::Failed | AttemptOutcome::Empty | AttemptOutcome::Refused) => failed,
            (Some(waited_us), _) => KnownOutcome::Cut(waited_us.max(1)),
            (None, _) => KnownOutcome::Never,
        };
        // The client's whole time is what is to come out again, with all that lay between the tokens.
        let written = took_us.zip(attempt.ttft_obs_us).filter(|_| attempt.seen && output > 1);
        let served = written.map(|(took_us, ttft_us)| (took_us - ttft_us).max(0) as f64 / (output - 1) as f64);
        PastUpstream {
            known,
            in_flight: u32::try_from(attempt.in_flight).unwrap_or(0),
            after_us: attempt.dispatch_us,
            tpot_us: served.or(attempt.tpot_us).map(|tpot_us| tpot_us as f32),
            cached: attempt.cached_input_tokens.map(|cached| cached as f32),
            worse: false,
        }
    }
}

fn was(recorded: &Recorded) -> PastDecision {
    let ended_well = recorded.outcome == RaceOutcome::Ok;
    let answered = recorded.winner.is_some() && recorded.client_ttft_us.is_some();
    PastDecision {
        counts: answered || recorded.outcome == RaceOutcome::Error,
        answered,
        ttft_us: recorded.client_ttft_us.filter(|_| answered && recorded.stream),
        took_us: recorded.done_us.filter(|_| answered && ended_well),
        cost: 0.0,
        attempts: u32::try_from(recorded.attempts.len()).unwrap_or(0),
    }
}

/// Of the attempt that served a request to its end: from its own start to that end.
fn took_of(recorded: &Recorded, attempt: &RecordedAttempt) -> Option<i64> {
    let served = recorded.winner == Some(attempt.ordinal) && recorded.outcome == RaceOutcome::Ok;
    recorded.done_us.filter(|_| served).map(|done_us| done_us - attempt.dispatch_us)
}

/// Counts like the rehearsal.
fn cost(attempt: &RecordedAttempt, tariff: &Tariff, input: f64, output: f64) -> f64 {
    let cached = attempt.cached_input_tokens.map_or(0.0, |cached| cached as f64).clamp(0.0, input);
    let prompt = PromptTokens { uncached: input - cached, cached };
    let counted = attempt.output_tokens.map(|tokens| tokens as f64);
    match attempt.outcome {
        AttemptOutcome::Failed => 0.0,
        AttemptOutcome::Lost if tariff.billed_on => tariff.whole(prompt, counted.unwrap_or(output)),
        AttemptOutcome::Won | AttemptOutcome::Drained => tariff.whole(prompt, counted.unwrap_or(output)),
        _ => tariff.whole(prompt, counted.unwrap_or(0.0)),
    }
}
