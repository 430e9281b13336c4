//! The cost of an attempt for its row: exact if the provider counted its tokens, otherwise between bounds.
//!
//! Pure. Not for plans, which use the estimate of `tariff`. The reasons for each bound: `docs/measurement.md`.

#[cfg(test)]
mod tests;
mod tier;

use crate::record::{AttemptOutcome, AttemptRecord, RaceRecord, TokenSource};
use photofinish_base::failure::FailureKind;
use photofinish_config::{CancelBilling, Price, TokenCounts};
use photofinish_wire::{PayloadKind, Surface};

/// Tokens per second that a stopped loser may have generated. No model is faster: a faster stream was buffered by its
/// provider.
const TOKENS_PER_SECOND_MAX: f64 = 5_000.0;

/// Assumed maximum ratio between the counts of two tokenizers for one prompt.
const TOKENIZERS_DIFFER_BY: f64 = 2.0;

/// Assumed maximum ratio between the lengths of two answers to one request, of which short ones differ more.
const ANSWERS_DIFFER_BY: f64 = 4.0;
const SHORT_ANSWER: f64 = 256.0;

/// Costs are rounded to this fraction of a dollar: prices have four decimals per million tokens, and the rows store a whole number in half
/// the bytes.
pub const COST_STEPS: f64 = 1e10;

/// How one attempt is billed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BillBounds {
    pub price: Option<Price>,
    /// How a cancelled attempt is billed.
    pub cancel_billing: CancelBilling,
    /// Ratios counted recently by its upstream. None: it counted no prompt.
    pub per_byte: Option<PerByte>,
    /// Ratios counted by all upstreams.
    pub per_byte_elsewhere: Option<PerByte>,
    /// The request asks to keep parts of its prompt for an hour.
    pub asks_hour: bool,
    /// Tokens that were written into a cache for an hour.
    pub hour: i64,
}

/// Prompt tokens for each byte of the request body: the smallest and largest counted ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerByte {
    pub least: f64,
    pub most: f64,
}

/// Tokens: lower and upper bound.
type Range = (f64, f64);

impl PerByte {
    /// None if either number is not positive.
    pub fn of(tokens: i64, bytes: i64) -> Option<PerByte> {
        let ratio = tokens as f64 / bytes as f64;
        (tokens > 0 && bytes > 0).then_some(PerByte { least: ratio, most: ratio })
    }

