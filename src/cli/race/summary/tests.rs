//! Summaries of made-up rows.

use super::*;
use photofinish_facts::record::{AttemptOutcome, sample};

fn race(number: i64) -> FinishedRace {
    let lost = AttemptRecord { cost_usd_min: Some(0.001), ..sample::lost(number, 99_000) };
    let won = AttemptRecord { cost_usd_min: Some(0.0125), cost_usd_max: Some(0.0125), ..sample::won(number) };
    let race = RaceRecord { attempts: 2, rescued_by: None, ..sample::race(number) };
    FinishedRace { race, attempts: vec![won, lost], answer: "hello".to_owned() }
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn one_race() {
    let text = text(|out| write_one(&race(1), Some(100), out));
    assert_eq!(format!("\n{text}"), ONE, "\n{text}");
}

#[test]
fn one_race_in_a_narrow_terminal() {
    let text = text(|out| write_one(&race(1), Some(40), out));
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    for words in [" > 99 ms", "  $0.001 or more\n", "racing: $0.001 or"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn one_race_fits_a_laptop() {
    let mut done = race(1);
    done.attempts[1].cost_usd_max = Some(0.001);
    let text = text(|out| write_one(&done, Some(80), out));
    let table: Vec<&str> = text.lines().take(3).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 80), "{text}");
    for words in ["groq/llama-70b", "lost: cancelled", "> 99 ms", "$0.013"] {
        assert!(table.concat().contains(words), "{words}: {text}");
    }
}

#[test]
fn a_race_without_an_answer_and_without_prices() {
    let row = AttemptRecord {
        outcome: AttemptOutcome::Failed,
        failure: Some("server_error"),
        http_status: Some(500),
        ttft_obs_us: None,
        ttft_event: None,
        ..sample::lost(1, 5)
    };
    let race = RaceRecord { outcome: RaceOutcome::Error, winner: None, first_token_sent_us: None, ..sample::race(1) };
    let text = text(|out| write_one(&FinishedRace { race, attempts: vec![row], answer: String::new() }, None, out));
    for words in ["failed: server_error (500)", "client: no answer after 2102 ms", "cost: not known"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_winner_that_did_not_end_well_says_so() {
    let row = AttemptRecord { outcome: AttemptOutcome::ClientGone, ..sample::won(1) };
    let race = RaceRecord { outcome: RaceOutcome::ClientGone, ..sample::race(1) };
    let text = text(|out| write_one(&FinishedRace { race, attempts: vec![row], answer: String::new() }, None, out));
    assert!(text.contains("won; cancelled") && text.contains("client: cancelled after 2102 ms"), "{text}");
}

#[test]
fn a_race_for_programs_has_its_rows_and_the_answer() {
    let object = object(&race(1));
    assert_eq!((&object["answer"], &object["race"]["winner"]), (&json!("hello"), &json!(0)));
    assert_eq!(object["attempts"][1]["outcome"], "lost");
    assert_eq!(object["race"]["started"], "2026-01-02T03:04:05.001000Z");
    let events: Vec<&str> =
        object["timeline"].as_array().unwrap().iter().map(|at| at["event"].as_str().unwrap()).collect();
    assert_eq!(events.first(), Some(&"request_read"));
    assert!(events.contains(&"first_token") && events.contains(&"done"));
}

const ONE: &str = "
 attempt             outcome          started     TTFT  tok/s    in  out            cost
 groq/llama-70b      won               1.0 ms   100 ms   20.0  1024   41          $0.013
 cerebras/llama-70b  lost: cancelled   1.0 ms  > 99 ms      –     –    –  $0.001 or more
client: first token after 102 ms, all of it after 2102 ms
cost: $0.014 or more in all; of it racing: $0.001 or more
race 019b7ca9-8c89-7000-8000-000000000000: llama-3.3-70b, policy race
";
