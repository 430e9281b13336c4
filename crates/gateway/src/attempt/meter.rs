//! Measures one attempt: times, kinds, characters, gaps and usage. Pure: events and instants in, columns out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::answer_length::{AnswerLength, LengthBound};
use photofinish_base::clock::{Instant, micros_between};
use photofinish_config::keyring::{HashedKey, scrubbed};
use photofinish_facts::record::{AttemptRecord, TokenSource};
use photofinish_limits::AttemptCost;
use photofinish_wire::stream::frame::{Chunk, Payload};
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::{PayloadKind, Usage};

/// What a job costs is booked in one row: that of the exchange which is the first to see it.
#[derive(Clone, Debug, Default)]
pub struct JobCost(Arc<JobCharge>);

#[derive(Debug, Default)]
struct JobCharge {
    is_booked: AtomicBool,
    /// What the limits of its caller were charged when it was made.
    charged: Mutex<[i64; 2]>,
}

impl JobCost {
    /// Of what was paid before.
    pub fn booked() -> JobCost {
        JobCost(Arc::new(JobCharge { is_booked: true.into(), ..JobCharge::default() }))
    }

    /// The attempt that makes it reserves this.
    pub fn charge(&self, cost: AttemptCost) {
        *self.0.charged.lock().unwrap_or_else(PoisonError::into_inner) = [cost.usual, cost.max];
    }

    /// See [`AttemptCost::paid`].
    pub fn charged(&self) -> [i64; 2] {
        *self.0.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False: it is in another row.
    fn book(&self) -> bool {
        !self.0.is_booked.swap(true, Ordering::Relaxed)
    }
}

/// Measures one attempt.
#[derive(Debug)]
pub struct Meter {
    dispatch: Instant,
    times: EventTimes,
    counts: PayloadCounts,
    keepalives: i64,
    /// Events that could not be read, or are of another dialect.
    pub malformed: i64,
    /// At least one event could be read.
    pub readable: bool,
    /// Surely more came than reasoning and white space.
    pub says: bool,
    gaps: Gaps,
    burst: BurstMeter,
    usage: UsageMeter,
    finish_reason: Option<String>,
    choices: ChoiceBits,
    endless: EndlessCheck,
    names: AnswerNames,
    pub stalled: bool,
    /// The key that was sent: it is removed from every text that is kept.
    key: Option<HashedKey>,
}

/// What the provider calls its model and its answer.
#[derive(Debug, Default)]
struct AnswerNames {
    model: Option<String>,
    id: Option<String>,
}

impl AnswerNames {
    /// The first of each counts.
    fn take(&mut self, chunk: &Chunk<'_>, key: Option<&HashedKey>) {
        for (name, said) in [(&mut self.model, &chunk.model), (&mut self.id, &chunk.id)] {
            if name.is_none() {
                *name = said.as_deref().map(|said| kept(said, key, 256));
            }
        }
    }
}

/// What the provider said, without the key and of at most `max` bytes.
fn kept(said: &str, key: Option<&HashedKey>, max: usize) -> String {
    let mut kept = scrubbed(said, key);
    kept.truncate(kept.floor_char_boundary(max));
    kept
}

/// Microseconds since the dispatch.
#[derive(Debug, Default)]
struct EventTimes {
    first_byte: Option<i64>,
    first_event: Option<i64>,
    first_token: Option<(i64, Payload)>,
    first_answer: Option<i64>,
    second_token: Option<i64>,
    last_token: Option<i64>,
    finish: Option<i64>,
    eof: Option<i64>,
}

impl EventTimes {
    fn write(&self, record: &mut AttemptRecord) {
        record.first_byte_us = self.first_byte;
        record.first_event_us = self.first_event;
        record.finish_us = self.finish;
        record.eof_us = self.eof;
    }
}

/// Events with payload, and their characters.
#[derive(Debug, Default)]
struct PayloadCounts {
    events: i64,
    reasoning_events: i64,
    chars: i64,
    /// Of them, those of reasoning, and of audio and images.
    reasoning_chars: i64,
    data_chars: i64,
}

impl PayloadCounts {
    fn add(&mut self, payload: Payload) {
        let chars = i64::from(payload.chars);
        self.events += 1;
        self.chars += chars;
        if payload.kind == PayloadKind::Reasoning {
            self.reasoning_events += 1;
            self.reasoning_chars += chars;
        } else if payload.kind.is_data() {
            self.data_chars += chars;
        }
    }

