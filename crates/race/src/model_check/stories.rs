//! Examples of races on a stopped clock: which attempts start when, and how each ends.

mod trials;
mod whole;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::fakes::{Decide, Fakes, Log, Script};
use super::world::{Behaviour, Course, World};
use crate::{Race, RaceFinish, Replan};
use photofinish_base::clock::Instant;
use photofinish_base::failure::FailureKind;
use photofinish_config::ContentPolicy;
use photofinish_facts::record::StartReason;
use photofinish_routing::policy::plan::{PlannedStart, RacePlan, StartRule};

const NOW: StartRule = StartRule::At(Duration::ZERO);
const LATER: StartRule = StartRule::AfterFailure;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn after(delay: u64) -> StartRule {
    StartRule::At(millis(delay))
}

/// First token, or failure, after this many milliseconds.
fn course(delay: u64, behaviour: Behaviour) -> Course {
    Course { delay: millis(delay), behaviour, lasts: Duration::ZERO, breaks: None, retry_after: None }
}

fn ready(delay: u64) -> Course {
    course(delay, Behaviour::Ready)
}

/// A whole answer: milliseconds to its first token, and from there to its end.
fn answer(delay: u64, lasts: u64) -> Course {
    Course { lasts: millis(lasts), ..ready(delay) }
}

fn breaking(course: Course, breaks: u64) -> Course {
    Course { breaks: Some(millis(breaks)), ..course }
}

fn error(delay: u64) -> Course {
    course(delay, Behaviour::Fail(FailureKind::ServerError))
}

fn limited(delay: u64, retry_after: u64) -> Course {
    Course { retry_after: Some(millis(retry_after)), ..course(delay, Behaviour::Fail(FailureKind::RateLimited)) }
}

fn refusal(delay: u64) -> Course {
    course(delay, Behaviour::Fail(FailureKind::ContentPolicy))
}

fn hang() -> Course {
    course(0, Behaviour::Hang)
}

struct Story {
    world: World,
    plan: RacePlan,
    script: Script,
}

/// Candidates in the plan's order: behaviour and start.
fn story<const N: usize>(candidates: [(Course, StartRule); N]) -> Story {
    let entry = |(candidate, (_, start)): (usize, &(Course, StartRule))| PlannedStart {
        candidate,
        start: *start,
        first_token: millis(9_000),
        p_include: 1.0,
        trial: false,
        only_shows: false,
    };
    let entries = candidates.iter().enumerate().map(entry).collect();
    let courses = candidates.iter().map(|(course, _)| *course).collect();
    Story {
        world: World { courses, ..World::default() },
        plan: RacePlan {
            entries,
            max_attempts: 4,
            total: millis(9_000),
            ask_after: None,
            expected: None,
            trials_win: true,
            content_policy: ContentPolicy::Stop,
        },
        script: Script::default(),
    }
}

/// The result of a story.
struct StoryOutcome {
    /// `won by 1`, with the ordinal
    finish: String,
    /// By ordinal: candidate, start reason, ending.
    rows: Vec<(usize, StartReason, &'static str)>,
    elapsed: u128,
}

impl StoryOutcome {
    fn end(&self) -> (&str, u128) {
        (&self.finish, self.elapsed)
    }

    fn ends(&self) -> Vec<&'static str> {
        self.rows.iter().map(|(.., ended)| *ended).collect()
    }
}

impl Story {
    fn first_token_timeout(mut self, timeout: u64) -> Story {
        self.plan.entries.iter_mut().for_each(|entry| entry.first_token = millis(timeout));
        self
    }

    fn total(mut self, total: u64) -> Story {
        self.plan.total = millis(total);
        self
    }

    fn whole(mut self) -> Story {
        self.world.whole = true;
        self
    }

    fn asked_after(mut self, delay: u64, replans: &[Replan]) -> Story {
        self.plan.ask_after = Some(millis(delay));
        self.script.replans = replans.to_vec();
        self
    }

    fn max_attempts(mut self, most: usize) -> Story {
        self.plan.max_attempts = most;
        self
    }

    /// `first`: before others start.
    fn retries(mut self, most: u32, first: bool) -> Story {
        self.world.retries = (most, millis(2_000), first);
        self
    }

    fn held_for(mut self, hold: u64) -> Story {
        self.script.hold = Some(millis(hold));
        self
    }

    fn script(mut self, change: impl FnOnce(&mut Script)) -> Story {
        change(&mut self.script);
        self
    }

    fn race(self) -> (Race<Fakes>, Rc<RefCell<Log>>) {
        let log = Rc::new(RefCell::new(Log::default()));
        let fakes = Fakes::new(self.world, Decide::As(self.script), &self.plan, &log);
        (Race::new(self.plan, fakes, Instant::now()), log)
    }

