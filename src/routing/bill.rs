//! The cost of an attempt in its row: exact where its tokens were counted, else between bounds.
//!
//! Pure. Not for plans, which use the estimate of `tariff`. The reasons for each bound: `docs/measurement.md`.

use crate::config::{CancelBilling, Price};
use crate::failure::FailureKind;
use crate::history::{AttemptOutcome, AttemptRecord, CostBasis, RaceRecord, TokenSource};
use crate::protocol::{PayloadKind, Surface};

/// No model writes faster; a stream above that was buffered by its provider.
const TOKENS_PER_SECOND_MAX: f64 = 5_000.0;

/// Two tokenizers are taken to differ by no more on one prompt.
const TOKENIZERS_DIFFER_BY: f64 = 2.0;

/// By what one attempt is billed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BillBounds {
    pub price: Option<Price>,
    /// What a hang-up does to the bill.
    pub cancel_billing: CancelBilling,
    /// What its upstream counted lately; none where it counted nothing.
    pub per_byte: Option<PerByte>,
    /// What all upstreams counted.
    pub per_byte_elsewhere: Option<PerByte>,
}

/// Tokens of a prompt for each byte of the request that it came in: the fewest and the most of those that were counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerByte {
    pub least: f64,
    pub most: f64,
}

/// Tokens, between two bounds.
type Range = (f64, f64);

impl PerByte {
    /// None where there is nothing to divide.
    pub fn of(tokens: i64, bytes: i64) -> Option<PerByte> {
        let ratio = tokens as f64 / bytes as f64;
        (tokens > 0 && bytes > 0).then_some(PerByte { least: ratio, most: ratio })
    }

