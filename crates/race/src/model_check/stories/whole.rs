//! Races to a whole answer, for a client that does not stream.

use super::*;

impl Story {
    fn first_decides(mut self) -> Story {
        self.world.first_decides = true;
        self.whole()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_whole_answer_wins_and_not_the_first_token() {
    let outcome = story([(answer(100, 900), NOW), (answer(300, 200), NOW)]).whole().play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 1", 500), vec!["lost", "won"]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_begun_is_not_late_and_needs_no_hedge() {
    let slow = || answer(50, 900);
    let outcome = story([(slow(), NOW), (hang(), NOW)]).whole().first_token_timeout(100).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 950), vec!["won", "late"]));
    let outcome = story([(slow(), NOW), (answer(1, 1), after(200))]).whole().play().await;
    assert_eq!((outcome.end(), outcome.rows.len()), (("won by 0", 950), 1));
    let outcome = story([(breaking(slow(), 300), NOW), (answer(1, 1), after(200))]).whole().play().await;
    assert_eq!(
        (outcome.end(), outcome.ends()),
        (("won by 1", 352), vec!["failed", "won"]),
        "but when it breaks the next starts"
    );
    let outcome = story([(slow(), NOW)]).whole().total(500).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("deadline", 500), vec!["deadline"]));
}

#[tokio::test(start_paused = true)]
async fn the_hopeless_are_cut_and_come_again_only_when_nothing_else_is_left() {
    let two = |first: Course| story([(first, NOW), (answer(300, 200), NOW)]).whole();
    let hopeless = |script: &mut Script| script.hopeless = Some(1);
    let outcome = two(answer(100, 800)).script(hopeless).play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 900), vec!["won", "lost"]));
    let outcome = two(breaking(answer(100, 800), 50)).script(hopeless).play().await;
    assert_eq!(outcome.end(), ("won by 2", 650));
    let expected = [(0, StartReason::First, "failed"), (1, StartReason::First, "lost"), (1, StartReason::Retry, "won")];
    assert_eq!(outcome.rows, expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_is_asked_for_again_too() {
    let broken = || breaking(answer(10, 100), 5);
    let outcome = story([(broken(), NOW), (broken(), LATER)]).whole().retries(1, true).play().await;
    let started: Vec<usize> = outcome.rows.iter().map(|row| row.0).collect();
    assert_eq!((outcome.end().0, started), ("failed", vec![0, 0, 1, 1]), "each has a retry of its own");
}

#[tokio::test(start_paused = true)]
async fn a_first_token_that_decides_cuts_the_others_and_they_come_again_when_it_breaks() {
    let outcome = story([(answer(100, 900), NOW), (answer(300, 200), NOW)]).first_decides().play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 1_000), vec!["won", "lost"]));
    let tie = story([(answer(100, 900), NOW), (answer(100, 200), NOW)]).first_decides().play().await;
    assert_eq!((tie.end(), tie.ends()), (("won by 0", 1_000), vec!["won", "lost"]));
    let broken = || (breaking(answer(100, 900), 300), NOW);
    let outcome = story([broken(), (answer(300, 200), NOW), (answer(50, 50), LATER)]).first_decides().play().await;
    assert_eq!(
        (outcome.end(), outcome.ends()),
        (("won by 2", 500), vec!["failed", "lost", "won"]),
        "the untried before losers"
    );
    let outcome = story([broken(), (answer(300, 200), NOW)]).first_decides().play().await;
    assert_eq!(outcome.end(), ("won by 2", 900));
    let expected = [(0, StartReason::First, "failed"), (1, StartReason::First, "lost"), (1, StartReason::Retry, "won")];
    assert_eq!(outcome.rows, expected);
}

#[tokio::test(start_paused = true)]
async fn timers_that_ran_out_while_an_answer_was_under_way_start_nothing_when_it_breaks() {
    let broken = breaking(answer(100, 900), 300);
    let others = [(broken, NOW), (answer(10, 90), after(200)), (hang(), after(300)), (hang(), after(450))];
    let outcome = story(others).whole().play().await;
    assert_eq!(outcome.end(), ("won by 1", 500));
    let expected = [(0, StartReason::First, "failed"), (1, StartReason::Fallback, "won")];
    assert_eq!(outcome.rows, expected, "one comes in its place; the last timer finds it under way");
}

#[tokio::test(start_paused = true)]
async fn beside_an_answer_that_has_begun_no_failure_starts_another() {
    let outcome = story([(answer(100, 900), NOW), (error(200), NOW), (answer(1, 1), LATER)]).whole().play().await;
    assert_eq!((outcome.end(), outcome.ends()), (("won by 0", 1_000), vec!["won", "failed"]));
}
