//! The observation for the statistics at the end of an attempt, taken from its row.

use photofinish_base::failure::FailureKind;
use photofinish_history::estimate::speed::Decoding;
use photofinish_history::record::table::Subset as _;
use photofinish_history::record::{AttemptOutcome, AttemptRecord};
use photofinish_routing::learning::ObservedEnd;
use photofinish_routing::verdict::slows_hedging;

/// `choices`: the number of answers that the request asked for, if given.
pub fn ending(record: &AttemptRecord, choices: Option<i64>) -> ObservedEnd {
    let decoding = Decoding::of(record);
    let failure = record.failure.and_then(FailureKind::from_name);
    let waited = record.ttft_obs_us.filter(|_| record.ttft_event == Some(0));
    ObservedEnd {
        waited_us: if record.plain { record.cancel_us.filter(|_| record.eof_us.is_none()) } else { waited },
        whole_us: record
            .finish_us
            .or(record.last_token_us)
            .filter(|_| !record.plain && record.outcome == AttemptOutcome::Won),
        // An answer under way at the deadline is not the upstream's fault.
        failed: failure.is_some_and(slows_hedging)
            && !(failure == Some(FailureKind::Timeout) && record.first_token_us.is_some()),
        billed: !matches!(record.outcome, AttemptOutcome::Failed | AttemptOutcome::Shed) && record.connect_us.is_some(),
        served: record.outcome == AttemptOutcome::Won,
        tpot_us: decoding.tpot_us(choices),
        input_tokens: record.input_tokens,
        cached_tokens: record.cached_input_tokens,
        output_tokens: decoding.tokens_out(),
        generated: record.payload_events.max(record.chars_total / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_history::record::sample;

    #[test]
    fn what_was_cut_is_a_wait_and_no_failure() {
        let lost = AttemptRecord { connect_us: Some(11), ..sample::lost(0, 99_000) };
        let lost = ending(&lost, None);
        assert_eq!((lost.waited_us, lost.failed, lost.billed, lost.served), (Some(99_000), false, true, false));
        assert!(!ending(&sample::lost(0, 99_000), None).billed, "it never had a connection");
        let failed = ending(&sample::failed(0), None);
        assert_eq!((failed.waited_us, failed.failed, failed.billed), (None, true, false));
        let won = ending(&AttemptRecord { failure: None, ..sample::won(0) }, Some(1));
        assert_eq!((won.waited_us, won.failed, won.billed, won.served), (None, false, true, true));
        assert_eq!((won.tpot_us, won.output_tokens, won.cached_tokens), (Some(50_000.0), Some(41), Some(512)));
        assert_eq!(won.generated, 41);
        let cut_off = AttemptRecord { failure: Some("timeout"), outcome: AttemptOutcome::FailedMid, ..sample::won(0) };
        assert!(!ending(&cut_off, None).failed, "by the total deadline");
        let late =
            AttemptRecord { failure: Some("timeout"), outcome: AttemptOutcome::Timeout, ..sample::lost(0, 30_000_000) };
        let late = ending(&late, None);
        assert_eq!((late.waited_us, late.failed, late.served), (Some(30_000_000), true, false));
    }
}