    pub fn union(self, other: PerByte) -> PerByte {
        PerByte { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// For another tokenizer than those that it was learnt of, or where it was learnt of few prompts.
    pub fn widened(self) -> PerByte {
        PerByte { least: self.least / TOKENIZERS_DIFFER_BY, most: self.most * TOKENIZERS_DIFFER_BY }
    }
}

impl BillBounds {
    /// Writes what is known of the cost once the attempt is over: the provider's own word, else usage at the price.
    pub fn count(&self, row: &mut AttemptRecord, reported: Option<f64>) {
        (row.cost_usd, row.cost_basis) = match (reported, self.price.and_then(|price| counted(row, price))) {
            (Some(cost), _) => (Some(cost), CostBasis::Reported),
            (None, Some(cost)) if row.tok_src == TokenSource::Usage || is_embedding(row) => {
                (Some(cost), CostBasis::Computed)
            }
            (None, Some(cost)) => (Some(cost), CostBasis::AtLeast),
            (None, None) => (None, CostBasis::Unknown),
        };
    }

    /// Between which bounds the cost lies. `prompt`: what is known of its length, `answer`: of the longest that it would have
    /// written.
    fn bounds(
        &self,
        price: Price,
        row: &AttemptRecord,
        prompt: Option<Range>,
        answer: Option<f64>,
    ) -> (f64, Option<f64>) {
        let was_cut = row.cancel_us.is_some();
        if row.connect_us.is_none() || was_refused(row) {
            return (0.0, Some(0.0));
        }
        let (least, most) = match row.input_tokens {
            // Its provider has counted it, so it is billed.
            Some(input) => {
                let cost = prompt_cost(row, input, price) / 1e6;
                (cost, Some(cost))
            }
            None => {
                let (low, high) = (price.input.min(price.cached) / 1e6, price.input.max(price.cached) / 1e6);
                let is_billed = match self.cancel_billing {
                    _ if !was_cut => row.first_token_us.is_some(),
                    CancelBilling::BillsFull => true,
                    CancelBilling::Stops => row.headers_us.is_some(),
                    CancelBilling::Unknown => false,
                };
                let least = prompt.filter(|_| is_billed).map_or(0.0, |(tokens, _)| tokens * low);
                (least, prompt.map(|(_, tokens)| tokens * high))
            }
        };
        let written = row.output_tokens.unwrap_or(0).max(0) as f64;
        let until_cut = row.cancel_us.filter(|_| self.cancel_billing == CancelBilling::Stops);
        let until_cut = until_cut.map(|us| us as f64 / 1e6 * TOKENS_PER_SECOND_MAX);
        let output = [answer, until_cut].into_iter().flatten().reduce(f64::min).map(|tokens| tokens.max(written));
        let most = most.zip(output).map(|(most, tokens)| most + tokens * price.output / 1e6);
        let least = least.max(row.cost_usd.unwrap_or(0.0));
        (least, most.map(|most| most.max(least)))
    }

    /// Fills in the bounds of a row that [`BillBounds::count`] has seen, and says by them what it cost where nobody counted it.
    fn settle(&self, row: &mut AttemptRecord, prompt: Option<Range>, answer: Option<f64>, counts: bool) {
        if matches!(row.cost_basis, CostBasis::Reported | CostBasis::Computed) {
            (row.cost_usd_min, row.cost_usd_max) = (row.cost_usd, row.cost_usd);
            return;
        }
        let Some(price) = self.price else { return };
        // To count a prompt is free wherever it is offered.
        let (min, max) = if counts { (0.0, Some(0.0)) } else { self.bounds(price, row, prompt, answer) };
        (row.cost_usd_min, row.cost_usd_max) = (Some(min), max);
        (row.cost_usd, row.cost_basis) = match max {
            Some(max) if max <= min => (Some(min), CostBasis::Computed),
            _ if min > 0.0 => (Some(min), CostBasis::AtLeast),
            Some(max) => (Some(max), CostBasis::AtMost),
            None => (None, CostBasis::Unknown),
        };
    }
}

/// Fills in the bounds of all attempts of a race that is over: what one of them counted bounds the others.
pub fn settle(race: &RaceRecord, attempts: &mut [(&mut AttemptRecord, BillBounds)]) {
    let rows = || attempts.iter().map(|(row, _)| &**row);
    let answer = answer_tokens(race, rows());
    let counted = rows().filter_map(|row| PerByte::of(row.input_tokens?, race.input_bytes)).reduce(PerByte::union);
    let bytes = race.input_bytes.max(0) as f64;
    let counts = race.api == Surface::CountTokens.as_str();
    for (row, bill) in attempts {
        let per_byte = match (bill.per_byte, counted) {
            // Prompts of this kind may be new: many bytes of an image, a text that is packed tight.
            (Some(learnt), counted) => Some(counted.map_or(learnt, |counted| learnt.union(counted))),
            (None, counted) => counted.or(bill.per_byte_elsewhere).map(PerByte::widened),
        };
        let prompt = per_byte.map(|per_byte| (bytes * per_byte.least, bytes * per_byte.most));
        bill.settle(row, prompt, answer, counts);
    }
}

/// The longest answer that a loser would have written: the winner's own, or what was asked for at most where that is less. None
/// where neither is known.
fn answer_tokens<'a>(race: &RaceRecord, mut rows: impl Iterator<Item = &'a AttemptRecord>) -> Option<f64> {
    if race.api == Surface::Embeddings.as_str() {
        return Some(0.0);
    }
    let winner = rows.find(|row| race.winner == Some(row.ordinal) && row.tok_src == TokenSource::Usage);
    let whole = winner.and_then(|winner| Some(generated(winner.output_tokens?, winner)));
    let choices = race.n_choices.unwrap_or(1).max(1);
    let asked = race.max_tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens.saturating_mul(choices));
    [whole, asked].into_iter().flatten().min().map(|tokens| tokens as f64)
}

/// At the price; none where input or output was not counted.
fn counted(row: &AttemptRecord, price: Price) -> Option<f64> {
    let (input, output) = (row.input_tokens?, row.output_tokens.or(is_embedding(row).then_some(0))?);
    Some((prompt_cost(row, input, price) + generated(output, row) as f64 * price.output) / 1e6)
}

/// Millionths of a US dollar.
fn prompt_cost(row: &AttemptRecord, input: i64, price: Price) -> f64 {
    let cached = row.cached_input_tokens.unwrap_or(0).clamp(0, input.max(0));
    (input - cached) as f64 * price.input + cached as f64 * price.cached
}

/// Its input alone is billed.
fn is_embedding(row: &AttemptRecord) -> bool {
    row.first_kind == Some(PayloadKind::Whole.as_str())
}

/// Some vendors leave reasoning out of the output that they count.
fn generated(output: i64, row: &AttemptRecord) -> i64 {
    output + row.reasoning_tokens.filter(|reasoning| *reasoning > output).unwrap_or(0)
}

/// Its provider answered with an error, which nobody bills. Some bill what breaks their policy.
fn was_refused(row: &AttemptRecord) -> bool {
    let by_policy = row.outcome == AttemptOutcome::Refused || row.failure == Some(FailureKind::ContentPolicy.as_str());
    !by_policy && row.http_status.is_some_and(|status| status >= 400)
}

#[cfg(test)]
mod tests;
