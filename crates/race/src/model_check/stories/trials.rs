//! Examples of probes: attempts in addition to others that test an upstream.

use super::*;

impl Story {
    fn on_trial(mut self, candidate: usize) -> Story {
        self.plan.entries[candidate].trial = true;
        self
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_runs_beside_the_first_and_stands_in_for_nobody() {
    let trial_of = |first, trial| story([(first, NOW), (ready(50), LATER), (trial, NOW)]).on_trial(2);
    let outcome = trial_of(ready(100), error(10)).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 100), vec!["won", "failed"]), "none comes in its place");
    let outcome = trial_of(ready(100), ready(20)).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 20), vec!["lost", "won"]), "it may win");
    let outcome = trial_of(error(10), error(10)).play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 2", 60), 3), "one comes in the place of the first");
    let outcome = trial_of(ready(100), refusal(10)).play().await;
    assert_eq!(outcome.end(), ("won by 0", 100));
    let alone = || story([(error(10), NOW), (ready(50), NOW), (ready(50), LATER)]).on_trial(1);
    assert_eq!(alone().play().await.end(), ("won by 1", 50), "it is better than none");
    let last = story([(error(10), NOW), (error(20), NOW), (ready(50), LATER)]).on_trial(1);
    assert_eq!(last.play().await.end(), ("won by 2", 60));
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_hangs_keeps_nobody_alive() {
    let outcome = story([(ready(500), NOW), (hang(), NOW)]).on_trial(1).first_token_timeout(100).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 500), vec!["won", "late"]), "the slow one runs on");
    let outcome = story([(error(10), NOW), (ready(500), NOW)]).on_trial(1).first_token_timeout(100).play().await;
    assert_eq!(outcome.end(), ("won by 1", 500), "the last one alive, whatever it is");
    let mut patient = story([(ready(500), NOW), (hang(), NOW)]).on_trial(1).first_token_timeout(100);
    patient.plan.entries[1].first_token = millis(5_000);
    assert_eq!(patient.play().await.end(), ("won by 0", 500));
    let outcome =
        story([(hang(), NOW), (hang(), NOW), (ready(10), LATER)]).on_trial(1).first_token_timeout(100).play().await;
    assert_eq!(outcome.end(), ("won by 2", 110), "a late one makes room all the same");
}

#[tokio::test(start_paused = true)]
async fn the_last_resort_starts_when_no_other_is_left() {
    let last = StartRule::Last;
    let outcome = story([(error(10), NOW), (ready(50), last), (error(20), LATER)]).play().await;
    assert_eq!(outcome.end(), ("won by 2", 80));
    assert_eq!(outcome.rows[2], (1, StartReason::Fallback, "won"));
    let outcome = story([(error(100), NOW), (ready(50), last), (error(20), after(10))]).play().await;
    assert_eq!(outcome.end(), ("won by 2", 150), "not while another runs");
    let outcome = story([(ready(900), NOW), (ready(5), last)]).first_token_timeout(300).play().await;
    assert_eq!(outcome.end(), ("won by 1", 305), "or all that run are late");
    let outcome = story([(limited(10, 1_000), NOW), (ready(5), last)]).retries(1, false).max_attempts(4).play().await;
    assert_eq!(outcome.rows.iter().map(|row| row.0).collect::<Vec<_>>(), [0, 0, 1], "a retry goes first");
}

#[tokio::test(start_paused = true)]
async fn one_that_only_shows_its_first_token_serves_nobody_until_it_is_asked_again() {
    let shown = |first| {
        let mut outcome = story([(first, NOW), (ready(20), NOW)]).on_trial(1);
        outcome.plan.entries[1].only_shows = true;
        outcome
    };
    assert_eq!(shown(ready(100)).play().await.end(), ("won by 0", 100));
    let outcome = shown(error(50)).play().await;
    assert_eq!(outcome.end(), ("won by 2", 70), "it has shown its token, and answers when it is asked again");
    let outcome = shown(error(10)).play().await;
    assert_eq!(outcome.end(), ("won by 2", 40), "it was the last one alive");
}