    fn length(&self) -> AnswerLength {
        AnswerLength {
            events: self.events - self.reasoning_events,
            chars: self.chars - self.reasoning_chars - self.data_chars,
            thinking: self.reasoning_chars,
            data: self.data_chars,
        }
    }
}

/// The choices of the answer, one bit each.
#[derive(Debug)]
struct ChoiceBits {
    seen: u64,
    finished: u64,
    /// They said that they have no finish reason yet.
    open: u64,
    /// The number of choices that the request asks for.
    asked: u32,
}

impl ChoiceBits {
    fn note(&mut self, chunk: &Chunk<'_>) {
        self.seen |= chunk.choices;
        self.finished |= chunk.finished;
        self.open |= chunk.open;
    }

    fn are_finished(&self, ended: bool) -> bool {
        self.finished == self.seen && (ended || self.finished.count_ones() >= self.asked)
    }

    fn has_open(&self) -> bool {
        self.open & !self.finished != 0
    }
}

/// From where on an answer goes on without end.
#[derive(Debug)]
struct EndlessCheck {
    /// Of each choice.
    bound: LengthBound,
    /// This number of characters is never too many.
    free_chars: i64,
}

/// What the provider reports of its usage.
#[derive(Debug, Default)]
struct UsageMeter {
    /// From the body. It takes precedence.
    body: Usage,
    head: Usage,
    is_after_finish: bool,
    /// None: its usage belongs to its own row.
    job: Option<JobCost>,
}

impl UsageMeter {
    /// `is_behind`: it comes after the finish reason, if it has one.
    fn take(&mut self, chunk: &Chunk<'_>, is_behind: bool) {
        let tells = chunk.usage.is_some() || chunk.cost.is_some();
        if self.job.as_ref().is_some_and(|job| !tells || !job.book()) {
            return;
        }
        self.job = None;
        chunk.timings.iter().for_each(|timings| self.body.add_timings(timings));
        chunk.usage.iter().for_each(|usage| self.body.add(usage));
        chunk.cost.iter().for_each(|cost| self.body.add_cost(cost));
        self.body.tier = chunk.tier.or(self.body.tier);
        let counts = chunk.usage.is_some() || chunk.timings.is_some();
        self.is_after_finish |= counts && is_behind;
        if let Some(time_info) = &chunk.time_info {
            self.body.add_time_info(time_info);
        }
    }

    /// Usage from the body, completed from the headers.
    fn all(&self) -> Usage {
        self.body.or(self.head)
    }

    fn write(&self, record: &mut AttemptRecord) {
        let usage = self.all();
        record.input_tokens = usage.input_tokens;
        record.cached_input_tokens = usage.cached_input_tokens;
        record.cache_write_tokens = usage.cache_creation_tokens;
        record.output_tokens = usage.output_tokens;
        record.reasoning_tokens = usage.reasoning_tokens;
        record.tok_src = match usage.output_tokens {
            None => TokenSource::None,
            // The headers cover only the part generated before them.
            Some(_) if self.is_after_finish || self.body.output_tokens.is_none() => TokenSource::Usage,
            Some(_) => TokenSource::Partial,
        };
        record.service_tier = usage.tier.and_then(ServiceTier::stored);
        record.server_queue_us = usage.queue_us;
        record.server_prefill_us = usage.prefill_us;
        record.server_decode_us = usage.decode_us;
        record.server_total_us = usage.total_us;
    }
}

impl Meter {
    /// For a request that asks for this many choices, each within this bound.
    pub fn new(dispatch: Instant, choices_asked: u32, bound: LengthBound, key: Option<HashedKey>) -> Meter {
        Meter {
            dispatch,
            times: EventTimes::default(),
            counts: PayloadCounts::default(),
            keepalives: 0,
            malformed: 0,
            readable: false,
            says: false,
            gaps: Gaps::default(),
            burst: BurstMeter::default(),
            usage: UsageMeter::default(),
            finish_reason: None,
            choices: ChoiceBits { seen: 0, finished: 0, open: 0, asked: choices_asked },
            endless: EndlessCheck { bound, free_chars: bound.free_chars(choices_asked) },
            names: AnswerNames::default(),
            stalled: false,
            key,
        }
    }

    /// Its usage is that of a job, whichever row is the first to report it.
    pub fn set_job(&mut self, job: Option<JobCost>) {
        self.usage.job = job;
    }

    /// Sets the zero of all times.
    pub fn begin(&mut self, dispatch: Instant) {
        self.dispatch = dispatch;
    }

