//! Weeks under a policy that chooses, against their truth: what looks say of each upstream alone, and of what racing gained.

use super::*;
use crate::store::{LOOKS_MAX, Store};
use photofinish_config::parse;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, CensorCause, RaceRecord, Record, sample};
use std::path::Path;

const HOUR_US: i64 = 3_600_000_000;
/// 20,000 requests under a policy that chooses.
struct Week {
    draws: fastrand::Rng,
    /// What each upstream would have taken, request by request.
    truth: [Vec<f64>; UPSTREAMS],
    /// What clients saw.
    clients: Vec<f64>,
    rows: Vec<Record>,
}

const UPSTREAMS: usize = 4;
const NAMES: [&str; UPSTREAMS] = ["a", "b", "c", "d"];
/// Enough for 200 looks an upstream.
const REQUESTS: i64 = 20_000;
const P_LOOK: f64 = 0.01;

/// Only `a` has a price.
fn config() -> Config {
    let upstreams = "[{ upstream = \"a/m\", input_price = 1.0, cached_price = 0.5, output_price = 10.0 }, \"b/m\"]";
    let providers = "providers.a.base_url = \"http://a/v1\"\nproviders.b.base_url = \"http://b/v1\"\n";
    let text = format!("{providers}[models.\"llama-3.3-70b\"]\nupstreams = {upstreams}");
    parse(&text, Path::new("x"), &|_| None).unwrap()
}

fn normal(draws: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos()
}

impl Week {
    /// The policy asks the one that it expects to be quickest, by prompt size and present speed, and hedges after 1.5 times that.
    /// `hedges`: else it asks no other.
    fn new(seed: u64, hedges: bool) -> Week {
        let draws = fastrand::Rng::with_seed(seed);
        let mut week = Week { draws, truth: Default::default(), clients: Vec::new(), rows: Vec::new() };
        let mut level = [0.0; UPSTREAMS];
        for n in 0..REQUESTS {
            let hour = (n * 168 / REQUESTS) % 24;
            for level in &mut level {
                *level = 0.98 * *level + 0.1 * normal(&mut week.draws);
            }
            // Long prompts by day, short ones by night.
            let tokens = (if hour < 12 { 6.0 } else { 8.0 } + 0.9 * normal(&mut week.draws)).exp();
            let usual = |upstream: usize| {
                let (start_ms, per_token) = [(120.0, 0.25), (200.0, 0.06), (260.0, 0.03), (330.0, 0.015)][upstream];
                start_ms + per_token * tokens
            };
            let expected: [f64; UPSTREAMS] = std::array::from_fn(|at| usual(at) * level[at].exp());
            let times: [f64; UPSTREAMS] = std::array::from_fn(|at| {
                let tail = if week.draws.f64() < 0.02 { 5.0 } else { 1.0 };
                expected[at] * (0.25 * normal(&mut week.draws)).exp() * tail
            });
            times.iter().zip(&mut week.truth).for_each(|(time, all)| all.push(*time));
            week.request(n, expected, times, hedges);
        }
        week
    }

    fn request(&mut self, n: i64, expected: [f64; UPSTREAMS], times: [f64; UPSTREAMS], hedges: bool) {
        let mut order: Vec<usize> = (0..UPSTREAMS).collect();
        order.sort_by(|one, other| expected[*one].total_cmp(&expected[*other]));
        let (leader, second) = (order[0], order[1]);
        let hedged_ms = if hedges { 1.5 * expected[leader] + times[second] } else { f64::INFINITY };
        let drawn = (self.draws.f64() / P_LOOK) as usize;
        let looked = Some(drawn).filter(|drawn| *drawn < UPSTREAMS);
        let look_ms = looked.filter(|look| *look != leader).map_or(f64::INFINITY, |look| times[look]);
        let client_ms = times[leader].min(hedged_ms).min(look_ms);
        if looked.is_none() {
            self.clients.push(client_ms);
        }
        // A second apart, so that the window below holds them all.
        let mut race = sample::race(n * 1_000);
        race.p_look = Some(P_LOOK);
        race.look = looked.map(|look| format!("{}/m", NAMES[look]));
        race.look_out = None;
        race.first_token_sent_us = Some((1e3 * client_ms) as i64);
        let mut attempts = vec![(leader, times[leader])];
        attempts.extend(looked.filter(|look| *look != leader).map(|look| (look, times[look])));
        if hedges && times[leader].min(look_ms) > 1.5 * expected[leader] && looked != Some(second) {
            attempts.push((second, times[second]));
        }
        self.rows.push(Record::Race(Box::new(race)));
        for (ordinal, (upstream, ms)) in attempts.into_iter().enumerate() {
            let us = (1e3 * ms) as i64;
            let seen = looked == Some(upstream) || ms <= client_ms;
            self.rows.push(Record::Attempt(Box::new(AttemptRecord {
                ordinal: ordinal as i64,
                provider: NAMES[upstream].into(),
                model_sent: "m".into(),
                outcome: if ms <= client_ms { AttemptOutcome::Won } else { AttemptOutcome::Lost },
                failure: None,
                first_token_us: seen.then_some(us),
                ttft_obs_us: Some(if seen { us } else { (1e3 * client_ms) as i64 }),
                ttft_event: Some(i64::from(seen)),
                censor_cause: (!seen).then_some(CensorCause::Lost),
                ..sample::won(n * 1_000)
            })));
        }
    }

