//! An invented history: races of three among twelve upstreams, with times of known distribution, busy and quiet hours,
//! audits, looks and failures. Seeded.

use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, CensorCause, RaceOutcome, RaceRecord, Record, StartReason, TokenSource,
};

const PROVIDERS: [&str; 8] = ["groq", "cerebras", "openai", "together", "fireworks", "deepinfra", "novita", "nebius"];
const MODELS: [&str; 4] = ["llama-3.3-70b", "gpt-oss-120b", "qwen3-32b", "deepseek-v3"];
const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "eve"];
/// Attempts of a race.
pub const FIELD: usize = 3;
const AUDIT: f64 = 0.02;
/// The share of requests that look at an upstream.
const LOOKS: f64 = 0.02;
const FAILS: f64 = 0.01;
const DAY_US: i64 = 86_400_000_000;

pub struct World {
    draws: fastrand::Rng,
    /// When the next race begins; microseconds since 1970, UTC.
    at_us: f64,
    /// Mean time between races, in microseconds.
    every_us: f64,
    models: usize,
}

impl World {
    pub fn new(from_us: i64, every_us: f64, models: usize) -> World {
        World { draws: fastrand::Rng::with_seed(7), at_us: from_us as f64, every_us, models }
    }

    /// Adds the rows of the next race.
    pub fn race(&mut self, batch: &mut Vec<Record>) {
        let at_us = self.at_us as i64;
        // Twice as busy at noon as at midnight.
        let of_day = (at_us % DAY_US) as f64 / DAY_US as f64;
        self.at_us += self.every_us / (1.0 - 0.33 * (std::f64::consts::TAU * of_day).cos());
        let id = self.id(at_us);
        let model = self.skewed(self.models);
        let model_name = MODELS.get(model).map_or_else(|| format!("model-{model}"), |name| (*name).to_owned());
        let field: [usize; FIELD] = [0, 1, 2].map(|place| (2 * model + place) % PROVIDERS.len());
        let input_tokens = 100 << self.skewed(9);
        let times = field.map(|provider| self.ttft_us(provider, input_tokens));
        let failed = field.map(|_| self.draws.f64() < FAILS);
        let alive = (0..FIELD).filter(|place| !failed[*place]);
        let winner = alive.min_by_key(|place| times[*place]);
        let decided_us = winner.map(|winner| times[winner]);
        let look = (self.draws.f64() < LOOKS).then(|| self.draws.usize(..FIELD));
        let sent = |place: usize| format!("{model_name}-{}", PROVIDERS[field[place]]);
        for place in 0..FIELD {
            let mut attempt = AttemptRecord::new(
                id.clone(),
                place as i64,
                (PROVIDERS[field[place]].into(), sent(place)),
                StartReason::First,
            );
            (attempt.p_include, attempt.p_audit, attempt.key_id) = (Some(1.0), Some(AUDIT), Some("0123abcd".into()));
            (attempt.conn_reused, attempt.http_version, attempt.connect_us) = (Some(true), Some("2"), Some(30));
            attempt.in_flight_upstream = self.skewed(24) as i64;
            match decided_us {
                _ if failed[place] => self.fail(&mut attempt),
                Some(decided_us) if winner == Some(place) => self.win(&mut attempt, decided_us, input_tokens),
                Some(decided_us) => self.lose(&mut attempt, decided_us, times[place], look == Some(place)),
                None => self.fail(&mut attempt),
            }
            batch.push(Record::Attempt(Box::new(attempt)));
        }
        batch.push(Record::Race(Box::new(RaceRecord {
            race_id: id,
            started_at: at_us,
            user: Some(USERS[self.skewed(USERS.len())].into()),
            api: "chat",
            model: model_name.clone(),
            stream: self.draws.f64() < 0.8,
            policy: Some("race"),
            optimise: Some("ttft"),
            max_tokens: Some(1_024),
            has_tools: self.draws.bool(),
            input_bytes: 4 * input_tokens,
            input_tokens_estimate: input_tokens,
            attempts: FIELD as i64,
            winner: winner.map(|winner| winner as i64),
            first_token_sent_us: decided_us.map(|decided_us| decided_us + 300),
            done_us: decided_us.map(|decided_us| decided_us + 2_000_000),
            outcome: if winner.is_some() { RaceOutcome::Ok } else { RaceOutcome::Error },
            http_status: Some(if winner.is_some() { 200 } else { 502 }),
            in_flight: 5,
            p_look: Some(LOOKS / FIELD as f64),
            look: look.map(|place| format!("{}/{}", PROVIDERS[field[place]], sent(place))),
            ..RaceRecord::default()
        })));
    }

