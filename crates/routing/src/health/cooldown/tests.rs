//! What cools down, for how long, and what ends it.

use super::*;

fn target(model: &str, key: &str) -> CooldownTarget {
    CooldownTarget {
        provider: "p".to_owned(),
        model: model.to_owned(),
        surface: Surface::Chat,
        key_id: Some(key.to_owned()),
        own_key: false,
        named: false,
    }
}

fn wait(cooldowns: &Cooldowns, target: &CooldownTarget, now: Instant) -> Option<Duration> {
    cooldowns.wait(target, now).map(|held| held.wait)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_rate_limit_cools_one_key_for_one_model_for_retry_after() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    cooldowns.cool_down(CooldownReason::RateLimited, &target("big", "k1"), Some(SECOND * 7), now, 0.0);
    assert_eq!(wait(&cooldowns, &target("small", "k1"), now), None, "not another model");
    assert_eq!(wait(&cooldowns, &target("big", "k2"), now), None, "not another key");
    let responses = CooldownTarget { surface: Surface::Responses, ..target("big", "k1") };
    assert_eq!(wait(&cooldowns, &responses, now), Some(SECOND * 7), "whatever the surface");
    cooldowns.clear(&target("small", "k1"), now + SECOND, now + SECOND);
    assert_eq!(
        wait(&cooldowns, &target("big", "k1"), now + SECOND),
        Some(SECOND * 6),
        "another model forgives nothing"
    );
    assert_eq!(wait(&cooldowns, &target("big", "k1"), now + SECOND * 7), None);
    let wait = cooldowns.cool_down(CooldownReason::RateLimited, &target("big", "k1"), Some(SECOND * 9_999), now, 0.0);
    assert_eq!(wait, RETRY_AFTER_MAX);
}

#[test]
fn a_rate_limit_of_the_account_cools_its_key_whatever_the_model() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    cooldowns.cool_down(CooldownReason::AccountRateLimited, &target("big", "k1"), Some(SECOND * 7), now, 0.0);
    assert_eq!(wait(&cooldowns, &target("small", "k1"), now), Some(SECOND * 7));
    assert_eq!(wait(&cooldowns, &target("big", "k2"), now), None, "not another key");
    let long =
        cooldowns.cool_down(CooldownReason::AccountRateLimited, &target("a", "k"), Some(SECOND * 9_999), now, 0.0);
    assert_eq!(long, ACCOUNT_RETRY_AFTER_MAX);
}

#[test]
fn one_request_in_five_seconds_is_let_through_to_what_was_refused() {
    for reason in [CooldownReason::KeyRefused, CooldownReason::Forbidden, CooldownReason::NotFound] {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let at = |seconds| now + SECOND * seconds;
        let gone = target("gone", "k");
        assert!(!cooldowns.let_through(&gone, now), "nothing is held against it");
        cooldowns.cool_down(reason, &gone, None, now, 0.0);
        cooldowns.cool_down(reason, &gone, None, at(10), 0.0);
        let mut through = |seconds| cooldowns.let_through(&gone, at(seconds));
        assert_eq!([10, 14, 15, 15, 19].map(&mut through), [false, false, true, false, false], "{reason:?}");
        assert_eq!([20, 29].map(&mut through), [true, true], "{reason:?}");
        cooldowns.cool_down(reason, &gone, None, at(29), 0.0);
        cooldowns.cool_down(reason, &gone, None, at(30), 0.0);
        assert!(!cooldowns.let_through(&gone, at(34)), "it refused again");
        cooldowns.cool_down(CooldownReason::RateLimited, &gone, Some(SECOND * 60), at(34), 0.0);
        assert!(!cooldowns.let_through(&gone, at(40)), "it has to wait as well");
    }
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    for reason in [CooldownReason::RateLimited, CooldownReason::AccountRateLimited] {
        cooldowns.cool_down(reason, &target("busy", "k"), Some(SECOND * 60), now, 0.0);
        assert!(!cooldowns.let_through(&target("busy", "k"), now + SECOND * 30), "{reason:?}: its Retry-After holds");
    }
}