    pub fn union(self, other: PerByte) -> PerByte {
        PerByte { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// For a different tokenizer, or for a ratio learnt from few prompts.
    pub fn widened(self) -> PerByte {
        PerByte { least: self.least / TOKENIZERS_DIFFER_BY, most: self.most * TOKENIZERS_DIFFER_BY }
    }
}

impl BillBounds {
    /// Of which nothing is known.
    pub const fn new(cancel_billing: CancelBilling) -> BillBounds {
        BillBounds { price: None, cancel_billing, per_byte: None, per_byte_elsewhere: None, asks_hour: false, hour: 0 }
    }

    /// Writes the known cost once the attempt is over: the cost that the provider reported, otherwise its usage at the
    /// price.
    pub fn count(&self, row: &mut AttemptRecord, reported: Option<f64>) {
        if reported.is_some() {
            row.price_source = Some("reported".to_owned());
        }
        let (least, most) = tier::factors(row);
        let counted = self.price.and_then(|price| self.counted(row, price)).map(|cost| rounded(cost * least));
        let is_exact = is_whole(row) && most == Some(least);
        row.cost_usd_min = reported.or(counted);
        row.cost_usd_max = reported.or(counted.filter(|_| is_exact));
    }

    /// Cost in US dollars. None if input or output was not counted.
    fn counted(&self, row: &AttemptRecord, price: Price) -> Option<f64> {
        let (input, output) = (row.input_tokens?, row.output_tokens.or(is_embedding(row).then_some(0))?);
        Some(price.usd(self.tokens(row, input, output)))
    }

    fn tokens(&self, row: &AttemptRecord, input: i64, output: i64) -> TokenCounts {
        let (cached, written) = (row.cached_input_tokens.unwrap_or(0), row.cache_write_tokens.unwrap_or(0));
        TokenCounts { input, cached, written, hour: self.hour, output }
    }

    /// The lower and upper bound of the cost in US dollars at the usual tier. `prompt`: the bounds of its length; `answer`:
    /// the maximum length of its answer; in tokens.
    fn bounds(
        &self,
        price: Price,
        row: &AttemptRecord,
        prompt: Option<Range>,
        answer: Option<f64>,
    ) -> (f64, Option<f64>) {
        let known = self.counted(row, price);
        let price = price.of_prompt(row.input_tokens.map_or(0, |tokens| tokens.unsigned_abs()));
        let was_cut = row.cancel_us.is_some();
        if row.connect_us.is_none() || was_refused(row) {
            return (0.0, Some(0.0));
        }
        if let Some(cost) = known.filter(|_| is_whole(row)) {
            return (cost, Some(cost));
        }
        let (least, most) = match row.input_tokens {
            // The provider has counted it, so it bills it.
            Some(input) => {
                let cost = price.usd(self.tokens(row, input, 0));
                (cost, Some(cost))
            }
            None => {
                let long = price.of_prompt(u64::MAX);
                let low = price.input.min(price.cached).min(price.written) / 1e6;
                let high = long.input.max(long.cached).max(long.most_written(self.asks_hour)) / 1e6;
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
        // What came: an event may hold several, and a token has four characters at most.
        let came = row.payload_events.max(row.chars_total / 4);
        let written = row.output_tokens.unwrap_or(0).max(came).max(0) as f64;
        let answer = if is_endless(row) { Some(answer.unwrap_or(0.0).max(row.chars_total as f64)) } else { answer };
        let until_cut = row.cancel_us.filter(|_| self.cancel_billing == CancelBilling::Stops);
        let until_cut = until_cut.map(|us| us as f64 / 1e6 * TOKENS_PER_SECOND_MAX);
        let output = [answer, until_cut].into_iter().flatten().reduce(f64::min).map(|tokens| tokens.max(written));
        let most = most.zip(output).map(|(most, tokens)| most + tokens * price.output / 1e6);
        let least = least.max(known.unwrap_or(0.0));
        (least, most.map(|most| most.max(least)))
    }

    /// Fills in the bounds of a row that [`BillBounds::count`] has processed, unless its cost is exact.
    fn settle(&self, row: &mut AttemptRecord, prompt: Option<Range>, answer: Option<f64>, counts: bool) {
        let Some(price) = self.price.filter(|_| row.exact_cost_usd().is_none()) else { return };
        // Counting a prompt is free at every provider that offers it.
        let (min, max) = if counts { (0.0, Some(0.0)) } else { self.bounds(price, row, prompt, answer) };
        let (least, most) = tier::factors(row);
        row.cost_usd_min = Some(rounded(min * least));
        row.cost_usd_max = max.zip(most).map(|(max, most)| rounded(max * most));
    }
}

/// Rounds to a whole number of steps. A cost of fewer than a thousand of them stays: it would change too much.
fn rounded(usd: f64) -> f64 {
    let steps = (usd * COST_STEPS).round();
    if steps < 1_000.0 { usd } else { steps / COST_STEPS }
}

/// Fills in the bounds of all attempts of a finished race. The counts of one attempt bound the costs of the others.
pub fn settle(race: &RaceRecord, attempts: &mut [(&mut AttemptRecord, BillBounds)]) {
    let rows = || attempts.iter().map(|(row, _)| &**row);
    let answer = answer_tokens(race, rows());
    let counted = rows().filter_map(|row| PerByte::of(row.input_tokens?, race.input_bytes)).reduce(PerByte::union);
    let bytes = race.input_bytes.max(0) as f64;
    let counts = [Surface::CountTokens, Surface::GeminiCount].iter().any(|surface| race.api == surface.as_str());
    for (row, bill) in attempts {
        let per_byte = match (bill.per_byte, counted) {
            // This prompt may be of a new kind, such as an image with many bytes or compact text.
            (Some(learnt), counted) => Some(counted.map_or(learnt, |counted| learnt.union(counted))),
            (None, counted) => counted.or(bill.per_byte_elsewhere).map(PerByte::widened),
        };
        let prompt = per_byte.map(|per_byte| (bytes * per_byte.least, bytes * per_byte.most));
        bill.settle(row, prompt, answer, counts);
    }
}

/// The maximum answer of a loser in tokens: by the length of the winner's answer, or the requested maximum if that is less. None if
/// neither is known.
fn answer_tokens<'a>(race: &RaceRecord, mut rows: impl Iterator<Item = &'a AttemptRecord>) -> Option<f64> {
    if Surface::ALL.iter().any(|surface| surface.embeds() && race.api == surface.as_str()) {
        return Some(0.0);
    }
    let winner = rows.find(|row| race.winner == Some(row.ordinal) && row.tok_src == TokenSource::Usage);
    let whole = winner.and_then(|winner| winner.output_tokens);
    let whole = whole.map(|tokens| (tokens as f64 * ANSWERS_DIFFER_BY).max(SHORT_ANSWER));
    let choices = race.n_choices.unwrap_or(1).max(1);
    let asked = race.max_tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens.saturating_mul(choices));
    [whole, asked.map(|tokens| tokens as f64)].into_iter().flatten().reduce(f64::min)
}

/// Its provider counted all of it.
fn is_whole(row: &AttemptRecord) -> bool {
    row.tok_src == TokenSource::Usage || is_embedding(row)
}

/// Providers bill only its input.
fn is_embedding(row: &AttemptRecord) -> bool {
    row.first_kind == Some(PayloadKind::Whole.as_str())
}

/// It had more tokens than any answer to the request, but hardly more than characters.
fn is_endless(row: &AttemptRecord) -> bool {
    row.failure == Some(FailureKind::Endless.as_str())
}

/// The provider answered with an error, which is not billed. Some providers do bill refusals by their content policy.
fn was_refused(row: &AttemptRecord) -> bool {
    let by_policy = row.outcome == AttemptOutcome::Refused || row.failure == Some(FailureKind::ContentPolicy.as_str());
    !by_policy && row.http_status.is_some_and(|status| status >= 400)
}
