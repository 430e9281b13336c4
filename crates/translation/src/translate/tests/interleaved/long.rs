//! Long answers: as many pieces as a model writes tokens, on every surface. Not for what is beyond a bound.

use fastrand::Rng;

use super::truth::{Call, Finish, Truth};
use super::upstream;
use super::{SURFACES, answers, difference, translation};
use photofinish_wire::dialect::{Dialect, Surface};

const PIECES: usize = 20_000;

/// Each surface from its own dialect, and from one that sends pieces of all sizes.
fn agree(truth: &Truth) {
    let mut failures = Vec::new();
    for surface in SURFACES {
        let other = if surface == Surface::Chat { Dialect::Bedrock } else { Dialect::OpenAi };
        for dialect in [surface.dialect(), other] {
            let mut rng = Rng::with_seed(1);
            let written = upstream::stream(dialect, truth, false, &mut rng);
            for (way, got) in answers(surface, dialect, || translation(surface, dialect), &written.bytes, None) {
                let wrong = got.map(|got| difference(truth, &written.known, surface, &got));
                if !matches!(wrong, Ok(None)) {
                    failures.push(format!("{surface:?} over {dialect:?} {way:?}: {wrong:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn truth(text: Vec<String>, calls: Vec<Call>) -> Truth {
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
    Truth { text, reasoning: vec![], images: vec![], calls, finish, usage: (7, 20_000) }
}

#[test]
fn a_text_of_twenty_thousand_pieces_arrives() {
    agree(&truth((0..PIECES).map(|piece| format!("{piece} ")).collect(), vec![]));
}

#[test]
fn arguments_of_twenty_thousand_pieces_arrive() {
    let arguments = format!("{{\"text\":\"{}\"}}", "word ".repeat(PIECES));
    let call = Call { id: "call_0123456789ab".to_owned(), name: "write".to_owned(), arguments };
    agree(&truth(vec![], vec![call]));
}
