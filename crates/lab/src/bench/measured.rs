//! One request of a stage, from its rows, and the targets that it may miss: the latency that a user accepts. All of them
//! must be met at once (goodput, DistServe 2024).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use photofinish_base::failure::FailureKind;
use photofinish_config::names::names;
use photofinish_facts::estimate::cost::CostSum;

/// How a request of a stage ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    /// A whole answer.
    Answered,
    /// 429, or set aside because of one.
    RateLimited,
    TimedOut,
    #[default]
    Failed,
    /// Not sent: too many were in flight. Open loop only.
    Dropped,
    /// The run ended before it did: neither good nor bad.
    CutShort,
}

/// One request. Times are microseconds. `scheduled_us`, `sent_us` and `ended_us` count from the beginning of its block, the
/// others from the dispatch of its first attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRequest {
    /// The number of its prompt.
    pub number: u64,
    pub scheduled_us: i64,
    /// The dispatch of its first attempt.
    pub sent_us: i64,
    pub ended_us: i64,
    pub end: RequestEnd,
    /// The failure's name, such as `server_error`.
    pub failure: Option<&'static str>,
    /// In the words of the server that refused it. They may quote the prompt.
    pub said: Option<String>,
    pub ttft_us: Option<i64>,
    /// To the last token.
    pub e2e_us: Option<i64>,
    pub tpot_us: Option<f64>,
    /// The answer was one token, or came in one event: it meets any TPOT.
    pub at_once: bool,
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// What all its attempts cost.
    pub cost: CostSum,
    pub conn_reused: Option<bool>,
    /// Attempts that were started for it.
    pub attempts: i64,
}

impl MeasuredRequest {
    pub fn is_answered(&self) -> bool {
        self.end == RequestEnd::Answered
    }

    /// In the server's words, if the prompt was too long for it.
    pub fn said_too_long(&self) -> Option<&str> {
        let is_too_long = |failure| matches!(failure, FailureKind::ContextLength | FailureKind::TooLarge);
        self.said.as_deref().filter(|_| self.failure.and_then(FailureKind::from_name).is_some_and(is_too_long))
    }

    /// Whether it is known when it was sent: a dropped one was not, and one that was cut short has no row.
    pub fn has_dispatch(&self) -> bool {
        !matches!(self.end, RequestEnd::Dropped | RequestEnd::CutShort)
    }

    /// How late it was sent.
    pub fn lag_us(&self) -> i64 {
        (self.sent_us - self.scheduled_us).max(0)
    }

    /// From the scheduled time to the first token: what a client feels in an open loop.
    pub fn client_ttft_us(&self) -> Option<i64> {
        Some(self.lag_us() + self.ttft_us?)
    }

    /// From the scheduled time to the last token.
    pub fn client_e2e_us(&self) -> Option<i64> {
        Some(self.lag_us() + self.e2e_us?)
    }

    /// The same request, had each of its times been this much longer (shorter, below 0).
    pub(super) fn moved(&self, by_us: f64) -> MeasuredRequest {
        let move_one = |us: i64| (us as f64 + by_us).max(0.0) as i64;
        let (ttft_us, e2e_us) = (self.ttft_us.map(move_one), self.e2e_us.map(move_one));
        // Those between the first token and the last share it.
        let generation_us = self.e2e_us.zip(self.ttft_us).map(|(e2e, ttft)| (e2e - ttft) as f64);
        let scale = generation_us.filter(|us| *us > 0.0).map_or(1.0, |us| (1.0 + by_us / us).max(0.0));
        MeasuredRequest { ttft_us, e2e_us, tpot_us: self.tpot_us.map(|tpot| tpot * scale), ..self.clone() }
    }

    /// The same request, in a block where it was scheduled at that time.
    pub(super) fn scheduled_at(self, scheduled_us: i64) -> MeasuredRequest {
        let since = scheduled_us - self.scheduled_us;
        MeasuredRequest { scheduled_us, sent_us: self.sent_us + since, ended_us: self.ended_us + since, ..self }
    }
}

/// The targets of a run, in microseconds. At least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSlo {
    /// To the first token, from the scheduled time in an open loop.
    pub ttft_us: Option<i64>,
    /// Per output token after the first.
    pub tpot_us: Option<i64>,
    /// To the last token, from the same moment as `ttft_us`.
    pub e2e_us: Option<i64>,
}

names! {
    /// One of the targets.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SloTarget {
        Ttft = "ttft",
        Tpot = "tpot",
        E2e = "e2e",
    }
}

