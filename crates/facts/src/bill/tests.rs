//! Costs and bounds as tables: a row, how it is billed, and the result.

use super::*;
use crate::record::sample;
use photofinish_config::LongPromptPrice;

const PRICE: Price = Price { input: 1.0, cached: 0.25, written: 1.0, output: 10.0, long: None };

fn bill(cancel_billing: CancelBilling) -> BillBounds {
    BillBounds { cancel_billing, per_byte: Some(PerByte { least: 0.2, most: 0.4 }), ..STOPS }
}

const STOPS: BillBounds = BillBounds { price: Some(PRICE), ..BillBounds::new(CancelBilling::Stops) };

/// 1,000 tokens in, 100 out, of which 20 were reasoning.
fn row(change: impl FnOnce(&mut AttemptRecord)) -> AttemptRecord {
    let mut row = sample::won(0);
    (row.input_tokens, row.output_tokens, row.reasoning_tokens) = (Some(1_000), Some(100), Some(20));
    (row.cached_input_tokens, row.cache_write_tokens) = (None, None);
    (row.failure, row.cost_usd_min, row.cost_usd_max) = (None, None, None);
    (row.cancel_us, row.service_tier) = (None, None);
    change(&mut row);
    row
}

/// Cancelled 0.1 s after its dispatch, after its headers arrived.
fn cut(change: impl FnOnce(&mut AttemptRecord)) -> AttemptRecord {
    let mut row = sample::lost(0, 100_000);
    (row.connect_us, row.headers_us, row.cancel_us) = (Some(10), Some(50_000), Some(100_000));
    row.http_status = Some(200);
    change(&mut row);
    row
}

/// A request of 10,000 bytes that asked for at most 1,000 tokens.
fn race() -> RaceRecord {
    RaceRecord { input_bytes: 10_000, max_tokens: Some(1_000), n_choices: None, ..sample::race(0) }
}

/// Lower and upper bound.
type Settled = (Option<f64>, Option<f64>);

fn settled_row(row: &AttemptRecord) -> Settled {
    let round = |usd: Option<f64>| usd.map(|usd| (usd * 1e9).round() / 1e9);
    (round(row.cost_usd_min), round(row.cost_usd_max))
}

/// The cost columns of the last row once the race is over.
fn settled(race: &RaceRecord, rows: Vec<(AttemptRecord, BillBounds)>) -> Settled {
    let mut rows = rows;
    rows.iter_mut().for_each(|(row, bill)| bill.count(row, None));
    let mut attempts: Vec<_> = rows.iter_mut().map(|(row, bill)| (row, *bill)).collect();
    settle(race, &mut attempts);
    settled_row(&rows.last().unwrap().0)
}

#[test]
fn a_cost_is_computed_only_from_what_was_counted() {
    let cost = |mut row: AttemptRecord, reported: Option<f64>, bill: BillBounds| {
        bill.count(&mut row, reported);
        (row.cost_usd_min, row.cost_usd_max)
    };
    assert_eq!(cost(row(|_| {}), None, STOPS), (Some(0.002), Some(0.002)));
    assert_eq!(cost(row(|_| {}), Some(0.5), STOPS), (Some(0.5), Some(0.5)));
    for (cached, usd) in [(400, 0.0017), (1_000, 0.00125), (9_000, 0.00125)] {
        assert_eq!(cost(row(|row| row.cached_input_tokens = Some(cached)), None, STOPS), (Some(usd), Some(usd)));
    }
    assert_eq!(cost(row(|row| row.tok_src = TokenSource::Partial), None, STOPS), (Some(0.002), None));
    assert_eq!(cost(row(|row| row.output_tokens = None), None, STOPS), (None, None));
    let embedding = |row: &mut AttemptRecord| {
        (row.first_kind, row.output_tokens, row.reasoning_tokens) = (Some("whole"), None, None);
    };
    assert_eq!(cost(row(|row| embedding(row)), None, STOPS), (Some(0.001), Some(0.001)));
    assert_eq!(cost(row(|_| {}), None, BillBounds { price: None, ..STOPS }), (None, None));
}

