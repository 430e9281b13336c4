//! What to know when reading the figures of a stage: failures by name, answers that are not what was asked for, a server that
//! counts oddly. Pure. Not for the client's own part: see `trust`.

use super::figures::{StageFigures, StageQuestion};
use super::measured::MeasuredRequest;
use super::workload::TOKENS_MAX;
use photofinish_history::estimate::speed::SHORT_ANSWER;

/// Share of short answers, and of cached input, above which a note is made.
const SHORT_NOTE: f64 = 0.05;
const CACHED_NOTE: f64 = 0.01;
/// Share of answers that came whole, or on a connection of their own, above which a note is made.
const MOST: f64 = 0.5;
/// How far the mean input may be off.
const INPUT_OFF: f64 = 0.02;
/// Little's law holds within this.
const LITTLE: f64 = 0.02;

/// One sentence each.
pub fn notes(stage: &StageFigures, all: &[&MeasuredRequest], question: &StageQuestion<'_>) -> Vec<String> {
    let answered: Vec<&MeasuredRequest> = all.iter().copied().filter(|request| request.is_answered()).collect();
    let mut notes: Vec<String> = failures(stage).into_iter().collect();
    if answered.is_empty() {
        return notes;
    }
    notes.extend(of_answers(stage, &answered, question));
    notes.extend(of_usage(stage, question));
    notes.extend(little(stage, all));
    notes
}

/// The most frequent first.
fn failures(stage: &StageFigures) -> Option<String> {
    let mut failures: Vec<(&String, &usize)> = stage.failures.iter().collect();
    failures.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let each: Vec<String> = failures.iter().map(|(name, count)| format!("{count} {name}")).collect();
    (!each.is_empty()).then(|| format!("failed: {}", each.join(", ")))
}

fn of_answers(stage: &StageFigures, answered: &[&MeasuredRequest], question: &StageQuestion<'_>) -> Vec<String> {
    let n = answered.len();
    let count = |of: &dyn Fn(&MeasuredRequest) -> bool| answered.iter().filter(|request| of(request)).count();
    let wanted = question.workload.output_tokens;
    let mut notes = Vec::new();
    let short = count(&|request| {
        request.output_tokens.is_some_and(|tokens| (tokens as f64) < SHORT_ANSWER * f64::from(wanted))
    });
    if question.made && short as f64 > SHORT_NOTE * n as f64 {
        notes.push(format!("{short} of {n} answers are shorter than 80 % of {wanted}"));
    }
    let absurd = count(&|request| request.output_tokens.is_some_and(|tokens| tokens > i64::from(TOKENS_MAX)));
    if absurd > 0 {
        notes.push(format!(
            "the server counts more than {TOKENS_MAX} tokens in {absurd} of {n} answers: they are in no rate"
        ));
    }
    let whole = count(&|request| {
        request.output_tokens.is_some_and(|tokens| tokens > 1)
            && request.ttft_us.is_some()
            && request.ttft_us == request.e2e_us
    });
    if whole as f64 > MOST * n as f64 {
        notes.push(format!(
            "{whole} of {n} answers came at once, not as a stream: their TTFT is that of the whole answer"
        ));
    }
    // Each user opens one connection; an open loop as many as are in flight.
    let opened = stage.users.unwrap_or(stage.in_flight.ceil() as usize);
    let fresh = count(&|request| request.conn_reused == Some(false));
    if fresh > opened && fresh as f64 > MOST * n as f64 {
        notes.push(format!("{fresh} of {n} answers needed a new connection, whose handshake is in their TTFT"));
    }
    notes
}

fn of_usage(stage: &StageFigures, question: &StageQuestion<'_>) -> Vec<String> {
    let Some((mean, share)) = stage.input_tokens.zip(stage.cached_share) else {
        return vec!["the server reports no usage that can be read: TPOT, tok/s and cost are unknown".to_owned()];
    };
    let mut notes = Vec::new();
    let wanted = f64::from(question.workload.input_tokens);
    if question.made && (mean / wanted - 1.0).abs() > INPUT_OFF {
        notes.push(format!("prompts have {mean:.0} tokens in the mean, not {wanted:.0}"));
    }
    if question.unique && share > CACHED_NOTE {
        notes.push(format!("{:.0} % of the input was cached though no two prompts begin alike", share * 100.0));
    }
    if !question.unique && share > CACHED_NOTE {
        notes.push(format!("{:.0} % of the input came from the server's prefix cache", share * 100.0));
    }
    notes
}

