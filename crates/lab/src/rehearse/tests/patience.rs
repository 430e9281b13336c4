//! Where somebody would wait although somebody healthy is free: upstreams that hang, die and heal, and models that are slow.

use super::*;

const MS: i64 = 1_000;

/// Upstreams whose attempts end as a function says.
struct Scripted<'t> {
    upstreams: Vec<SimulatedUpstream>,
    truth: &'t dyn Fn(&Dispatch) -> SimulatedResponse,
}

impl SimulatedWorld for Scripted<'_> {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: 500.0, cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        (self.truth)(dispatch)
    }
}

/// An answer after about this long: a fifth of scatter, the same for every policy.
fn about(dispatch: &Dispatch, ms: f64) -> SimulatedResponse {
    let mut draws = fastrand::Rng::with_seed((dispatch.request.id * 16 + dispatch.upstream) as u64);
    let normal = (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
    SimulatedResponse::Answers { ttft_us: (1e3 * ms * (0.2 * normal).exp()) as i64, tpot_us: 10_000.0 }
}

/// One race, as these tests look at it.
struct PatientRace {
    at_us: i64,
    ttft_us: Option<i64>,
    /// The upstream of the answer.
    winner: Option<usize>,
    starts: usize,
    chosen: usize,
}

/// Plays `requests` requests, `every_us` apart.
fn played(
    lines: &str,
    count: usize,
    (requests, every_us): (usize, i64),
    truth: &dyn Fn(&Dispatch) -> SimulatedResponse,
) -> Vec<PatientRace> {
    let mut world = Scripted { upstreams: upstreams(count), truth };
    world.upstreams.iter_mut().for_each(|upstream| upstream.first_token = Duration::from_secs(30));
    let requests =
        (0..requests).map(|id| SimulatedRequest { id, at_us: id as i64 * every_us, output_tokens: 20, whole: false });
    let mut played_races = Vec::new();
    Rehearsal::new(settings(lines), 1).run(requests, &mut world, &mut |race: &PlayedRace<'_>| {
        played_races.push(PatientRace {
            at_us: race.request.at_us,
            ttft_us: race.ttft_us,
            winner: race.winner.map(|winner| race.attempts[winner].upstream),
            starts: race.attempts.len(),
            chosen: race.attempts.iter().filter(|attempt| attempt.after_us == 0).count(),
        });
    });
    played_races.sort_by_key(|race| race.at_us);
    played_races
}

fn quantile_ms(played_races: &[PatientRace], q: f64) -> i64 {
    let mut all: Vec<i64> = played_races.iter().map(|race| race.ttft_us.unwrap_or(i64::MAX) / MS).collect();
    all.sort_unstable();
    all[((all.len() as f64 * q) as usize).min(all.len() - 1)]
}

const POLICIES: [&str; 4] = [
    "policy = \"adaptive\"\nbudget = 0.1",
    "policy = \"adaptive\"\nbudget = 0.0",
    "policy = \"fallback\"",
    "policy = \"weighted\"",
];

#[test]
fn a_fresh_gateway_waits_three_seconds_for_a_provider_that_hangs_and_two_once_one_is_known() {
    for lines in POLICIES {
        for hung in 0..5 {
            let truth = |dispatch: &Dispatch| {
                if dispatch.upstream == hung { SimulatedResponse::Hangs } else { about(dispatch, 300.0) }
            };
            let played_races = played(lines, 5, (40, SECOND_US), &truth);
            let longest_ms = |played_races: &[PatientRace]| quantile_ms(played_races, 1.0);
            assert!(longest_ms(&played_races) <= 3_000, "{lines}, {hung}: {}", longest_ms(&played_races));
            // A few first tokens make one known.
            assert!(longest_ms(&played_races[3..]) <= 2_000, "{lines}, {hung}: {}", longest_ms(&played_races[3..]));
        }
    }
}