#[test]
fn a_cut_loser_lies_between_bounds() {
    // The prompt has 2,000 to 4,000 tokens: from 0.0005 USD (all of it cached) to 0.004. The winner wrote 100 tokens,
    // so a loser wrote at most 400: 0.004.
    let of = |bill: BillBounds, change: fn(&mut AttemptRecord)| {
        let winner = row(|row| row.input_tokens = Some(3_000));
        settled(&race(), vec![(winner, STOPS), (cut(change), bill)])
    };
    let [stops, bills_full, unknown] = CancelBilling::ALL.map(bill);
    let nothing: fn(&mut AttemptRecord) = |_| {};
    assert_eq!(of(bills_full, nothing), (Some(0.0005), Some(0.008)));
    assert_eq!(of(stops, nothing), (Some(0.0005), Some(0.008)));
    assert_eq!(of(unknown, nothing), (Some(0.0), Some(0.008)));
    let no_headers: fn(&mut AttemptRecord) = |row| row.headers_us = None;
    assert_eq!(of(bills_full, no_headers), (Some(0.0005), Some(0.008)), "it is billed anyway");
    assert_eq!(of(stops, no_headers), (Some(0.0), Some(0.008)), "it may have been in a queue");
    // At most 10 tokens at 5,000 tokens/s.
    let soon: fn(&mut AttemptRecord) = |row| row.cancel_us = Some(2_000);
    assert_eq!(of(stops, soon), (Some(0.0005), Some(0.0041)));
    assert_eq!(of(bills_full, soon).1, Some(0.008), "it writes on");
    let counted: fn(&mut AttemptRecord) = |row| {
        (row.input_tokens, row.output_tokens, row.tok_src) = (Some(3_000), Some(1), TokenSource::Partial);
    };
    assert_eq!(of(unknown, counted), (Some(0.00301), Some(0.007)), "it counted its prompt");
    let unsent: fn(&mut AttemptRecord) = |row| (row.connect_us, row.headers_us) = (None, None);
    assert_eq!(of(bills_full, unsent), (Some(0.0), Some(0.0)));
    let free =
        BillBounds { price: Some(Price { input: 0.0, cached: 0.0, written: 0.0, output: 0.0, long: None }), ..unknown };
    assert_eq!(of(free, nothing), (Some(0.0), Some(0.0)));
    assert_eq!(of(BillBounds { price: None, ..stops }, nothing), (None, None));
}

#[test]
fn the_answer_is_the_winners_or_what_was_asked_for() {
    let bills_full = bill(CancelBilling::BillsFull);
    let most =
        |race: RaceRecord, winner: AttemptRecord| settled(&race, vec![(winner, STOPS), (cut(|_| {}), bills_full)]).1;
    let winner = || row(|row| (row.input_tokens, row.output_tokens) = (Some(3_000), Some(2_000)));
    assert_eq!(most(race(), winner()), Some(0.014), "at most 1,000 tokens were asked for");
    assert_eq!(most(RaceRecord { n_choices: Some(2), ..race() }, winner()), Some(0.024), "for each of two answers");
    assert_eq!(most(RaceRecord { max_tokens: None, ..race() }, winner()), Some(0.084), "four times the winner's");
    let open_ended = || RaceRecord { max_tokens: None, ..race() };
    let cut_short = || AttemptRecord { tok_src: TokenSource::Partial, ..winner() };
    assert_eq!(most(open_ended(), cut_short()), None, "its length is unknown");
    assert_eq!(most(race(), cut_short()), Some(0.014));
    assert_eq!(most(RaceRecord { winner: None, ..open_ended() }, winner()), None, "no winner");
    let stops = vec![(cut_short(), STOPS), (cut(|_| {}), bill(CancelBilling::Stops))];
    assert_eq!(settled(&open_ended(), stops).1, Some(0.009), "500 tokens in 0.1 s");
}

#[test]
fn the_length_of_a_prompt_is_what_was_learnt_and_what_others_counted() {
    let of = |per_byte: Option<PerByte>, counted: Option<i64>| {
        let winner = row(|row| (row.input_tokens, row.tok_src) = (counted, TokenSource::Usage));
        let loser = BillBounds { per_byte, ..bill(CancelBilling::BillsFull) };
        let result = settled(&race(), vec![(winner, STOPS), (cut(|_| {}), loser)]);
        // Subtracts the 0.004 USD of the answer.
        (result.0, result.1.map(|usd| ((usd - 0.004) * 1e9).round() / 1e9))
    };
    let learnt = Some(PerByte { least: 0.2, most: 0.4 });
    assert_eq!(of(learnt, None), (Some(0.0005), Some(0.004)));
    assert_eq!(of(learnt, Some(8_000)), (Some(0.0005), Some(0.008)), "another kind of prompt than before");
    assert_eq!(of(learnt, Some(100)), (Some(0.000025), Some(0.004)), "an image, say");
    assert_eq!(of(None, Some(2_000)), (Some(0.00025), Some(0.004)), "another tokenizer: half of it to twice of it");
    assert_eq!(of(None, None), (Some(0.0), None), "no counts");
    let elsewhere = BillBounds { per_byte: None, per_byte_elsewhere: learnt, ..bill(CancelBilling::BillsFull) };
    let result = settled(&race(), vec![(cut(|_| {}), elsewhere)]);
    assert_eq!(
        (result.0, result.1),
        (Some(0.00025), Some(0.018)),
        "the same of others, and 1,000 tokens that were asked for"
    );
    let mut rows = vec![(cut(|_| {}), BillBounds { per_byte: None, ..bill(CancelBilling::BillsFull) })];
    assert_eq!(settled(&race(), vec![rows.remove(0)]), (Some(0.0), None));
}

