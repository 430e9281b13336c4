//! The comparison of the last day with the week before, in worlds whose truth is known.
//!
//! The ignored test has the figures of `docs/records/accuracy.md`: `cargo test --release -p photofinish-history weeks_measured -- --ignored`.

use std::collections::VecDeque;

use super::simulation::{START_US, World};
use super::usual::{Hours, Week};
use super::*;
use photofinish_base::clock::HOUR_US;

/// Hours that are compared.
const COMPARED: usize = 8 * 24;
const UPSTREAM: &str = "a/m";

/// A world and its last hours, as the watch reads them.
struct Weeks {
    world: World,
    hours: VecDeque<Vec<IncidentAttempt>>,
    watch: IncidentWatch,
}

impl Weeks {
    /// Eight days without trouble.
    fn new(world: World) -> Weeks {
        let mut weeks = Weeks { world, hours: VecDeque::new(), watch: IncidentWatch::default() };
        weeks.world.tokens_slower = 1.0;
        // To the whole hour.
        (0..40).for_each(|_| drop(weeks.world.next()));
        (0..COMPARED).for_each(|_| weeks.pass());
        weeks
    }

    fn pass(&mut self) {
        let hour: Vec<IncidentAttempt> = (0..60).flat_map(|_| self.world.next()).collect();
        self.hours.push_back(hour);
        if self.hours.len() > COMPARED {
            self.hours.pop_front();
        }
    }

    fn usual(&self) -> Usual {
        let mut week = Week::new(START_US + self.world.minute * MINUTE_US);
        self.hours.iter().flatten().for_each(|attempt| week.add(attempt));
        let (usual, mut hours) = (week.usual(), Hours::default());
        for attempt in self.hours.iter().flatten() {
            if let Some(observation) = &attempt.ttft {
                let (end, entry) = observation.points();
                hours.add(&usual, attempt.at_us, attempt.class, &[end, entry.unwrap_or_default()]);
            }
        }
        usual.with_hours(&hours)
    }

    /// The changes of `hours`, each with its hour from 1 on. Only days are looked at: the minutes are of an hour ago.
    fn run(&mut self, hours: i64) -> Vec<(i64, IncidentChange)> {
        let mut changes = Vec::new();
        for hour in 1..=hours {
            self.pass();
            self.watch.compare_with([(UPSTREAM.to_owned(), self.usual())].into());
            let now_us = START_US + self.world.minute * MINUTE_US;
            (0..12).rev().for_each(|n| self.watch.advance(now_us - n * 5 * MINUTE_US));
            let newest = self.hours.back().and_then(|hour| hour.last().cloned());
            newest.iter().for_each(|attempt| self.watch.see(UPSTREAM, attempt));
            changes.extend(self.watch.check(&BTreeSet::new()).into_iter().map(|change| (hour, change)));
        }
        changes
    }
}

/// When an incident of this kind began, how, and its last report.
fn reported(changes: &[(i64, IncidentChange)], kind: IncidentKind) -> Option<(i64, &IncidentRecord)> {
    let of_kind = |(_, change): &&(i64, IncidentChange)| change.incident.kind == kind;
    let begun = changes.iter().filter(of_kind).find(|(_, change)| change.step == IncidentStep::Begun)?;
    Some((begun.0, &changes.iter().rev().find(of_kind)?.1.incident))
}

fn begun(changes: &[(i64, IncidentChange)]) -> usize {
    changes.iter().filter(|(_, change)| change.step == IncidentStep::Begun).count()
}

const KINDS: [IncidentKind; 2] = [IncidentKind::WeekSlower, IncidentKind::WeekTokS];

#[test]
fn what_is_slower_than_last_week_is_found_within_a_day_and_ends() {
    for (seed, cut) in [(1, 0.0), (2, 0.7)] {
        let mut weeks = Weeks::new(World { cut, ..World::new(seed, 2.0, 0.13) });
        let began_us = START_US + weeks.world.minute * MINUTE_US;
        (weeks.world.slower, weeks.world.tokens_slower) = (1.5, 1.5);
        let changes = weeks.run(36);
        for kind in KINDS {
            let (hours, incident) =
                reported(&changes, kind).unwrap_or_else(|| panic!("{seed}: {kind:?} in {changes:?}"));
            assert!(hours <= 24, "{kind:?} after {hours} h");
            assert!((incident.began_at - began_us).abs() <= 3 * HOUR_US, "{incident:?}");
            let factor = incident.factor.unwrap();
            assert!((1.3..1.7).contains(&factor) && incident.attempts > 1_000 && incident.seen > 300, "{incident:?}");
        }
        let ended_us = START_US + weeks.world.minute * MINUTE_US;
        (weeks.world.slower, weeks.world.tokens_slower) = (1.0, 1.0);
        let changes = weeks.run(30);
        for kind in KINDS {
            let last = changes.iter().rev().find(|(_, change)| change.incident.kind == kind).unwrap();
            assert_eq!(last.1.incident.state, IncidentState::Ended, "{last:?}");
            assert!((last.1.incident.ended_at.unwrap() - ended_us).abs() <= 3 * HOUR_US, "{last:?}");
        }
        assert_eq!(begun(&changes), 0);
    }
}

#[test]
fn what_has_become_usual_ends() {
    let mut weeks = Weeks::new(World::new(3, 1.0, 0.0));
    weeks.world.slower = 1.5;
    let changes = weeks.run(7 * 24);
    let (_, incident) = reported(&changes, IncidentKind::WeekSlower).unwrap();
    assert_eq!((begun(&changes), incident.state), (1, IncidentState::Ended));
}