fn little(stage: &StageFigures, all: &[&MeasuredRequest]) -> Option<String> {
    let took =
        all.iter().map(|request| (request.ended_us - request.sent_us) as f64).sum::<f64>() / all.len() as f64 / 1e6;
    let little = all.len() as f64 / stage.seconds * took;
    // The two ends of a window count requests in part.
    let allowed = LITTLE + 2.0 * took / stage.seconds;
    (stage.seconds > 20.0 * took && (little / stage.in_flight - 1.0).abs() > allowed)
        .then(|| format!("Little's law does not hold: {:.2} in flight, {little:.2} by rate and time", stage.in_flight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::RequestEnd;
    use crate::bench::trust::ClientLoad;
    use crate::bench::workload::Workload;
    use crate::bench::{BlockResult, Load, stage};

    fn answer(at: i64) -> MeasuredRequest {
        MeasuredRequest {
            scheduled_us: at * 100_000,
            sent_us: at * 100_000,
            ended_us: at * 100_000 + 90_000,
            end: RequestEnd::Answered,
            ttft_us: Some(20_000),
            e2e_us: Some(90_000),
            tpot_us: Some(10_000.0),
            input_tokens: Some(40),
            output_tokens: Some(8),
            conn_reused: Some(true),
            ..MeasuredRequest::default()
        }
    }

    fn figures(requests: Vec<MeasuredRequest>) -> StageFigures {
        let workload = Workload::new("w", 40, 8);
        let question = StageQuestion {
            workload: &workload,
            unique: true,
            made: true,
            warm_up: None,
            slo: None,
            calibration_us: None,
        };
        let issued_us = requests.last().unwrap().sent_us;
        let load = Load::Users(1);
        let block = BlockResult { load, requests, issued_us, stop: None, client: ClientLoad::default() };
        stage::figures("a/m", &[block], &question)
    }

    fn with(n: i64, change: impl Fn(MeasuredRequest) -> MeasuredRequest) -> StageFigures {
        figures((0..n).map(|at| change(answer(at))).collect())
    }

    #[test]
    fn a_plain_server_needs_no_note() {
        assert_eq!(with(40, |request| request).notes, Vec::<String>::new());
    }

    #[test]
    fn odd_servers_are_told() {
        let (twice, huge) = (i64::MAX / 3, 1_000_000_000_000);
        for (stage, said) in [
            (
                with(40, |of| MeasuredRequest { e2e_us: of.ttft_us, ..of }),
                "40 of 40 answers came at once, not as a stream",
            ),
            (
                with(40, |of| MeasuredRequest { conn_reused: Some(false), ..of }),
                "40 of 40 answers needed a new connection",
            ),
            (
                with(40, |of| MeasuredRequest { output_tokens: Some(2), ..of }),
                "40 of 40 answers are shorter than 80 % of 8",
            ),
            (
                with(40, |of| MeasuredRequest { output_tokens: Some(huge), ..of }),
                "the server counts more than 2000000 tokens in 40 of 40",
            ),
            (
                with(40, |of| MeasuredRequest { input_tokens: Some(0), ..of }),
                "prompts have 0 tokens in the mean, not 40",
            ),
            (with(40, |of| MeasuredRequest { input_tokens: Some(twice), ..of }), "tokens in the mean, not 40"),
            (with(40, |of| MeasuredRequest { input_tokens: None, ..of }), "the server reports no usage"),
            (
                with(40, |of| MeasuredRequest { cached_input_tokens: Some(20), ..of }),
                "50 % of the input was cached though no two prompts begin alike",
            ),
        ] {
            assert!(stage.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", stage.notes);
        }
        let absurd = with(40, |of| MeasuredRequest { output_tokens: Some(huge), ..of });
        assert_eq!(absurd.tok_s_all, None, "{absurd:?}");
    }

    #[test]
    fn a_server_that_dies_leaves_its_answers_and_the_names_of_its_failures() {
        let died = |at: i64| {
            let failure = Some(if at % 10 == 0 { "reset" } else { "connect" });
            let (ttft_us, output_tokens, input_tokens) = (None, None, None);
            MeasuredRequest { end: RequestEnd::Failed, failure, ttft_us, output_tokens, input_tokens, ..answer(at) }
        };
        let stage = figures((0..20).map(answer).chain((20..60).map(died)).collect());
        assert_eq!((stage.count(RequestEnd::Answered), stage.failed()), (20, 40), "failures are no warm-up");
        assert!(stage.ttft_ms.is_some_and(|ttft| ttft.n == 20));
        assert_eq!(stage.notes[0], "failed: 36 connect, 4 reset");
    }
}