#[test]
fn a_back_off_doubles_to_a_minute_and_an_answer_ends_it() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    let mut at = now;
    let waits: Vec<u64> = (0..9)
        .map(|_| {
            let wait = cooldowns.cool_down(CooldownReason::RateLimited, &target("a", "k"), None, at, 1.0);
            at += wait;
            wait.as_secs()
        })
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    cooldowns.clear(&target("a", "k"), at, at);
    assert_eq!(wait(&cooldowns, &target("a", "k"), at), None);
    let wait = cooldowns.cool_down(CooldownReason::RateLimited, &target("a", "k"), None, at, 0.0);
    assert_eq!(wait, SECOND / 2, "from the start again, with the least jitter");
}

#[test]
fn rate_limits_that_come_together_are_one_strike() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    let mut limited = |at| cooldowns.cool_down(CooldownReason::RateLimited, &target("a", "k"), None, at, 1.0);
    assert_eq!(limited(now), SECOND);
    assert_eq!((0..7).map(|_| limited(now + SECOND / 4)).max(), Some(SECOND * 3 / 4), "what is left of it");
    assert_eq!(limited(now + SECOND), SECOND * 2, "the second strike");
    assert_eq!(limited(now + SECOND * 3 + STRIKES_FOR), SECOND, "long ago");
}

#[test]
fn an_answer_to_what_was_sent_before_ends_no_cool_down() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    let key = target("a", "k");
    cooldowns.cool_down(CooldownReason::RateLimited, &key, Some(SECOND * 60), now + SECOND, 0.0);
    cooldowns.clear(&key, now, now + SECOND * 2);
    assert_eq!(wait(&cooldowns, &key, now + SECOND * 2), Some(SECOND * 59), "sent before the 429 was heard");
    cooldowns.clear(&key, now + SECOND * 2, now + SECOND * 3);
    assert_eq!(wait(&cooldowns, &key, now + SECOND * 3), None, "sent after it");
    cooldowns.cool_down(CooldownReason::KeyRefused, &key, None, now + SECOND, 0.0);
    cooldowns.clear(&key, now, now + SECOND * 2);
    assert!(wait(&cooldowns, &key, now + SECOND * 2).is_some(), "a refused key");
    cooldowns.clear(&key, now, now + SECOND + REFUSED_FIRST);
    assert!(cooldowns.is_empty(), "it has run out");
}

#[test]
fn without_a_key_only_the_upstream_is_cool_down() {
    for reason in [
        CooldownReason::RateLimited,
        CooldownReason::AccountRateLimited,
        CooldownReason::KeyRefused,
        CooldownReason::NotFound,
    ] {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let keyless = |model| CooldownTarget { key_id: None, ..target(model, "") };
        cooldowns.cool_down(reason, &keyless("busy"), Some(SECOND), now, 0.0);
        assert!(wait(&cooldowns, &keyless("busy"), now).is_some(), "{reason:?}");
        assert_eq!(wait(&cooldowns, &keyless("idle"), now), None, "{reason:?}");
        assert_eq!(wait(&cooldowns, &target("busy", "k"), now), None, "{reason:?}");
        cooldowns.clear(&keyless("busy"), now + SECOND, now + SECOND);
        assert!(cooldowns.is_empty(), "{reason:?}");
    }
}

#[test]
fn a_refused_upstream_leaves_the_key_s_other_models() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    cooldowns.cool_down(CooldownReason::NotFound, &target("gone", "k"), None, now, 0.0);
    assert_eq!(wait(&cooldowns, &target("gone", "k"), now), Some(REFUSED_FIRST));
    assert_eq!(wait(&cooldowns, &target("here", "k"), now), None);
    cooldowns.cool_down(CooldownReason::KeyRefused, &target("gone", "k"), None, now, 0.0);
    assert_eq!(wait(&cooldowns, &target("here", "k"), now), Some(REFUSED_FIRST));
}