#[test]
fn what_was_not_cut_has_its_own_bounds() {
    let of = |change: fn(&mut AttemptRecord)| settled(&race(), vec![(row(change), bill(CancelBilling::Unknown))]);
    assert_eq!(of(|_| {}), (Some(0.002), Some(0.002)));
    let uncounted = |row: &mut AttemptRecord| {
        (row.input_tokens, row.output_tokens, row.tok_src) = (None, None, TokenSource::None);
    };
    // The upstream answered, so the prompt is billed. The request asked for at most 1,000 tokens.
    assert_eq!(settled(&race(), vec![(row(uncounted), bill(CancelBilling::Unknown))]), (Some(0.0005), Some(0.014)));
    let refused: fn(&mut AttemptRecord) = |row| {
        *row = AttemptRecord { http_status: Some(429), ..sample::failed(0) };
        row.connect_us = Some(10);
    };
    assert_eq!(of(refused), (Some(0.0), Some(0.0)));
    let by_policy: fn(&mut AttemptRecord) = |row| {
        *row = AttemptRecord { http_status: Some(400), failure: Some("content_policy"), ..sample::failed(0) };
        row.connect_us = Some(10);
    };
    assert_eq!(of(by_policy), (Some(0.0), Some(0.014)));
    let counts = RaceRecord { api: "count_tokens", ..race() };
    let counted = row(|row| row.output_tokens = None);
    assert_eq!(settled(&counts, vec![(counted, STOPS)]), (Some(0.0), Some(0.0)));
}

#[test]
fn tokens_written_into_a_cache_have_a_price_of_their_own() {
    let bill = BillBounds { price: Some(Price { written: 1.25, ..PRICE }), ..STOPS };
    for (cached, written, usd) in [(0, 400, 0.0021), (400, 400, 0.0018), (0, 9_000, 0.00225), (800, 9_000, 0.00145)] {
        let mut row = row(|row| (row.cached_input_tokens, row.cache_write_tokens) = (Some(cached), Some(written)));
        bill.count(&mut row, None);
        assert_eq!(row.exact_cost_usd(), Some(usd), "{cached} read, {written} written");
    }
    // One kept for an hour costs two usual ones, also where an uncounted prompt asks for it.
    let mut hour = row(|row| row.cache_write_tokens = Some(400));
    BillBounds { hour: 300, ..bill }.count(&mut hour, None);
    assert_eq!(settled_row(&hour).1, Some(0.002_325), "300 of 400 at 2 instead of 1.25");
    // An uncounted prompt may have been written.
    let per_byte = Some(PerByte { least: 0.2, most: 0.4 });
    let highest = |bill: BillBounds| settled(&race(), vec![(cut(|_| {}), BillBounds { per_byte, ..bill })]).1.unwrap();
    assert_eq!(((highest(bill) - highest(STOPS)) * 1e9).round(), 1_000_000.0, "4,000 tokens at 0.25 more");
    let for_hour = BillBounds { asks_hour: true, ..bill };
    assert_eq!(((highest(for_hour) - highest(bill)) * 1e9).round(), 3_000_000.0, "4,000 tokens at 0.75 more");
}

#[test]
fn a_long_prompt_has_the_price_of_long_prompts() {
    let long = LongPromptPrice { above: 1_000, input: 2.0, cached: 0.5, written: 2.5, output: 15.0 };
    let bill = BillBounds { price: Some(Price { long: Some(long), ..PRICE }), ..STOPS };
    let cost = |tokens: i64| {
        let mut row = row(|row| row.input_tokens = Some(tokens));
        bill.count(&mut row, None);
        settled_row(&row).1
    };
    assert_eq!(cost(1_000), Some(0.002));
    assert_eq!(cost(1_001), Some(0.003502), "of more than 1,000 tokens, and its answer with it");
    // A prompt without a count may be a long one.
    let unknown = settled(&race(), vec![(cut(|_| {}), BillBounds { per_byte: STOPS.per_byte, ..bill })]);
    let usual = settled(&race(), vec![(cut(|_| {}), STOPS)]);
    assert!(unknown.1 >= usual.1, "{unknown:?} {usual:?}");
}