#[test]
fn the_healthy_one_answers_whatever_may_run_at_once() {
    let policies = [
        POLICIES[0],
        POLICIES[1],
        POLICIES[2],
        POLICIES[3],
        "policy = \"race\"",
        "policy = \"hedge\"\nhedge_after = \"500ms\"",
    ];
    for lines in policies {
        for max_attempts in [1, 2, 4] {
            for hangs in [false, true] {
                let truth = |dispatch: &Dispatch| match (dispatch.upstream < 4, hangs) {
                    (true, false) => SimulatedResponse::Fails { after_us: 50 * MS },
                    (true, true) => SimulatedResponse::Hangs,
                    (false, _) => about(dispatch, 300.0),
                };
                let lines = format!("{lines}\nmax_attempts = {max_attempts}\nbreaker.failures = 0");
                let played_races = played(&lines, 5, (3, 200 * SECOND_US), &truth);
                assert!(played_races.iter().all(|race| race.winner == Some(4)), "{lines}, hangs: {hangs}");
            }
        }
    }
}

#[test]
fn no_more_upstreams_are_asked_than_failovers_allow() {
    let truth = |dispatch: &Dispatch| match dispatch.upstream {
        0 => SimulatedResponse::Fails { after_us: 50 * MS },
        1 | 2 => SimulatedResponse::Hangs,
        _ => about(dispatch, 300.0),
    };
    for (failovers, starts, answered) in [(0, 1, false), (1, 2, false), (2, 3, false), (3, 4, true)] {
        let played_races =
            played(&format!("policy = \"fallback\"\nfailovers = {failovers}"), 5, (1, SECOND_US), &truth);
        assert_eq!((played_races[0].starts, played_races[0].winner.is_some()), (starts, answered), "{failovers}");
    }
    let played_races = played("policy = \"fallback\"\npatience = 0", 3, (1, SECOND_US), &|dispatch| {
        if dispatch.upstream == 0 { SimulatedResponse::Hangs } else { about(dispatch, 300.0) }
    });
    assert!(played_races[0].ttft_us.unwrap() > 30_000 * MS, "without patience the timeout decides");
}

#[test]
fn a_healed_favourite_is_found_again() {
    let hangs = 120 * SECOND_US..180 * SECOND_US;
    let truth = |dispatch: &Dispatch| match dispatch.upstream {
        0 if hangs.contains(&dispatch.at_us) => SimulatedResponse::Hangs,
        0 => about(dispatch, 150.0),
        _ => about(dispatch, 300.0),
    };
    for (budget, within_s) in [(0.1, 10), (0.02, 30), (0.0, 60)] {
        let played_races =
            played(&format!("policy = \"adaptive\"\nbudget = {budget:?}"), 3, (8 * 400, SECOND_US / 8), &truth);
        // Ten answers in a row.
        let back = played_races
            .windows(10)
            .find(|races| races[0].at_us >= hangs.end && races.iter().all(|race| race.winner == Some(0)));
        let after_s = back.map(|races| (races[0].at_us - hangs.end) / SECOND_US);
        assert!(after_s.is_some_and(|after_s| after_s <= within_s), "{budget}: {after_s:?}");
        let during: Vec<&PatientRace> = played_races.iter().filter(|race| hangs.contains(&race.at_us)).collect();
        let late = during.iter().filter(|race| race.ttft_us.unwrap() > 1_500 * MS).count();
        assert!(late <= during.len() / 50, "{budget}: {late} of {}", during.len());
    }
}

/// What an attempt at an ill upstream becomes.
type Illness = fn(&Dispatch) -> SimulatedResponse;