    /// Usage and times from the headers.
    pub fn head(&mut self, usage: Usage) {
        self.usage.head = usage;
    }

    /// A read of the body returned.
    pub fn read(&mut self, at: Instant) {
        self.times.first_byte.get_or_insert_with(|| micros_between(self.dispatch, at));
    }

    pub fn keepalive(&mut self) {
        self.keepalives += 1;
    }

    /// An event other than a comment or a ping.
    pub fn event(&mut self, at: Instant) {
        self.times.first_event.get_or_insert_with(|| micros_between(self.dispatch, at));
    }

    pub fn chunk(&mut self, chunk: &Chunk<'_>, at: Instant) {
        self.says |= chunk.says();
        chunk.payload.into_iter().for_each(|payload| self.payload(payload, at));
        self.choices.note(chunk);
        if let Some(reason) = &chunk.finish_reason {
            self.times.finish.get_or_insert_with(|| micros_between(self.dispatch, at));
            // The last reason counts: a broken answer may carry a second one.
            if self.finish_reason.as_deref() != Some(reason) {
                self.finish_reason = Some(kept(reason, self.key.as_ref(), 64));
            }
        }
        self.names.take(chunk, self.key.as_ref());
        // Without a finish reason, a chunk of usage alone is the last one.
        let is_behind = self.times.finish.is_some() || chunk.usage_only && self.times.first_token.is_some();
        self.usage.take(chunk, is_behind);
    }

    pub fn eof(&mut self, at: Instant) {
        self.times.eof.get_or_insert(micros_between(self.dispatch, at));
    }

    /// Microseconds from dispatch to the first token.
    pub fn first_token_us(&self) -> Option<i64> {
        self.times.first_token.map(|(at, _)| at)
    }

    /// Microseconds from dispatch to the first token that is not reasoning.
    pub fn first_answer_us(&self) -> Option<i64> {
        self.times.first_answer
    }

    /// Tokens so far, at least: an event may hold several, and a token has four characters at most.
    pub fn tokens(&self) -> i64 {
        self.counts.events.max(self.counts.chars / 4)
    }

    /// When the latest token came.
    pub fn last_token_at(&self) -> Option<Instant> {
        self.times.last_token.map(|at_us| self.dispatch + Duration::from_micros(at_us.unsigned_abs()))
    }

    /// Whether it goes on without end. A comparison, for nearly every answer.
    #[inline]
    pub fn is_endless(&self) -> bool {
        self.counts.chars > self.endless.free_chars && self.exceeds_bound()
    }

    #[cold]
    fn exceeds_bound(&self) -> bool {
        self.endless.bound.is_exceeded(self.counts.length(), self.choices.asked, self.choices.seen)
    }

    /// From where on an answer is endless.
    pub fn bound(&self) -> LengthBound {
        self.endless.bound
    }

    /// Whether every choice that was seen or requested has a finish reason. `ended`: only those that were seen count.
    pub fn has_finished(&self, ended: bool) -> bool {
        self.times.finish.is_some() && self.choices.are_finished(ended)
    }

    /// Whether there is a finish reason, and one for every choice that said that it has none yet. LiteLLM says nothing, and
    /// sends one reason for all choices. A provider that `omits` reasons may send none at all.
    pub fn has_no_open_choice(&self, omits: bool) -> bool {
        if self.times.finish.is_some() { !self.choices.has_open() } else { omits }
    }

    /// The finish reason, as its provider sent it.
    pub fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.as_deref()
    }

    /// Whether events arrived and none could be read.
    pub fn is_garbled(&self) -> bool {
        self.malformed > 0 && !self.readable
    }

    /// Usage from the body, completed from the headers.
    pub fn usage(&self) -> Usage {
        self.usage.all()
    }

    /// Writes the columns of the row.
    pub fn write(&self, record: &mut AttemptRecord) {
        self.times.write(record);
        record.payload_events = self.counts.events;
        record.reasoning_events = self.counts.reasoning_events;
        record.chars_total = self.counts.chars;
        record.keepalives = self.keepalives;
        record.burst = self.burst();
        record.client_stalled = self.stalled;
        record.model_reported = self.names.model.clone();
        record.response_id = self.names.id.clone();
        record.finish_reason = self.finish_reason.clone();
        self.usage.write(record);
    }