#[test]
fn a_reported_cost_is_its_own_source() {
    let mut row = row(|row| row.price_source = Some("config".to_owned()));
    STOPS.count(&mut row, None);
    assert_eq!(row.price_source.as_deref(), Some("config"));
    STOPS.count(&mut row, Some(0.5));
    assert_eq!(row.price_source.as_deref(), Some("reported"));
}

#[test]
fn another_tier_has_another_price() {
    let of = |tier, provider: &str, source: &str, cached| {
        let row = row(|row| {
            (row.service_tier, row.provider, row.price_source) = (tier, provider.into(), Some(source.to_owned()));
            row.cached_input_tokens = cached;
        });
        settled(&race(), vec![(row, STOPS)])
    };
    let listed = "catalogue 2026-11-22";
    for (tier, provider, source, cached, expected) in [
        (None, "openai", listed, None, (Some(0.002), Some(0.002))),
        (Some("flex"), "openai", listed, None, (Some(0.001), Some(0.001))),
        // With 400 tokens from the cache the usual tier takes 0.0017.
        (Some("flex"), "openai", listed, Some(400), (Some(0.00085), Some(0.000884))),
        (Some("flex"), "vertex", listed, None, (Some(0.001), Some(0.001))),
        (Some("flex"), "vertex", listed, Some(400), (Some(0.00085), Some(0.0017))),
        (Some("flex"), "groq", listed, None, (Some(0.002), Some(0.002))),
        (Some("flex"), "other", listed, None, (Some(0.0008), Some(0.002))),
        (Some("flex"), "openai", "config", None, (Some(0.0008), Some(0.002))),
        (Some("priority"), "openai", listed, None, (Some(0.0032), Some(0.005))),
        (Some("priority"), "openai", "config", None, (Some(0.002), Some(0.005))),
        (Some("ultrafast"), "openai", listed, None, (Some(0.012), Some(0.012))),
        (Some("fast"), "anthropic", listed, None, (Some(0.002), Some(0.0132))),
        (Some("us"), "anthropic", listed, None, (Some(0.0022), Some(0.0022))),
        (Some("reserved"), "bedrock", listed, None, (Some(0.0), Some(0.002))),
        (Some("other"), "openai", listed, None, (Some(0.0), None)),
        (Some("other"), "mine", "config", None, (Some(0.002), Some(0.002))),
    ] {
        assert_eq!(of(tier, provider, source, cached), expected, "{tier:?} {provider} {source} {cached:?}");
    }
}

#[test]
fn the_bounds_of_a_cut_answer_are_those_of_its_tier() {
    let flex = |row: &mut AttemptRecord| {
        (row.service_tier, row.provider) = (Some("flex"), "openai".into());
        (row.price_source, row.tok_src) = (Some("catalogue 2026-11-22".to_owned()), TokenSource::Partial);
        row.outcome = AttemptOutcome::FailedMid;
    };
    // Counted were 1,000 tokens in and 100 out: 0.002. At most 1,000 were asked for: 0.011.
    assert_eq!(settled(&race(), vec![(row(flex), STOPS)]), (Some(0.001), Some(0.0055)));
    let mut reported = row(flex);
    STOPS.count(&mut reported, Some(0.25));
    assert_eq!(reported.exact_cost_usd(), Some(0.25), "a reported cost is that of its tier");
}

#[test]
fn an_endless_answer_is_not_bounded_by_what_was_asked_for() {
    let went_on = |failure| {
        let row = row(|row| {
            (row.output_tokens, row.reasoning_tokens, row.chars_total) = (None, None, 40_000);
            (row.outcome, row.failure) = (AttemptOutcome::FailedMid, failure);
        });
        settled(&race(), vec![(row, STOPS)])
    };
    assert_eq!(went_on(Some("closed")), (Some(0.001), Some(0.101)), "what came");
    assert_eq!(went_on(Some("endless")), (Some(0.001), Some(0.401)), "a token a character");
}

#[test]
fn a_cost_is_a_whole_number_of_steps() {
    let of = |tokens: i64| {
        let mut row = row(|row| (row.input_tokens, row.output_tokens) = (Some(tokens), Some(7)));
        let price = Price { input: 0.15, output: 0.6, ..PRICE };
        BillBounds { price: Some(price), ..STOPS }.count(&mut row, None);
        row.exact_cost_usd().unwrap()
    };
    for tokens in [8, 17, 12_345, 1_000_003] {
        assert_eq!(of(tokens), (1_500 * tokens + 6_000 * 7) as f64 / COST_STEPS, "{tokens}");
    }
    assert_eq!([0.0, 1.23e-9, 7.654_321e-7].map(rounded), [0.0, 1.23e-9, 7.654e-7], "not to nothing");
}