    fn compared(&self) -> ModelComparison {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let store = Store::open(&path).unwrap();
        store.write(&self.rows).unwrap();
        let reader = StoreReader::open(&path).unwrap();
        let now_us = sample::STARTED_AT + 200 * HOUR_US;
        let mut answer = ask(&reader, &RaceWindow::default(), &config(), now_us).unwrap();
        store.close();
        answer.models.remove(0)
    }

    /// Clients whose median is this share of what the best upstream alone would have taken.
    fn with_clients_at(&mut self, share: f64) {
        let best = self.truth.iter().map(|times| quantile_of(times, 0.5)).fold(f64::INFINITY, f64::min);
        let factor = share * best / quantile_of(&self.clients, 0.5);
        for row in &mut self.rows {
            if let Record::Race(race) = row {
                race.first_token_sent_us = race.first_token_sent_us.map(|us| (us as f64 * factor) as i64);
            }
        }
    }

    fn true_us(&self, upstream: &str, quantile: f64) -> f64 {
        let place = NAMES.iter().position(|name| upstream.starts_with(name)).unwrap();
        1e3 * quantile_of(&self.truth[place], quantile)
    }
}

fn quantile_of(values: &[f64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// `PHOTOFINISH_WEEKS` sets the number of weeks; `docs/records/accuracy.md` has the figures of many.
fn weeks() -> u64 {
    std::env::var("PHOTOFINISH_WEEKS").map_or(3, |weeks| weeks.parse().unwrap())
}

#[test]
fn a_gain_of_fifteen_per_cent_is_mostly_told_and_never_called_a_loss() {
    let (mut found_gains, mut wrong) = (0, 0);
    for seed in 1_001..=1_000 + weeks() {
        let mut week = Week::new(seed, true);
        week.with_clients_at(0.85);
        match week.compared().verdict(0) {
            GainVerdict::Gained => found_gains += 1,
            GainVerdict::Lost => wrong += 1,
            GainVerdict::Unknown => {}
        }
    }
    eprintln!("a gain of 15 % is found in {found_gains} of {} weeks, and called a loss in {wrong}", weeks());
    assert!(found_gains * 2 >= weeks() && wrong == 0, "{found_gains} {wrong}");
}

#[test]
fn looks_find_what_each_upstream_alone_takes() {
    let weeks = weeks();
    let (mut held, mut intervals) = (0, 0);
    let (mut errors, mut found_gains, mut wrong, mut asked_wrong) = ([vec![], vec![]], 0, 0, 0);
    for seed in 1..=weeks {
        let week = Week::new(seed, true);
        let compared = week.compared();
        assert_eq!(compared.upstreams.len(), UPSTREAMS);
        for one in &compared.upstreams {
            assert!(one.looks > 100 && one.cut == 0, "{one:?}");
            // Each request: 1,024 tokens, of them 512 read from the cache, and 41 written.
            assert_eq!(one.mix_usd.map(|usd| (1e9 * usd).round()), (one.upstream == "a/m").then_some(1_178_000.0));
            for (place, quantile) in QUANTILES.into_iter().enumerate() {
                let (found, truth) = (one.ttft[place].unwrap(), week.true_us(&one.upstream, quantile));
                intervals += 1;
                held += usize::from((found.low..=found.high).contains(&truth));
                errors[place].push(found.value / truth - 1.0);
            }
        }
        // What an upstream took as it was asked is no answer to this question.
        let asked = week.rows.iter().filter_map(|row| match row {
            Record::Attempt(attempt) if attempt.provider == "a" => attempt.first_token_us.map(|us| us as f64),
            _ => None,
        });
        asked_wrong += usize::from(quantile_of(&asked.collect::<Vec<_>>(), 0.5) < 0.9 * week.true_us("a", 0.5));
        let truth = week.true_us(&compared.best().unwrap().upstream, 0.5) - 1e3 * quantile_of(&week.clients, 0.5);
        match compared.verdict(0) {
            GainVerdict::Gained => found_gains += 1,
            GainVerdict::Lost => wrong += usize::from(truth > 0.0),
            GainVerdict::Unknown => {}
        }
    }
    let median = |errors: &[f64]| quantile_of(&errors.iter().map(|error| error.abs()).collect::<Vec<_>>(), 0.5);
    let mean = errors[0].iter().sum::<f64>() / errors[0].len() as f64;
    eprintln!(
        "{held} of {intervals} intervals hold; median error {:.3} at p50, {:.3} at p95; mean error {mean:.3} at p50; \
         gained in {found_gains} of {weeks} weeks, wrongly lost in {wrong}; as asked wrong in {asked_wrong}",
        median(&errors[0]),
        median(&errors[1])
    );
    assert!(held * 100 >= intervals * 85, "{held} of {intervals} intervals hold");
    assert!(median(&errors[0]) <= 0.08 && median(&errors[1]) <= 0.2 && mean.abs() <= 0.04, "{errors:?}");
    assert!(
        found_gains as u64 >= weeks * 7 / 10 && wrong == 0 && asked_wrong as u64 == weeks,
        "{found_gains} {wrong} {asked_wrong}"
    );
}

#[test]
fn clients_that_wait_longer_than_the_best_alone_would_have_lost() {
    let mut week = Week::new(9, false);
    for row in &mut week.rows {
        if let Record::Race(race) = row {
            race.first_token_sent_us = race.first_token_sent_us.map(|us| 4 * us);
        }
    }
    assert_eq!(week.compared().verdict(0), GainVerdict::Lost);
}

#[test]
fn of_very_many_looks_some_of_the_whole_window_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let all = LOOKS_MAX + 100;
    let race = |n: i64| RaceRecord { started_at: sample::STARTED_AT + n, ..sample::race(n) };
    store.write(&(0..all).map(|n| Record::Race(Box::new(race(n)))).collect::<Vec<_>>()).unwrap();
    let read = StoreReader::open(&path).unwrap().looks(&AttemptFilter::default()).unwrap();
    assert!((all / 2 - 1..=all / 2 + 1).contains(&(read.len() as i64)), "{}", read.len());
    let oldest = read.last().map(|look| look.started_at - sample::STARTED_AT);
    assert!(oldest.is_some_and(|oldest| oldest < 2), "{oldest:?}");
    store.close();
}

#[test]
fn too_few_looks_give_no_figure_and_what_could_not_start_is_counted_apart() {
    let looks = |count: usize, seen: LookSeen| {
        let look = move |n: usize| LookRow {
            model: "m".into(),
            upstream: "a/m".into(),
            weight: 50.0,
            started_at: n as i64,
            prompt_tokens: 500,
            streams: true,
            seen,
        };
        (0..count).map(look).collect::<Vec<_>>()
    };
    let mut rows = looks(5, LookSeen::Token(100_000));
    for (count, seen) in [(3, LookSeen::Failed), (2, LookSeen::Out), (1, LookSeen::Cut)] {
        rows.extend(looks(count, seen));
    }
    let found = upstreams(&rows.iter().collect::<Vec<_>>(), &SizeMix::default(), &[]);
    assert_eq!((found[0].looks, found[0].failed, found[0].out, found[0].cut), (5, 3, 2, 1));
    assert_eq!(found[0].ttft, [None, None]);
    rows.extend(looks(67, LookSeen::Token(200_000)));
    let found = upstreams(&rows.iter().collect::<Vec<_>>(), &SizeMix::default(), &[]);
    assert!(found[0].ttft.iter().all(Option::is_some));
    let none = ModelComparison::new("m", &[], &[], &[]);
    assert_eq!((none.gain(0), none.verdict(1), none.best().is_none()), (None, GainVerdict::Unknown, true));
}

/// One upstream: its looks with a first token of 100 ms each, its other draws, and whether both quantiles are known of it.
fn of(upstream: &str, looks: usize, failed: usize, out: usize) -> UpstreamComparison {
    let ttft = [0.5, 0.95].map(|quantile| weighted_quantile(&vec![(100_000.0, 1.0); looks], quantile));
    UpstreamComparison { upstream: upstream.into(), looks, failed, out, cut: 0, ttft, mix_usd: None }
}

#[test]
fn the_best_is_the_best_of_all_or_is_not_said() {
    let ranked = |value: f64| Some(RankedQuantile { value, low: value * 0.9, high: value * 1.1 });
    let with = |more: Vec<UpstreamComparison>| {
        let mut upstreams = vec![of("quick/m", 100, 0, 0)];
        upstreams.extend(more);
        let clients = [ranked(50_000.0), ranked(50_000.0)];
        let alone = [0, 1].map(|place| alone(&upstreams, place));
        ModelComparison { model: "m".into(), upstreams, clients, alone, clients_n: 600, mix_n: 0 }
    };
    // What else there is, whether the best is named, and the verdicts at p50 and p95.
    let (yes, no) = (GainVerdict::Gained, GainVerdict::Unknown);
    for (more, named, verdicts) in [
        (vec![], true, [yes, yes]),
        (vec![of("b/m", 100, 0, 0)], true, [yes, yes]),
        // A median needs 6 looks, a 95th percentile 72.
        (vec![of("b/m", 6, 0, 0)], true, [yes, no]),
        (vec![of("b/m", 5, 0, 0)], false, [no, no]),
        (vec![of("b/m", 0, 0, 0)], false, [no, no]),
        (vec![of("b/m", 0, 2, 3)], false, [no, no]),
        // It could not be asked: no client could have had it alone.
        (vec![of("b/m", 0, 3, 3)], true, [yes, yes]),
        (vec![of("b/m", 0, 0, 90)], true, [yes, yes]),
        (vec![of("b/m", 1, 0, 90)], false, [no, no]),
        (vec![of("b/m", 100, 0, 0), of("c/m", 5, 1, 0)], false, [no, no]),
    ] {
        let compared = with(more);
        let said = [compared.verdict(0), compared.verdict(1)];
        assert_eq!((compared.best().is_some(), said), (named, verdicts), "{:?}", compared.upstreams);
    }
    // Of two of which either may be the best, each bound is the lesser one.
    let two = [(100.0, 60.0, 130.0), (101.0, 90.0, 110.0)].map(|(value, low, high)| UpstreamComparison {
        ttft: [Some(RankedQuantile { value: 1e3 * value, low: 1e3 * low, high: 1e3 * high }); 2],
        ..of("a/m", 40, 0, 0)
    });
    let clients = [Some(RankedQuantile { value: 80_000.0, low: 80_000.0, high: 80_000.0 }); 2];
    let alone = [0, 1].map(|place| alone(&two, place));
    let compared = ModelComparison { model: "m".into(), upstreams: two.into(), clients, alone, clients_n: 9, mix_n: 0 };
    let gain = compared.gain(0).unwrap();
    assert_eq!([gain.value, gain.low, gain.high].map(f64::round), [20_000.0, -20_000.0, 30_000.0]);
}

#[test]
fn a_look_that_failed_is_one_of_those_asked() {
    let share = |looks, failed| upstream_comparison(&of("a/m", looks, failed, 0))["failed_share"].as_f64();
    assert_eq!([share(6, 52), share(0, 3), share(3, 0), share(0, 0)], [Some(52.0 / 58.0), Some(1.0), Some(0.0), None]);
}

#[test]
fn the_clients_of_a_model_are_the_same_alone_and_among_fifty() {
    const MODELS: i64 = 50;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("photofinish.db");
    let store = Store::open(&path).unwrap();
    let races: Vec<Record> = (0..21_700)
        .map(|n| {
            let mut race = sample::race(n);
            race.model = format!("m{}", n * 7 % MODELS);
            race.first_token_sent_us = Some(n * 7 % MODELS);
            (race.p_look, race.look) = (Some(0.5), (n % 31 == 0).then(|| "a/m".to_owned()));
            Record::Race(Box::new(race))
        })
        .collect();
    races.chunks(2_000).for_each(|some| store.write(some).unwrap());
    let reader = StoreReader::open(&path).unwrap();
    let looks = reader.looks(&AttemptFilter::default()).unwrap();
    assert_eq!(looks.len(), 700);
    let all = AttemptFilter::default();
    let clients = reader.clients_around(&looks, &all).unwrap();
    // Four of the 200 before it are of its model.
    assert!((2_000..=2_800).contains(&clients.len()), "{}", clients.len());
    assert!(clients.iter().all(|client| client.model == format!("m{}", client.first_token_us.unwrap())));
    let one = AttemptFilter { model: Some("m1".to_owned()), ..all };
    let alone = reader.clients_around(&reader.looks(&one).unwrap(), &one).unwrap();
    let among: Vec<ClientRow> = clients.into_iter().filter(|client| client.model == "m1").collect();
    assert!(among.len() > 20 && alone == among, "the same sample, whoever asks: {} {}", alone.len(), among.len());
}