    /// Writes those that only an answer with tokens has, whose times are known.
    pub fn write_tokens(&self, record: &mut AttemptRecord) {
        let first = self.times.first_token.map(|(_, payload)| payload);
        record.first_token_us = self.first_token_us();
        record.first_kind = first.map(|payload| payload.kind.as_str());
        record.first_answer_us = self.times.first_answer;
        record.second_token_us = self.times.second_token;
        record.last_token_us = self.times.last_token;
        record.chars_first = first.map_or(0, |payload| i64::from(payload.chars));
        [record.gap_p50_us, record.gap_p95_us, record.gap_p99_us] = self.gaps.quantiles([0.5, 0.95, 0.99]);
        record.gap_max_us = self.gaps.max();
    }

    /// An event with payload.
    pub fn payload(&mut self, payload: Payload, at: Instant) {
        let now = micros_between(self.dispatch, at);
        let times = &mut self.times;
        match times.last_token {
            None => times.first_token = Some((now, payload)),
            Some(before) => {
                times.second_token.get_or_insert(now);
                self.gaps.add(now - before);
            }
        }
        times.last_token = Some(now);
        if payload.kind != PayloadKind::Reasoning {
            times.first_answer.get_or_insert(now);
        }
        self.usage.is_after_finish &= times.finish.is_some();
        self.counts.add(payload);
        self.burst.add(now, i64::from(payload.chars));
    }

    /// Whether the provider buffered its answer. None: too little data.
    fn burst(&self) -> Option<bool> {
        let usage = self.usage();
        let hidden = if self.counts.reasoning_events == 0 { usage.reasoning_tokens.unwrap_or(0) } else { 0 };
        // Reasoning that was not streamed took no time in the stream.
        let tokens = usage.output_tokens?.saturating_sub(hidden);
        let ((first, _), last) = (self.times.first_token?, self.times.last_token?);
        Some(self.burst.verdict(tokens, self.counts.events, self.counts.chars, last - first))
    }
}

/// With fewer tokens the answer is not judged as buffered.
const TOKENS_MIN: i64 = 16;
/// Events of a burst: 16 tokens in no more of them were buffered by the provider.
const EVENTS_MAX: i64 = 2;
/// Share of the characters within one window that makes an answer buffered.
const SHARE: f64 = 0.9;
const WINDOW_MS: usize = 10;
/// Tokens per second up to which an answer is no burst.
const TOKENS_PER_SECOND_MAX: f64 = 5_000.0;

/// Characters in a sliding window of ten milliseconds, and its maximum.
#[derive(Debug, Default)]
pub(super) struct BurstMeter {
    by_ms: [i64; WINDOW_MS],
    now_ms: i64,
    sum: i64,
    most: i64,
}

impl BurstMeter {
    /// Payload of this many characters, this long after the dispatch. Times must not decrease.
    pub fn add(&mut self, at_us: i64, chars: i64) {
        let ms = (at_us / 1_000).max(self.now_ms);
        for passed in self.now_ms + 1..=ms.min(self.now_ms + WINDOW_MS as i64) {
            self.sum -= std::mem::take(&mut self.by_ms[passed as usize % WINDOW_MS]);
        }
        self.now_ms = ms;
        self.by_ms[ms as usize % WINDOW_MS] += chars;
        self.sum += chars;
        self.most = self.most.max(self.sum);
    }

    /// Whether a complete answer was buffered.
    pub fn verdict(&self, tokens: i64, events: i64, chars: i64, took_us: i64) -> bool {
        let share = self.most as f64 / chars.max(1) as f64;
        let rate = tokens as f64 / (took_us.max(1) as f64 / 1e6);
        tokens >= TOKENS_MIN && (events <= EVENTS_MAX || share >= SHARE || rate > TOKENS_PER_SECOND_MAX)
    }
}

/// Steps in one octave, as a power of two.
const STEP_BITS: u32 = 4;
/// Octaves from 1 µs. Gaps above about 70 minutes share the last cell.
const OCTAVES: usize = 32;
const CELLS: usize = OCTAVES << STEP_BITS;

/// Uses 4 bytes for each cell up to the largest gap: at most 2 kB.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    counts: Vec<u32>,
    total: u64,
    max: i64,
}

