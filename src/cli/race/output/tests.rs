//! What goes to which output, with and without a terminal.

use clap::Parser as _;

use super::*;
use crate::cli::race::board::tests::{run_to_token, won};
use photofinish_facts::record::sample;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: RaceOptions,
}

const SCREEN: ScreenSettings = ScreenSettings { width: 80, height: 24, colour: true, piped: false };

/// Standard output and standard error of one race that says `texts`.
fn shown(options: &[&str], screen: fn() -> Option<ScreenSettings>, texts: &[&str]) -> (String, String) {
    let options = Line::try_parse_from(["race", "hi"].iter().chain(options)).unwrap().options;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut show = RaceOutput::new(&options, screen, &mut out, &mut err);
    let mut board = RaceBoard::new(["a/x".to_owned()]);
    show.draw(&board, 0).unwrap();
    for event in run_to_token(0, "a/x", [0, 1_000, 2_000, 30_000]).iter().chain([&won(0)]) {
        if let Some(said) = board.take(event, 0) {
            show.event(&said, &board).unwrap();
        }
    }
    show.draw(&board, 30_000).unwrap();
    show.settle().unwrap();
    for text in texts {
        show.piece(&PrintedPiece { text: (*text).to_owned(), reasoning: String::new() }).unwrap();
    }
    show.end_of_answer().unwrap();
    let done = FinishedRace { race: sample::race(1), attempts: vec![sample::won(1)], answer: texts.concat() };
    show.summary(&done).unwrap();
    [out, err].map(|bytes| String::from_utf8(bytes).unwrap()).into()
}

#[test]
fn piped_the_answer_stands_alone() {
    let (out, err) = shown(&[], || None, &["Hello\n", "\x1b[1mth\tere\u{202e}"]);
    assert_eq!(out, "Hello\n\\u{1b}[1mth\tere\\u{202e}\n", "what steers a terminal as an escape, and a line end");
    let lines: Vec<&str> = err.lines().take(5).collect();
    assert_eq!(
        lines,
        [
            "   0.0 ms  a/x  started",
            "   1.0 ms  a/x  connected",
            "   2.0 ms  a/x  headers 200",
            "    30 ms  a/x  first token",
            "    30 ms  a/x  won"
        ]
    );
    assert!(err.contains("client: first token after 102 ms") && !err.contains(['\x1b', '\r']), "{err}");
    assert_eq!(shown(&[], || None, &["ends\n"]).0, "ends\n");
    assert_eq!(shown(&[], || None, &[]).0, "");
}

#[test]
fn on_a_terminal_everything_stands_in_one_place() {
    let (out, err) = shown(&[], || Some(SCREEN), &["Hello\x1b[2J\n\tthere"]);
    assert_eq!(err, "");
    let (picture, rest) = out.split_once("Hello").unwrap();
    assert!(picture.contains("waiting to start") && picture.contains("\x1b[3A\r") && picture.contains("won, 30 ms"));
    assert!(rest.starts_with("\\u{1b}[2J\n\tthere\n\n"), "{rest:?}");
    assert!(rest.contains("client: first token"), "{rest}");
}

#[test]
fn for_programs_there_is_one_object_in_a_line() {
    for screen in [|| None, || Some(SCREEN)] {
        let (out, err) = shown(&["--json"], screen, &["Hello"]);
        assert_eq!(out.lines().count(), 1, "{out}");
        let object: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((object["answer"].as_str(), err.as_str()), (Some("Hello"), ""));
    }
}