impl LoadSlo {
    /// Reads `ttft=500ms,tpot=50ms,e2e=10s`.
    ///
    /// # Errors
    /// In words, for an option's message.
    pub fn parse(text: &str, duration: impl Fn(&str) -> Result<Duration, String>) -> Result<LoadSlo, String> {
        let mut slo = LoadSlo::default();
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("expected ttft=500ms,tpot=50ms, not {part:?}"))?;
            let at = match name.trim() {
                "ttft" => &mut slo.ttft_us,
                "tpot" => &mut slo.tpot_us,
                "e2e" => &mut slo.e2e_us,
                other => return Err(format!("no target {other:?}; expected ttft, tpot or e2e")),
            };
            let value = duration(value.trim())?;
            if value.is_zero() {
                return Err(format!("{name}: expected more than 0"));
            }
            if at.replace(photofinish_base::clock::micros(value)).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(slo)
    }

    /// The targets that the request missed, as `stats` counts goodput. A request without an answer misses all of them; one that
    /// came at once meets any TPOT. None: not known, because its TPOT is unknown and it met the other targets.
    pub fn missed(&self, request: &MeasuredRequest) -> Option<Vec<SloTarget>> {
        let late =
            |limit: Option<i64>, value: Option<i64>| limit.is_some_and(|limit| value.is_none_or(|at| at > limit));
        let mut missed = Vec::new();
        let answered = request.is_answered();
        if late(self.ttft_us, request.client_ttft_us().filter(|_| answered)) {
            missed.push(SloTarget::Ttft);
        }
        let tpot = request.tpot_us.map(|tpot| tpot.ceil() as i64).or(request.at_once.then_some(0));
        let is_unknown = answered && tpot.is_none();
        if !is_unknown && late(self.tpot_us, tpot.filter(|_| answered)) {
            missed.push(SloTarget::Tpot);
        }
        if late(self.e2e_us, request.client_e2e_us().filter(|_| answered)) {
            missed.push(SloTarget::E2e);
        }
        if !answered && missed.is_empty() {
            missed.push(SloTarget::E2e);
        }
        let is_known = !missed.is_empty() || self.tpot_us.is_none() || !is_unknown;
        is_known.then_some(missed)
    }

    /// How long a request that meets all targets may take, for answers of `output_tokens`.
    pub fn longest_us(&self, output_tokens: u32) -> Option<i64> {
        let by_parts = self.ttft_us.zip(self.tpot_us).map(|(ttft, tpot)| ttft + tpot * i64::from(output_tokens));
        match (by_parts, self.e2e_us) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl fmt::Display for LoadSlo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("ttft", self.ttft_us), ("tpot", self.tpot_us), ("e2e", self.e2e_us)];
        let written = parts.into_iter().filter_map(|(name, us)| Some((name, us?)));
        let texts: Vec<String> = written.map(|(name, us)| format!("{name} ≤ {} ms", us as f64 / 1e3)).collect();
        f.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::RequestEnd;
    use super::*;
    use photofinish_config::units::parse_duration;

    fn read(text: &str) -> Result<LoadSlo, String> {
        LoadSlo::parse(text, |text| parse_duration(text).map_err(|error| error.to_string()))
    }

    #[test]
    fn targets_are_read() {
        let slo = LoadSlo { ttft_us: Some(500_000), tpot_us: Some(50_000), e2e_us: None };
        assert_eq!(read("ttft=500ms,tpot=50ms"), Ok(slo));
        assert_eq!(slo.to_string(), "ttft ≤ 500 ms, tpot ≤ 50 ms");
        for (text, said) in [
            ("", "expected ttft=500ms"),
            ("itl=5ms", "no target \"itl\""),
            ("ttft=0s", "more than 0"),
            ("ttft=1s,ttft=2s", "twice"),
            ("ttft=5", ""),
        ] {
            assert!(read(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn every_target_must_be_met_at_once() {
        let slo = read("ttft=500ms,tpot=50ms,e2e=10s").unwrap();
        let good = MeasuredRequest {
            end: RequestEnd::Answered,
            ttft_us: Some(400_000),
            e2e_us: Some(2_000_000),
            tpot_us: Some(49_999.0),
            output_tokens: Some(30),
            ..MeasuredRequest::default()
        };
        assert_eq!(slo.missed(&good), Some(vec![]));
        let missed = |request: MeasuredRequest| slo.missed(&request);
        // In an open loop the time before it was sent counts.
        assert_eq!(missed(MeasuredRequest { sent_us: 100_001, ..good.clone() }), Some(vec![SloTarget::Ttft]));
        assert_eq!(missed(MeasuredRequest { tpot_us: Some(50_000.5), ..good.clone() }), Some(vec![SloTarget::Tpot]));
        let unknown = MeasuredRequest { tpot_us: None, ..good.clone() };
        assert_eq!(missed(unknown.clone()), None, "its TPOT is unknown");
        assert_eq!(missed(MeasuredRequest { sent_us: 100_001, ..unknown.clone() }), Some(vec![SloTarget::Ttft]));
        assert_eq!(missed(MeasuredRequest { at_once: true, ..unknown.clone() }), Some(vec![]));
        assert_eq!(read("ttft=500ms").unwrap().missed(&unknown), Some(vec![]), "no TPOT was asked for");
        assert_eq!(missed(MeasuredRequest { end: RequestEnd::Failed, ..good }).unwrap().len(), 3);
    }

    #[test]
    fn a_good_request_takes_so_long_at_most() {
        assert_eq!(read("ttft=1s,tpot=10ms").unwrap().longest_us(100), Some(2_000_000));
        assert_eq!(read("ttft=1s,tpot=10ms,e2e=1500ms").unwrap().longest_us(100), Some(1_500_000));
        assert_eq!(read("ttft=1s").unwrap().longest_us(100), None);
    }
}