    async fn play(self) -> StoryOutcome {
        let began = Instant::now();
        let (mut race, log) = self.race();
        let finish = match race.run().await {
            RaceFinish::Won { mut ready, ordinal, .. } => {
                ready.row.ended = "won";
                format!("won by {ordinal}")
            }
            RaceFinish::Failed => "failed".to_owned(),
            RaceFinish::Deadline => "deadline".to_owned(),
        };
        let elapsed = began.elapsed().as_millis();
        drop(race);
        let log = log.borrow();
        let mut ends = log.rows.clone();
        ends.sort_unstable();
        let row = |(ordinal, ended): &(usize, &'static str)| {
            (log.started[*ordinal].candidate, log.started[*ordinal].reason, *ended)
        };
        StoryOutcome { finish, rows: ends.iter().map(row).collect(), elapsed }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_failure_does_not_beat_a_healthy_attempt() {
    let outcome = story([(error(1), NOW), (ready(300), NOW)]).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 300), vec!["failed", "won"]));
}

#[tokio::test(start_paused = true)]
async fn two_that_are_ready_in_one_poll_leave_one_winner_and_one_loser() {
    let outcome = story([(ready(50), NOW), (ready(50), NOW)]).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 50), vec!["won", "lost"]));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_starts_on_time_or_at_once_after_a_failure() {
    let outcome = story([(ready(5_000), NOW), (ready(100), after(200))]).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 300), vec!["lost", "won"]));
    let outcome = story([(error(10), NOW), (ready(100), after(200))]).play().await;
    assert_eq!(outcome.end(), ("won by 1", 110));
}

#[tokio::test(start_paused = true)]
async fn a_late_attempt_gets_another_one_beside_it_and_is_not_cut() {
    let outcome = story([(ready(500), NOW), (error(10), LATER)]).first_token_timeout(100).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 500), vec!["won", "failed"]));
    let outcome = story([(hang(), NOW), (ready(10), LATER)]).first_token_timeout(100).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 110), vec!["late", "won"]));
    let outcome = story([(hang(), NOW), (ready(10), StartRule::Last)]).first_token_timeout(100).play().await;
    assert_eq!(outcome.end(), ("won by 1", 110), "the last resort too, where no other is left");
    let outcome = story([(ready(500), NOW)]).first_token_timeout(100).play().await;
    assert_eq!(outcome.end(), ("won by 0", 500));
    let outcome = story([(ready(500), NOW), (ready(600), NOW)]).first_token_timeout(100).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 500), vec!["won", "late"]));
}

#[tokio::test(start_paused = true)]
async fn the_total_deadline_ends_it() {
    let outcome = story([(hang(), NOW), (hang(), NOW)]).first_token_timeout(100).total(700).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("deadline", 700), vec!["deadline", "deadline"]));
}

#[tokio::test(start_paused = true)]
async fn a_policy_refusal_starts_no_others_but_lets_the_running_win() {
    let outcome = story([(refusal(10), NOW), (ready(10), LATER)]).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 10), 1));
    let outcome = story([(refusal(10), NOW), (ready(100), NOW), (ready(0), after(50))]).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 1", 100), 2));
    for breaks in [refusal(300), ready(400)] {
        let late = story([(refusal(250), NOW), (breaks, LATER)]).asked_after(200, &[Replan::Rescue(1)]).play().await;
        assert_eq!((late.end(), late.ends()), (("failed", 250), vec!["failed", "lost"]), "patience asked it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_beside_an_answer_that_has_begun_is_not_routed_around_when_that_breaks() {
    let begun = breaking(answer(10, 100), 50);
    let outcome = story([(refusal(10), NOW), (begun, NOW), (ready(10), LATER)]).whole().play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 60), 2));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_asked_again_starts_whom_it_names_when_it_says_so() {
    let three = || story([(hang(), NOW), (ready(10), LATER), (ready(100), LATER)]);
    let outcome = three().asked_after(200, &[Replan::Again(millis(50)), Replan::Start(2)]).play().await;
    assert_eq!(outcome.end(), ("won by 1", 350));
    assert_eq!(outcome.rows, [(0, StartReason::First, "lost"), (2, StartReason::Hedge, "won")]);
    let outcome = three().asked_after(200, &[Replan::Start(2), Replan::Start(1)]).play().await;
    assert_eq!(
        (outcome.end(), outcome.ends()),
        (("won by 2", 210), vec!["lost", "lost", "won"]),
        "asked again after a start"
    );
    let outcome = three().asked_after(200, &[Replan::Never, Replan::Start(1)]).total(700).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("deadline", 700), 1));
    let outcome = three().asked_after(200, &[Replan::Start(0), Replan::Start(1)]).total(700).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("deadline", 700), 1), "it names one that runs: never");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_never_delayed_and_the_plan_is_asked_at_once_behind_it() {
    let four = story([(error(10), NOW), (hang(), LATER), (hang(), LATER), (ready(100), LATER)]);
    let outcome = four.script(|script| script.next = 1).asked_after(5_000, &[Replan::Start(3)]).play().await;
    assert_eq!(outcome.end(), ("won by 2", 110));
    let expected =
        [(0, StartReason::First, "failed"), (2, StartReason::Fallback, "lost"), (3, StartReason::Hedge, "won")];
    assert_eq!(outcome.rows, expected, "the launcher chose who follows");
}