#[test]
fn what_is_used_up_rests_a_moment_for_this_key_and_model() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    assert_eq!(
        cooldowns.cool_down(CooldownReason::Exhausted, &target("a", "k"), Some(SECOND * 2), now, 0.0),
        SECOND * 2
    );
    assert_eq!(wait(&cooldowns, &target("a", "k"), now), Some(SECOND * 2));
    assert_eq!((wait(&cooldowns, &target("b", "k"), now), wait(&cooldowns, &target("a", "l"), now)), (None, None));
    let wait = cooldowns.cool_down(CooldownReason::Exhausted, &target("a", "k"), Some(SECOND * 3_600), now, 0.0);
    assert_eq!(wait, EXHAUSTED_MAX);
}

#[test]
fn the_table_is_bounded() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    cooldowns.cool_down(CooldownReason::KeyRefused, &target("m", "shared"), None, now, 0.0);
    // Two entries for each key: more than the table has room for.
    for key in 0..ENTRIES_MAX / 2 + 300 {
        let brought = CooldownTarget { own_key: true, ..target("m", &key.to_string()) };
        cooldowns.cool_down(CooldownReason::RateLimited, &brought, Some(RETRY_AFTER_MAX), now, 0.0);
        let named = CooldownTarget { named: true, ..target(&key.to_string(), "shared") };
        cooldowns.cool_down(CooldownReason::NotFound, &named, None, now, 0.0);
    }
    assert_eq!(cooldowns.made_up.len(), ENTRIES_MAX);
    assert_eq!(wait(&cooldowns, &target("m", "shared"), now), Some(REFUSED_FIRST), "what callers make up");
}

#[test]
fn a_refusal_is_short_at_first_and_longer_each_time() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    let mut at = now;
    let mut refused = |at| cooldowns.cool_down(CooldownReason::NotFound, &target("m", "k"), None, at, 0.0).as_secs();
    let waits: Vec<u64> = (0..8)
        .map(|_| {
            let wait = refused(at);
            assert_eq!(refused(at + SECOND), wait - 1, "one that was sent before shows nothing new");
            at += SECOND * u32::try_from(wait).unwrap();
            wait
        })
        .collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
    assert_eq!(refused(at + REFUSED_MAX), 10, "long ago");
}

#[test]
fn a_doubtful_refusal_counts_once_several_bodies_and_callers_met_it() {
    // The number of callers, the caller and body of each refusal, and whether the refusal counts then.
    type Row = (usize, &'static [(u64, u64)], bool);
    let table: &[Row] = &[
        (2, &[(1, 1), (2, 1)], false),
        (2, &[(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)], false),
        (2, &[(1, 1), (1, 2), (2, 2), (2, 1)], false),
        (2, &[(1, 1), (1, 2), (2, 3)], true),
        (2, &[(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)], true),
        (1, &[(0, 7), (0, 7), (0, 7), (0, 7)], false),
        (1, &[(0, 7), (0, 8), (0, 9)], true),
    ];
    for (callers, met, expected) in table {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let mut certain = false;
        for (caller, body) in *met {
            let refusal_source = RefusalSource { caller: *caller, body: *body };
            certain = cooldowns.suspect(&target("m", "k"), refusal_source, *callers, now);
        }
        assert_eq!(certain, *expected, "{met:?}");
        assert_eq!(wait(&cooldowns, &target("m", "k"), now), None);
    }
}

#[test]
fn doubt_ends_with_an_answer_and_with_time() {
    let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
    let key = target("m", "k");
    let suspect = |cooldowns: &mut Cooldowns, body, at| {
        cooldowns.suspect(&target("m", "k"), RefusalSource { caller: 0, body }, 1, at)
    };
    assert!(!suspect(&mut cooldowns, 1, now) && !suspect(&mut cooldowns, 2, now));
    cooldowns.clear(&key, now, now);
    assert!(!suspect(&mut cooldowns, 3, now) && !suspect(&mut cooldowns, 4, now), "it served one");
    let later = now + SUSPECTED_FOR;
    assert!(!suspect(&mut cooldowns, 5, later) && !suspect(&mut cooldowns, 6, later), "long ago");
    let other = CooldownTarget { surface: Surface::Embeddings, ..key.clone() };
    assert!(!cooldowns.suspect(&other, RefusalSource { caller: 0, body: 7 }, 1, later), "another surface");
    assert!(suspect(&mut cooldowns, 7, later));
}
