//! How often the rule is wrong, how soon it is right, and what it holds. Seeded.

use super::*;

const HOUR_US: i64 = 3_600_000_000;

/// Answers of `shares.len()` hosts in turn. Returns how many each had given when `found` first held for one of these hosts.
fn first_found(shares: &[f64], watched: &[usize], most: usize, random: &mut fastrand::Rng) -> Option<usize> {
    let names: Vec<String> = (0..shares.len()).map(|host| format!("h{host}/m")).collect();
    let mut answers = JudgedAnswers::default();
    for turn in 1..=most {
        for (name, share) in names.iter().zip(shares) {
            answers.add(1, name, random.f64() < *share, 0);
        }
        let is_worse = |host: &&usize| answers.evidence(&names[**host], 0).is_some_and(|evidence| evidence.is_worse());
        if watched.iter().any(|host| is_worse(&host)) {
            return Some(turn);
        }
    }
    None
}

#[test]
fn equal_hosts_are_hardly_ever_told_apart() {
    let mut random = fastrand::Rng::with_seed(7);
    for share in [0.01, 0.03, 0.05, 0.1, 0.2] {
        let runs = 1_000;
        let all: Vec<usize> = (0..5).collect();
        let wrong = (0..runs).filter(|_| first_found(&[share; 5], &all, 400, &mut random).is_some()).count();
        eprintln!("{share}: {wrong} of {runs}");
        assert!(wrong <= runs / 20, "{share}: {wrong} of {runs}");
    }
}

#[test]
fn a_host_that_breaks_more_is_soon_found() {
    let mut random = fastrand::Rng::with_seed(8);
    for (share, within) in [(0.10, 180), (0.15, 80), (0.20, 50)] {
        let mut found: Vec<usize> = (0..400)
            .map(|_| first_found(&[share, 0.03, 0.03, 0.03, 0.03], &[0], 2_000, &mut random).unwrap_or(2_000))
            .collect();
        found.sort_unstable();
        eprintln!("{share}: found after {}", found[200]);
        assert!(found[200] <= within, "{share}: {}", found[200]);
    }
}

#[test]
fn answers_of_others_are_wanted_while_one_breaks_more_and_few_were_judged() {
    let mut answers = JudgedAnswers::default();
    let mut after = |host: &str, broken: bool, times: usize| {
        (0..times).for_each(|_| answers.add(1, host, broken, 0));
        answers.look(0);
        (answers.is_in_doubt(), answers.is_worse("a/m"))
    };
    assert_eq!(after("a/m", false, 20), (false, false));
    assert_eq!(after("a/m", true, 1), (false, false), "one may be chance");
    assert_eq!(after("a/m", true, 3), (true, false));
    assert_eq!(after("b/m", false, 9), (true, false));
    assert_eq!(after("b/m", true, 2), (false, false), "the others break as many");
    assert_eq!(after("b/m", false, 20), (true, false));
    assert_eq!(after("a/m", true, 20), (false, true), "it is found");
}

#[test]
fn the_others_are_not_worse_because_one_is() {
    let mut random = fastrand::Rng::with_seed(9);
    let wrong = (0..400)
        .filter(|_| first_found(&[0.2, 0.03, 0.03, 0.03, 0.03], &[1, 2, 3, 4], 400, &mut random).is_some())
        .count();
    assert_eq!(wrong, 0);
}

#[test]
fn only_what_others_got_too_is_compared() {
    let mut answers = JudgedAnswers::default();
    for _ in 0..500 {
        answers.add(1, "a/m", true, 0);
        answers.add(2, "b/m", false, 0);
    }
    assert_eq!(answers.evidence("a/m", 0), None, "no other host got these tools");
    assert_eq!(answers.evidence("c/m", 0), None);
    // Hard tools are hard for both: the one that gets more of them is not worse.
    let mut answers = JudgedAnswers::default();
    for n in 0..400 {
        answers.add(u32::from(n % 10 != 0), "a/m", n % 10 != 0 && n % 2 == 0, 0);
        answers.add(u32::from(n % 10 == 0), "b/m", n % 10 == 0 && n % 20 == 0, 0);
    }
    let evidence = answers.evidence("a/m", 0).unwrap();
    assert!(!evidence.is_worse() && evidence.broken_share >= 0.4, "{evidence:?}");
}

#[test]
fn what_was_learnt_fades() {
    let mut answers = JudgedAnswers::default();
    for n in 0..200 {
        answers.add(1, "a/m", n % 5 == 0, n);
        answers.add(1, "b/m", n % 50 == 0, n);
    }
    let worse_after = |hours: i64| answers.evidence("a/m", hours * HOUR_US).is_some_and(|evidence| evidence.is_worse());
    assert!(worse_after(0) && worse_after(24));
    assert!(!worse_after(24 * 14), "after two weeks without an answer it is asked again");
}

#[test]
fn it_holds_no_more_than_its_bounds() {
    let mut answers = JudgedAnswers::default();
    for n in 0..1_000 {
        answers.add(n, &format!("h{n}/m"), false, i64::from(n));
        answers.add(0, &format!("h{n}/m"), false, i64::from(n));
    }
    assert_eq!((answers.classes.len(), answers.classes[&0].hosts.len()), (CLASSES_MAX, HOSTS_MAX));
    answers.retain(|host| host == "h1/m");
    assert_eq!(answers.hosts(), ["h1/m"]);
}

#[test]
fn the_logarithm_of_gamma_is_right() {
    for (x, expected) in
        [(0.5, 0.572_364_942_924_7), (1.0, 0.0), (5.0, 3.178_053_830_348), (100.0, 359.134_205_369_575)]
    {
        assert!((ln_gamma(x) - expected).abs() < 1e-9, "{x}: {}", ln_gamma(x));
    }
}