impl Gaps {
    pub fn add(&mut self, gap_us: i64) {
        let gap_us = gap_us.max(0);
        let cell = cell(gap_us);
        if cell >= self.counts.len() {
            self.counts.resize(cell + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(cell) {
            *count = count.saturating_add(1);
        }
        self.total += 1;
        self.max = self.max.max(gap_us);
    }

    /// The largest gap, exact.
    pub fn max(&self) -> Option<i64> {
        (self.total > 0).then_some(self.max)
    }

    /// These quantiles of the gaps, which rise: each as the middle of its step, a thirty-third of the gap off at most.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<i64>; N] {
        let (mut seen, mut cells) = (0, self.counts.iter().enumerate());
        let mut last = None;
        shares.map(|share| {
            let rank = ((self.total as f64 * share).ceil() as u64).max(1);
            while seen < rank {
                let (cell, count) = cells.next()?;
                seen += u64::from(*count);
                last = Some(middle(cell).min(self.max));
            }
            last
        })
    }
}

/// Values below 16 have their own cells; above, the four bits after the leading one choose the step.
fn cell(value: i64) -> usize {
    let value = value.unsigned_abs();
    if value < 1 << STEP_BITS {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    let step = (value >> (octave - STEP_BITS)) & ((1 << STEP_BITS) - 1);
    ((((octave - STEP_BITS + 1) as usize) << STEP_BITS) + step as usize).min(CELLS - 1)
}

fn middle(cell: usize) -> i64 {
    let (octave, step) = (cell >> STEP_BITS, cell & ((1 << STEP_BITS) - 1));
    if octave == 0 {
        return step as i64;
    }
    let width = 1i64 << (octave - 1);
    ((1 << STEP_BITS) + step as i64) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(chars: u32) -> Chunk<'static> {
        Chunk { payload: Some(Payload { kind: PayloadKind::Text, chars }), ..Chunk::default() }
    }

    fn metered(steps: &[(u64, Chunk<'_>)]) -> (Meter, Instant) {
        let start = Instant::now();
        let mut meter = Meter::new(start, 1, LengthBound::new(Some(100), None, 0), None);
        for (millis, chunk) in steps {
            let at = start + Duration::from_millis(*millis);
            meter.read(at);
            meter.event(at);
            meter.chunk(chunk, at);
        }
        (meter, start)
    }

    fn usage(json: &'static str) -> Chunk<'static> {
        Chunk { usage: Some(json.into()), usage_only: true, ..Chunk::default() }
    }

    #[test]
    fn only_payload_sets_the_first_token() {
        let reasoning = Chunk { payload: Some(Payload { kind: PayloadKind::Reasoning, chars: 2 }), ..Chunk::default() };
        let (meter, _) = metered(&[(5, Chunk::default()), (10, reasoning), (30, text(3)), (60, text(3))]);
        assert_eq!(
            (meter.times.first_byte, meter.times.first_event, meter.first_token_us()),
            (Some(5_000), Some(5_000), Some(10_000))
        );
        assert_eq!(
            (meter.times.first_answer, meter.times.second_token, meter.times.last_token),
            (Some(30_000), Some(30_000), Some(60_000))
        );
        assert_eq!((meter.counts.events, meter.counts.reasoning_events, meter.counts.chars), (3, 1, 8));
    }

    #[test]
    fn each_kind_of_payload_can_be_endless() {
        let payload = |kind, chars| Chunk { payload: Some(Payload { kind, chars }), choices: 1, ..Chunk::default() };
        let ends_at = |kind, chars: u32| {
            let (mut meter, at) = metered(&[]);
            (1..=100_000).find(|_| {
                meter.chunk(&payload(kind, chars), at);
                meter.is_endless()
            })
        };
        assert_eq!(ends_at(PayloadKind::Text, 32), Some(401), "four times its max_tokens");
        assert_eq!(ends_at(PayloadKind::Tool, 4), Some(401 * 8));
        assert_eq!(ends_at(PayloadKind::Refusal, 6_400), Some(9));
        assert_eq!(ends_at(PayloadKind::Reasoning, 4), Some(401 * 32));
        assert_eq!(ends_at(PayloadKind::Audio, 65_536), Some(401));
        assert_eq!(ends_at(PayloadKind::Image, 1_000), Some(401 * 65_536 / 1_000 + 1));
        let (mut meter, at) = metered(&[]);
        for choice in 0..3 {
            let chunk = Chunk { choices: 1 << choice, ..payload(PayloadKind::Text, 32) };
            (0..400).for_each(|_| meter.chunk(&chunk, at));
        }
        assert!(!meter.is_endless(), "three answers");
    }

    #[test]
    fn usage_in_the_middle_is_partial_and_at_the_end_is_whole() {
        let finish = Chunk { finish_reason: Some("stop".into()), ..Chunk::default() };
        let source =
            |steps: &[(u64, Chunk<'_>)]| if metered(steps).0.usage.is_after_finish { "usage" } else { "partial" };
        assert_eq!(source(&[(1, text(1)), (2, usage(r#"{"completion_tokens":1}"#)), (3, text(1))]), "partial");
        assert_eq!(
            source(&[(1, text(1)), (2, usage(r#"{"completion_tokens":1}"#))]),
            "usage",
            "alone, and the last one"
        );
        assert_eq!(source(&[(1, text(1)), (2, finish), (3, usage(r#"{"completion_tokens":1}"#))]), "usage");
    }

    #[test]
    fn a_buffered_stream_is_a_burst() {
        let twenty = || usage(r#"{"completion_tokens":20}"#);
        let burst = |steps: Vec<(u64, Chunk<'_>)>| metered(&steps).0.burst();
        assert_eq!(burst(vec![(100, text(80)), (101, twenty())]), Some(true), "one event");
        let paced: Vec<_> = (0..20).map(|token| (100 + token * 20, text(4))).chain([(600, twenty())]).collect();
        assert_eq!(burst(paced), Some(false));
        let lump: Vec<_> =
            [(100, text(4))].into_iter().chain((0..19).map(|_| (800, text(4)))).chain([(801, twenty())]).collect();
        assert_eq!(burst(lump), Some(true), "nearly all at once");
        assert_eq!(
            burst(vec![(100, text(9)), (101, usage(r#"{"completion_tokens":3}"#))]),
            Some(false),
            "too few tokens"
        );
        assert_eq!(burst(vec![(100, text(9))]), None, "unknown count");
    }
}

#[cfg(test)]
mod burst_tests {
    use super::*;

    fn most(events: &[(i64, i64)]) -> i64 {
        let mut burst = BurstMeter::default();
        events.iter().for_each(|(at_ms, chars)| burst.add(at_ms * 1_000, *chars));
        burst.most
    }

    #[test]
    fn the_window_slides() {
        assert_eq!(most(&[(0, 1), (9, 1)]), 2);
        assert_eq!(most(&[(0, 1), (10, 1)]), 1);
        assert_eq!(most(&[(5, 1), (13, 50), (14, 50), (22, 3)]), 103);
        assert_eq!(most(&[(5, 7), (5_000, 2), (5_001, 2)]), 7);
    }
}

#[cfg(test)]
mod gap_sketch_tests {
    use super::*;

    #[test]
    fn every_value_is_found_within_its_step() {
        for value in (0..5_000).chain([10_000, 123_456, 9_999_999, 3_600_000_000]) {
            let middle = middle(cell(value));
            assert!((middle - value).abs() as f64 <= value as f64 * 0.032 + 0.5, "{value} became {middle}");
        }
    }

    #[test]
    fn quantiles_and_maximum() {
        let mut gaps = Gaps::default();
        assert_eq!((gaps.quantiles([0.5]), gaps.max()), ([None], None));
        (1..=100).for_each(|gap| gaps.add(gap * 1_000));
        assert_eq!(gaps.max(), Some(100_000));
        let [p50, p99] = gaps.quantiles([0.5, 0.99]).map(Option::unwrap);
        assert!((48_000..52_000).contains(&p50) && (96_000..=100_000).contains(&p99), "{p50} {p99}");
    }

    #[test]
    fn quantiles_of_random_gaps_are_the_exact_ones_within_their_step() {
        let mut draws = fastrand::Rng::with_seed(7);
        for round in 0..200 {
            // From even tokens to bursts with long pauses.
            let spread = f64::from(round % 10);
            let gap = |draws: &mut fastrand::Rng| (20_000.0 * (spread * (draws.f64() - 0.5)).exp()) as i64;
            let mut values: Vec<i64> = (0..1 + draws.usize(0..2_000)).map(|_| gap(&mut draws)).collect();
            let mut gaps = Gaps::default();
            values.iter().for_each(|value| gaps.add(*value));
            values.sort_unstable();
            let shares = [0.5, 0.95, 0.99];
            for (share, found) in shares.into_iter().zip(gaps.quantiles(shares)) {
                let exact = values[(values.len() as f64 * share).ceil() as usize - 1];
                let off = (found.unwrap() - exact).abs() as f64;
                assert!(off <= exact as f64 * 0.032 + 0.5, "{share} of {}: {found:?} for {exact}", values.len());
            }
        }
    }
}