#[tokio::test(start_paused = true)]
async fn a_first_token_is_held_back_until_another_comes_or_its_time_is_over() {
    let two = || story([(ready(100), NOW), (ready(250), NOW)]);
    let outcome = two().held_for(200).script(|script| script.prefers_new = true).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 250), vec!["lost", "won"]));
    let outcome = two().held_for(200).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 250), vec!["won", "lost"]));
    let outcome = two().held_for(100).script(|script| script.prefers_new = true).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 200), vec!["won", "lost"]));
    let outcome = two().held_for(200).total(220).play().await;
    assert_eq!(outcome.end(), ("won by 0", 220), "the deadline ends a hold and not the race");
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_when_nobody_is_left_to_wait_for() {
    let outcome = story([(ready(100), NOW), (error(150), NOW), (ready(1), LATER)]).held_for(500).play().await;
    assert_eq!(
        (outcome.end(), outcome.ends()),
        (("won by 0", 150), vec!["won", "failed"]),
        "and none is started for it"
    );
    let late = story([(ready(100), NOW), (hang(), NOW)]).first_token_timeout(180).held_for(500).play().await;
    assert_eq!((late.end(), late.ends()), (("won by 0", 600), vec!["won", "late"]));
    let alone = story([(ready(100), NOW), (ready(1), LATER)]).held_for(500).play().await;
    assert_eq!(alone.end(), ("won by 0", 100), "alone it is not held back");
}

#[tokio::test(start_paused = true)]
async fn one_that_breaks_while_it_is_held_back_has_failed() {
    let broken = || breaking(ready(100), 50);
    let outcome = story([(broken(), NOW), (ready(300), NOW)]).held_for(500).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 300), vec!["broke", "won"]));
    let outcome = story([(broken(), NOW), (hang(), NOW), (ready(10), LATER)]).held_for(500).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 2", 160), vec!["broke", "lost", "won"]));
    let outcome = story([(broken(), NOW), (hang(), NOW), (ready(10), after(120))]).held_for(500).play().await;
    assert_eq!(outcome.end(), ("won by 2", 160), "its timer ran out while nothing was started");
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_waited_out_before_the_next_is_started_or_beside_it() {
    use StartReason::*;
    let two = |wait| story([(limited(10, wait), NOW), (ready(700), LATER)]);
    let outcome = two(500).retries(1, true).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 2", 1_220), vec!["failed", "failed", "won"]));
    assert_eq!(
        outcome.rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
        [(0, First), (0, Retry), (1, Fallback)]
    );
    let outcome = two(500).retries(1, false).play().await;
    assert_eq!(
        (outcome.end(), outcome.rows[2]),
        (("won by 1", 710), (0, Retry, "failed")),
        "the next is started at once"
    );
    let outcome = two(500).retries(1, false).script(|script| script.is_poor = true).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 1", 710), 2), "no retry that cannot be paid for");
    let outcome = two(2_001).retries(1, true).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 1", 710), 2), "a long wait is not waited out");
    let outcome = two(500).retries(0, true).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 1", 710), 2), "none are configured");
}

#[tokio::test(start_paused = true)]
async fn a_race_waits_for_a_retry_when_all_others_have_failed() {
    let outcome = story([(limited(10, 1_000), NOW), (error(20), NOW)]).retries(1, false).play().await;
    // The error backs off for 50 ms, without jitter.
    assert_eq!((outcome.end(), outcome.ends()), (("failed", 1_020), vec!["failed"; 4]));
    let outcome = story([(limited(10, 1_000), NOW)]).retries(3, true).total(2_500).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 2_030), 3), "the third would come after the deadline");
    let outcome = story([(limited(10, 1_000), NOW)]).retries(3, true).max_attempts(2).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 1_020), 2), "a retry is an attempt");
    let outcome = story([(limited(10, 1_000), NOW), (refusal(20), NOW)]).retries(3, false).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 20), 2), "nothing is asked after a policy refusal");
    let outcome = story([(refusal(20), NOW)]).retries(3, true).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("failed", 20), 1), "and a refusal is not asked again");
}

#[tokio::test(start_paused = true)]
async fn a_wait_delays_nobody_who_runs_and_no_timer_but_a_failure() {
    let outcome = story([(limited(10, 500), NOW), (ready(100), NOW)]).retries(1, true).play().await;
    assert_eq!(outcome.end(), ("won by 1", 100));
    let outcome = story([(limited(10, 500), NOW), (ready(100), after(50))]).retries(1, true).play().await;
    assert_eq!(outcome.end(), ("won by 1", 150));
    let slow = story([(limited(10, 500), NOW), (answer(100, 900), NOW)]).whole().retries(1, false).play().await;
    assert_eq!((slow.end(), slow.rows.len()), (("won by 1", 1_000), 2), "one that has begun needs no other");
    let broken = story([(limited(10, 500), NOW), (breaking(answer(100, 900), 600), NOW)]).whole().retries(1, false);
    let outcome = broken.play().await;
    let retried = outcome.rows.iter().filter(|row| row.1 == StartReason::Retry).count();
    assert_eq!((outcome.end().0, retried), ("failed", 2), "but when it breaks, what was due is started");
}