    fn win(&mut self, attempt: &mut AttemptRecord, ttft_us: i64, input_tokens: i64) {
        let tokens = 20 + self.draws.i64(0..400);
        let tpot_us = 8_000.0 * (0.4 * self.normal()).exp();
        attempt.outcome = AttemptOutcome::Won;
        self.first_token(attempt, ttft_us);
        let last_us = ttft_us + (tpot_us * (tokens - 1) as f64) as i64;
        (attempt.second_token_us, attempt.last_token_us) = (Some(ttft_us + tpot_us as i64), Some(last_us));
        (attempt.finish_us, attempt.eof_us) = (Some(last_us), Some(last_us));
        (attempt.payload_events, attempt.chars_total, attempt.chars_first) = (tokens, 4 * tokens, 4);
        (attempt.gap_p50_us, attempt.gap_p95_us) = (Some(tpot_us as i64), Some(2 * tpot_us as i64));
        (attempt.gap_p99_us, attempt.gap_max_us) = (Some(3 * tpot_us as i64), Some(4 * tpot_us as i64));
        attempt.burst = Some(false);
        (attempt.input_tokens, attempt.output_tokens, attempt.tok_src) =
            (Some(input_tokens), Some(tokens), TokenSource::Usage);
        attempt.finish_reason = Some("stop".into());
        let usd = Some(1e-6 * (0.6 * input_tokens as f64 + 0.8 * tokens as f64));
        (attempt.cost_usd_min, attempt.cost_usd_max) = (usd, usd);
    }

    fn lose(&mut self, attempt: &mut AttemptRecord, decided_us: i64, ttft_us: i64, is_look: bool) {
        attempt.outcome = AttemptOutcome::Lost;
        attempt.audited = is_look || self.draws.f64() < AUDIT;
        if attempt.audited {
            self.first_token(attempt, ttft_us);
            attempt.cancel_us = Some(ttft_us);
        } else {
            attempt.cancel_us = Some(decided_us);
            (attempt.ttft_obs_us, attempt.ttft_event, attempt.censor_cause) =
                (Some(decided_us), Some(0), Some(CensorCause::Lost));
        }
    }

    fn first_token(&mut self, attempt: &mut AttemptRecord, ttft_us: i64) {
        attempt.http_status = Some(200);
        (attempt.headers_us, attempt.first_byte_us) = (Some(ttft_us - 900), Some(ttft_us - 800));
        (attempt.first_event_us, attempt.first_token_us, attempt.first_answer_us) =
            (Some(ttft_us - 800), Some(ttft_us), Some(ttft_us));
        (attempt.ttft_obs_us, attempt.ttft_event, attempt.first_kind) = (Some(ttft_us), Some(1), Some("text"));
    }

    fn fail(&mut self, attempt: &mut AttemptRecord) {
        attempt.outcome = AttemptOutcome::Failed;
        (attempt.http_status, attempt.failure, attempt.failure_phase) =
            (Some(429), Some("rate_limited"), Some("headers"));
        attempt.eof_us = Some(40_000);
    }

    /// Log-normal, each provider with its own median and spread, and longer for longer prompts.
    fn ttft_us(&mut self, provider: usize, input_tokens: i64) -> i64 {
        let median = 180_000.0 + 40_000.0 * provider as f64 + 6.0 * input_tokens as f64;
        (median * ((0.7 - 0.05 * provider as f64) * self.normal()).exp()).max(1_000.0) as i64
    }

    fn id(&mut self, at_us: i64) -> String {
        let ms = at_us / 1_000;
        let (random_a, random_b) = (self.draws.u16(..0x1000), self.draws.u64(..));
        let (high, low) = (random_b >> 48 & 0xfff, random_b & 0xffff_ffff_ffff);
        format!("{:08x}-{:04x}-7{random_a:03x}-8{high:03x}-{low:012x}", ms >> 16, ms & 0xffff)
    }

    /// Smaller numbers are more frequent.
    fn skewed(&mut self, below: usize) -> usize {
        (self.draws.f64() * self.draws.f64() * below as f64) as usize
    }

    /// One draw of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * self.draws.f64()).cos()
    }
}