/// Its name, and what changes in it.
type ChangedWorld = (&'static str, World, fn(&mut World));

#[test]
fn only_what_became_slower_is_found() {
    let racing = World { cut: 0.7, ..World::new(4, 2.0, 0.0) };
    let cases: [ChangedWorld; 6] = [
        ("more large prompts", World::new(4, 2.0, 0.0), |world| world.large = 0.9),
        ("a quicker rival", racing.clone(), |world| world.rival = 0.6),
        ("a slower rival", racing.clone(), |world| world.rival = 2.0),
        ("slow together with its rival", World { common: 0.8, audit: 0.1, ..racing }, |world| world.rival = 2.0),
        ("too few", World::new(4, 0.25, 0.0), |world| world.slower = 3.0),
        ("faster", World::new(4, 2.0, 0.0), |world| (world.slower, world.tokens_slower) = (0.5, 0.5)),
    ];
    for (name, world, change) in cases {
        let mut weeks = Weeks::new(world);
        change(&mut weeks.world);
        let changes = weeks.run(30);
        assert_eq!(begun(&changes), 0, "{name}: {changes:?}");
    }
    // Nor do hours that were slow make a slow day.
    let mut weeks = Weeks::new(World::new(5, 2.0, 0.0));
    (weeks.world.slower, weeks.world.tokens_slower) = (3.0, 3.0);
    let mut changes = weeks.run(6);
    (weeks.world.slower, weeks.world.tokens_slower) = (1.0, 1.0);
    changes.extend(weeks.run(24));
    assert_eq!(begun(&changes), 0, "{changes:?}");
}

#[test]
fn days_that_move_are_no_incident() {
    for seed in 0..2 {
        let changes = Weeks::new(World::new(seed, 1.0, 0.20)).run(200);
        assert_eq!(begun(&changes), 0, "{changes:?}");
    }
}

#[test]
fn one_that_is_told_already_does_not_begin_and_one_that_is_not_asked_has_no_end() {
    let mut weeks = Weeks::new(World::new(6, 2.0, 0.0));
    let began_at = START_US + weeks.world.minute * MINUTE_US;
    let (upstream, kind) = (Some(UPSTREAM.to_owned()), IncidentKind::Slower);
    (weeks.world.slower, weeks.world.tokens_slower) = (1.5, 1.5);
    // It is asked all the time, so that the incident of minutes goes on.
    let mut changes = Vec::new();
    for hour in 0..24 {
        let (upstream, last_at) = (upstream.clone(), began_at + (hour + 1) * HOUR_US);
        weeks.watch.resume(IncidentRecord { upstream, kind, began_at, last_at, ..IncidentRecord::default() });
        changes.extend(weeks.run(1));
    }
    assert_eq!(reported(&changes, IncidentKind::WeekSlower), None);
    assert!(reported(&changes, IncidentKind::WeekTokS).is_some());
    weeks.world.per_minute = 0.001;
    let (_, last) = weeks.run(24).pop().unwrap();
    assert_eq!((last.incident.state, last.incident.ended_at), (IncidentState::EndUnknown, None));
}

/// The figures of `docs/records/accuracy.md`.
#[test]
#[ignore = "some minutes"]
fn weeks_measured() {
    let mut table = Vec::new();
    for (slower, moves, cut) in [(1.3, 0.13, 0.0), (1.5, 0.13, 0.0), (1.5, 0.20, 0.0), (1.5, 0.13, 0.7)] {
        let found = |seed| {
            let mut weeks = Weeks::new(World { cut, ..World::new(seed, 2.0, moves) });
            (weeks.world.slower, weeks.world.tokens_slower) = (slower, slower);
            let changes = weeks.run(36);
            KINDS.map(|kind| reported(&changes, kind).map(|(hours, incident)| (hours, incident.factor.unwrap())))
        };
        let found: Vec<_> = (0..40).map(|seed| found(100 + seed)).collect();
        for (place, name) in ["first tokens", "tokens after"].iter().enumerate() {
            let of_kind = || found.iter().filter_map(|kinds| kinds[place]);
            let shares = [13, 18, 24].map(|until| of_kind().filter(|(hours, _)| *hours <= until).count() * 100 / 40);
            let mut factors: Vec<f64> = of_kind().map(|(_, factor)| factor).collect();
            table.push(format!(
                "| {name} × {slower}, level moves {:.0} %, {:.0} % cut | {} | {:.2} |",
                moves * 100.0,
                cut * 100.0,
                shares.map(|share| share.to_string()).join(" | "),
                day::median(&mut factors).unwrap(),
            ));
        }
    }
    for (moves, cut) in [(0.13, 0.0), (0.20, 0.0), (0.20, 0.7)] {
        let found = |seed| begun(&Weeks::new(World { cut, ..World::new(500 + seed, 1.0, moves) }).run(30 * 24));
        let found: usize = (0_u64..20).map(found).sum();
        table.push(format!(
            "| 20 quiet months, level moves {:.0} %, {:.0} % cut | {found} |",
            moves * 100.0,
            cut * 100.0
        ));
    }
    let document = include_str!("../../../../../docs/records/accuracy.md");
    assert!(table.iter().all(|line| document.contains(line)), "docs/records/accuracy.md lacks\n{}", table.join("\n"));
}
