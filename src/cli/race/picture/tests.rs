//! Pictures as somebody at a terminal sees them, and what holds for every picture.

use super::*;
use crate::cli::race::board::FeedEvent;
use crate::cli::race::board::tests::{ended, failed, run_to_token, step, won};
use photofinish_facts::record::AttemptOutcome;
use photofinish_facts::recording::AttemptStep;

const SCREEN: ScreenSettings = ScreenSettings { width: 90, height: 24, colour: false, piped: false };

fn board(events: impl IntoIterator<Item = FeedEvent>) -> RaceBoard {
    let mut board = RaceBoard::new(["quick/m", "steady/m", "broken/m", "spare/m"].map(str::to_owned));
    for event in events {
        board.take(&event, 0);
    }
    board
}

/// After 200 ms: one that failed, one at its headers, one on its way, one that waits.
fn waiting() -> Vec<FeedEvent> {
    let mut events: Vec<FeedEvent> = run_to_token(0, "quick/m", [0, 20_000, 90_000, 250_000]);
    events.pop();
    events.extend([
        step(1, "steady/m", AttemptStep::Dispatched, 0, 0),
        step(1, "steady/m", AttemptStep::Connected, 0, 40_000),
    ]);
    events.extend([step(2, "broken/m", AttemptStep::Dispatched, 0, 0), failed(2, 0, 120_000, "server_error", 503)]);
    events
}

fn finished() -> Vec<FeedEvent> {
    let mut events = waiting();
    events.extend([step(0, "quick/m", AttemptStep::FirstToken, 0, 250_000), won(0), ended(1, 0, 250_100, |_| ())]);
    events
}

fn drawn(board: &RaceBoard, screen: ScreenSettings, now_us: i64) -> String {
    draw(board, screen, now_us).join("\n")
}

#[test]
fn before_the_first_token() {
    let text = drawn(&board(waiting()), SCREEN, 200_000);
    assert_eq!(text, BEFORE, "\n{text}");
}

#[test]
fn the_finish() {
    let text = drawn(&board(finished()), SCREEN, 250_500);
    assert_eq!(text, FINISH, "\n{text}");
}

#[test]
fn the_end_in_colour() {
    let mut events = finished();
    events.push(ended(0, 0, 900_000, |row| row.outcome = AttemptOutcome::Won));
    let text = drawn(&board(events), ScreenSettings { colour: true, ..SCREEN }, 900_000).replace('\x1b', "ESC");
    assert_eq!(text, END, "\n{text}");
}

#[test]
fn a_narrow_terminal_has_no_bars() {
    let text = drawn(&board(finished()), ScreenSettings { width: 40, ..SCREEN }, 250_500);
    assert_eq!(text, NARROW, "\n{text}");
}

#[test]
fn nothing_is_wider_or_higher_than_the_screen() {
    let names = (0..40).map(|number| format!("a-provider-with-a-long-name-{number}/模型-of-that-name"));
    let mut board = RaceBoard::new(names.clone());
    let started = names.enumerate().skip(25).take(10);
    for (number, name) in started {
        for event in run_to_token(number as i64, &name, [0, 1_000, 2_000, 3_000_000]) {
            board.take(&event, 0);
        }
    }
    board.take(&won(30), 0);
    for width in 1..200 {
        for height in [1, 5, 24, 60] {
            let screen = ScreenSettings { width, height, colour: false, piped: false };
            let lines = draw(&board, screen, 3_500_000);
            let fits = |line: &String| columns(line) <= usize::from(width);
            assert!(
                lines.iter().all(fits) && lines.len() <= usize::from(height).max(4),
                "{width}×{height}: {lines:#?}"
            );
            let winner = if width > 60 { lines[0].contains("won, ") } else { true };
            assert!(winner || height > 40, "{lines:#?}");
        }
    }
}

#[test]
fn long_names_stay_apart() {
    for same in [["vendor-a", "vendor-b", "vendor-c", "vendor-d"], ["m", "m-mini", "m-2026-05", "m-2026-11"]] {
        let named = |end: &str| match end.starts_with('v') {
            true => format!("openrouter/{end}/a-model-with-a-long-name-of-its-own"),
            false => format!("openrouter/a-vendor-with-a-long-name-of-its-own/{end}"),
        };
        let board = RaceBoard::new(same.map(named));
        let text = drawn(&board, ScreenSettings { width: 80, ..SCREEN }, 1_000);
        let names: std::collections::BTreeSet<&str> =
            text.lines().take(4).filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() == 4 && names.iter().all(|name| name.contains('…')), "{text}");
    }
}

#[test]
fn a_name_cannot_move_the_cursor() {
    let board = RaceBoard::new(["a/\x1b[2Jx".to_owned()]);
    assert!(!drawn(&board, SCREEN, 0).contains('\x1b'));
}

#[test]
fn the_axis_grows_in_round_steps() {
    let board = RaceBoard::default();
    let axes = [0, 100_001, 500_000, 500_001, 1_000_001, 2_000_001, 59_000_000].map(|now_us| axis(&board, now_us));
    assert_eq!(axes, [100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 100_000_000]);
}

#[test]
fn a_decided_race_fills_the_width() {
    let mut events = run_to_token(0, "quick/m", [0, 1_000, 2_000, 69_000]);
    events.push(won(0));
    let text = drawn(&board(events), SCREEN, 69_000);
    let bar = text.lines().next().unwrap().chars().filter(|mark| "·─━◆".contains(*mark)).count();
    assert!(text.contains(" 70 ms") && bar > 40, "{text}");
    assert!(!text.contains("streaming") && !text.contains("failed"), "{text}");
    let mut decided = RaceBoard::default();
    decided.committed = true;
    for us in (10_000..2_000_000).step_by(997) {
        let axis = axis(&decided, us);
        assert!((us..=us * 3 / 2).contains(&axis), "{us}: {axis}");
    }
}

const BEFORE: &str = "\
quick/m   ·····─────────────────━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  headers
steady/m  ··········─────────────────────────────────────────  sent
broken/m  ······························!                      failed: server_error (503)
spare/m                                                        waiting to start
          0 ────────────────────────────────────────── 200 ms
· connecting  ─ sent  ━ headers  ◆ first token  █ streaming  × cut  ! failed";

const FINISH: &str = "\
quick/m   ···────────────━━━━━━━━━━━━━━━━━━━━━━━━━━━◆          won, 250 ms
steady/m  ······────────────────────────────────────×          lost: cancelled, > 250 ms
broken/m  ····················!                                failed: server_error (503)
spare/m                                                        not started
          0 ────────────────────────────────────────── 300 ms
· connecting  ─ sent  ━ headers  ◆ first token  × cut  ! failed";

const END: &str = "\
ESC[38;5;35mquick/m   ·───━━━━━━━━◆█████████████████████████████████       won, 250 msESC[0m
ESC[38;5;244msteady/m  ··──────────×                                        lost: cancelled, > 250 msESC[0m
ESC[38;5;160mbroken/m  ······!                                              failed: server_error (503)ESC[0m
ESC[38;5;244mspare/m                                                        not startedESC[0m
          0 ───────────────────────────────────────────── 1 s
· connecting  ─ sent  ━ headers  ◆ first token  █ streaming  × cut  ! failed";

const NARROW: &str = "\
quick/m   won, 250 ms
steady/m  lost: cancelled, > 250 ms
broken/m  failed: server_error (503)
spare/m   not started";