/// After how many seconds one of 600 ms that was ill for a minute wins half of twenty requests against one of 760 ms, by seed.
fn back_after_s(lines: &str, per_s: i64, ill: Illness) -> Vec<i64> {
    let ill_until = 180 * SECOND_US;
    let after_s = |seed: usize| {
        let truth = |dispatch: &Dispatch| {
            let mut drawn = *dispatch;
            drawn.request.id += 100_000 * seed;
            match (dispatch.upstream, (ill_until - 60 * SECOND_US..ill_until).contains(&dispatch.at_us)) {
                (0, true) => ill(&drawn),
                (0, false) => about(&drawn, 600.0),
                _ => about(&drawn, 760.0),
            }
        };
        let played_races = played(lines, 2, (per_s as usize * 330, SECOND_US / per_s), &truth);
        let is_half =
            |races: &[PatientRace]| races.iter().filter(|race| race.winner == Some(0)).count() >= races.len() / 2;
        let back = played_races.windows(20).find(|races| races[0].at_us >= ill_until && is_half(races));
        back.map_or(i64::MAX, |races| (races[0].at_us - ill_until) / SECOND_US)
    };
    let mut all: Vec<i64> = (1..7).map(after_s).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_healed_favourite_that_is_little_better_wins_half_again() {
    let illnesses: [(&str, Illness); 3] = [
        ("fails", |_| SimulatedResponse::Fails { after_us: 50 * MS }),
        ("hangs", |_| SimulatedResponse::Hangs),
        ("slow", |dispatch| about(dispatch, 3_000.0)),
    ];
    for (budget, within_s) in [(0.1, 10), (0.02, 30)] {
        for (per_s, (name, ill)) in [2, 8].into_iter().flat_map(|per_s| illnesses.map(|illness| (per_s, illness))) {
            // By revisits alone: what looks saw of it while it was ill keeps some out for longer.
            let after_s = back_after_s(&format!("budget = {budget:?}\nlook = 0.0"), per_s, ill);
            // One of six may meet stragglers among its first answers.
            assert!(after_s[4] <= within_s && after_s[5] <= 30, "{budget}, {name}, {per_s} per second: {after_s:?}");
        }
    }
}

#[test]
fn no_request_waits_for_hung_upstreams_at_any_budget() {
    // 2,000 requests a day, and three of five hang for twenty minutes.
    let hangs = 12_000 * SECOND_US..13_200 * SECOND_US;
    let truth = |dispatch: &Dispatch| {
        let hung = dispatch.upstream < 3 && hangs.contains(&dispatch.at_us);
        if hung { SimulatedResponse::Hangs } else { about(dispatch, 300.0 + 10.0 * dispatch.upstream as f64) }
    };
    for lines in ["budget = 0.02", "budget = 0.1", "budget = 0.0"] {
        let played_races = played(lines, 5, (400, 43 * SECOND_US), &truth);
        let longest = quantile_ms(&played_races[100..], 1.0);
        assert!(longest <= 3_400, "{lines}: {longest}");
    }
}

#[test]
fn a_stall_of_all_starts_no_storm_and_is_over_when_it_is_over() {
    let stalls = 300 * SECOND_US..320 * SECOND_US;
    // What is sent during a stall answers when that is over.
    let truth = |dispatch: &Dispatch| match about(dispatch, 300.0) {
        SimulatedResponse::Answers { ttft_us, tpot_us } if stalls.contains(&dispatch.at_us) => {
            SimulatedResponse::Answers { ttft_us: stalls.end - dispatch.at_us + ttft_us, tpot_us }
        }
        usual => usual,
    };
    for lines in POLICIES {
        let played_races = played(lines, 5, (450 * 10, SECOND_US / 10), &truth);
        let during: Vec<&PatientRace> = played_races.iter().filter(|race| stalls.contains(&race.at_us)).collect();
        let rescues: usize = during.iter().map(|race| race.starts - race.chosen).sum();
        // Ten, and half of the requests, in each ten seconds.
        assert!(rescues <= 3 * 60, "{lines}: {rescues} rescues of {} requests", during.len());
        let after: Vec<i64> = played_races
            .iter()
            .filter(|race| race.at_us >= stalls.end + 10 * SECOND_US)
            .map(|race| race.ttft_us.unwrap())
            .collect();
        let mean_ms = after.iter().sum::<i64>() / after.len() as i64 / MS;
        assert!(mean_ms <= 340, "{lines}: {mean_ms}");
    }
}

/// Plays requests that come in pairs, to upstreams that a function changes.
fn first_asked(
    lines: &str,
    change: impl Fn(&mut Vec<SimulatedUpstream>),
    truth: &dyn Fn(&Dispatch) -> SimulatedResponse,
) -> Vec<usize> {
    let mut world = Scripted { upstreams: upstreams(3), truth };
    change(&mut world.upstreams);
    let requests = (0..30).map(|id| SimulatedRequest {
        id,
        at_us: (id / 3) as i64 * 10 * SECOND_US + (id % 3) as i64,
        output_tokens: 20,
        whole: false,
    });
    let mut first = vec![0; 30];
    Rehearsal::new(settings(lines), 1).run(requests, &mut world, &mut |race: &PlayedRace<'_>| {
        first[race.request.id] = race.attempts[0].upstream;
    });
    first
}

#[test]
fn of_three_requests_at_three_servers_of_one_place_none_share_one() {
    let truth = |dispatch: &Dispatch| about(dispatch, 300.0);
    for lines in ["budget = 0.0", "policy = \"fallback\"", "policy = \"weighted\""] {
        let one_place = |upstreams: &mut Vec<SimulatedUpstream>| {
            upstreams.iter_mut().for_each(|upstream| upstream.in_flight_max = Some(1));
        };
        for three in first_asked(lines, one_place, &truth).chunks(3) {
            let mut three = three.to_vec();
            three.sort_unstable();
            assert_eq!(three, [0, 1, 2], "{lines}");
        }
        let two = |upstreams: &mut Vec<SimulatedUpstream>| {
            upstreams.iter_mut().for_each(|upstream| upstream.in_flight_max = None)
        };
        assert!(first_asked(lines, two, &truth).chunks(3).any(|three| three[0] == three[1]), "{lines}");
    }
}

#[test]
fn a_second_tier_is_asked_when_the_first_is_not_usable() {
    let dead = |dispatch: &Dispatch| match dispatch.upstream {
        0 | 1 if dispatch.at_us >= 50 * SECOND_US => SimulatedResponse::Fails { after_us: 20 * MS },
        _ => about(dispatch, if dispatch.upstream == 2 { 100.0 } else { 300.0 }),
    };
    let tiers = |upstreams: &mut Vec<SimulatedUpstream>| upstreams[2].tier = 2;
    for lines in [
        "budget = 0.1",
        "policy = \"race\"",
        "policy = \"fallback\"",
        "policy = \"weighted\"",
        "policy = \"hedge\"\nhedge_after = \"50ms\"",
    ] {
        let first = first_asked(lines, tiers, &dead);
        assert!(first[..15].iter().all(|first| *first < 2), "{lines}: {first:?}");
        assert!(first[24..].iter().all(|first| *first == 2), "with both breakers open: {lines}: {first:?}");
        let all = |upstreams: &mut Vec<SimulatedUpstream>| upstreams.iter_mut().for_each(|upstream| upstream.tier = 3);
        assert!(first_asked(lines, all, &dead).iter().any(|first| *first < 2), "{lines}: without a first tier");
    }
}

#[test]
fn a_slow_model_before_a_quick_one_is_not_raced_every_time() {
    let truth = |dispatch: &Dispatch| about(dispatch, if dispatch.upstream == 0 { 9_000.0 } else { 300.0 });
    for every_s in [1, 10, 40] {
        let played_races = played("policy = \"fallback\"", 2, (1_100, every_s * SECOND_US), &truth);
        let hedged = played_races[100..].iter().filter(|race| race.starts > 1).count();
        assert!(hedged <= 10, "every {every_s} s: {hedged} of 1,000");
    }
}
