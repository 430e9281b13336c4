//! Everything that is written is read back unchanged.

use super::streams::assembled;
use super::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::FinishReason;

/// Signatures of this vendor and of another.
const SIGNATURE: &str = "photofinish\\.(responses|gemini)\\.[a-z]{1,4}";

/// Pieces in an order that a dialect may produce. Their numbers are set later.
fn some_pieces() -> impl Strategy<Value = Vec<AnswerPiece>> {
    let text = || "\\PC{1,8}";
    let one = prop_oneof![
        text().prop_map(|text| vec![AnswerPiece::Text { index: 0, text }]),
        text().prop_map(|text| vec![AnswerPiece::Refusal { index: 0, text }]),
        (text(), proptest::option::of(SIGNATURE)).prop_map(|(text, signature)| {
            let mut pieces = vec![AnswerPiece::Thinking { index: 0, block: 0, text }];
            pieces.extend(signature.map(|signature| AnswerPiece::Signature { index: 0, block: 0, signature }));
            pieces
        }),
        SIGNATURE.prop_map(|data| vec![AnswerPiece::Redacted { index: 0, block: 0, data }]),
        ("[a-z]{1,4}", text(), any::<bool>(), proptest::option::of(SIGNATURE)).prop_map(
            |(id, text, custom, signature)| {
                let name = "f".to_owned();
                vec![
                    AnswerPiece::Call { index: 0, call: 0, id, name, custom, signature },
                    AnswerPiece::Arguments { index: 0, call: 0, text },
                ]
            }
        ),
        "[a-z]{1,4}".prop_map(|data| vec![AnswerPiece::Image { index: 0, media_type: "image/png".to_owned(), data }]),
    ];
    proptest::collection::vec(one, 0..10).prop_map(|groups| {
        let (mut blocks, mut calls) = (0, 0);
        let mut pieces = Vec::new();
        for mut group in groups {
            match &group[0] {
                AnswerPiece::Thinking { .. } | AnswerPiece::Redacted { .. } => blocks += 1,
                AnswerPiece::Call { .. } => calls += 1,
                _ => {}
            }
            for piece in &mut group {
                match piece {
                    AnswerPiece::Thinking { block, .. }
                    | AnswerPiece::Signature { block, .. }
                    | AnswerPiece::Redacted { block, .. } => {
                        *block = blocks - 1;
                    }
                    AnswerPiece::Call { call, .. } | AnswerPiece::Arguments { call, .. } => *call = calls - 1,
                    _ => {}
                }
            }
            pieces.extend(group);
        }
        pieces
    })
}

/// Numbers blocks in order of arrival.
fn renumbered(mut pieces: Vec<AnswerPiece>) -> Vec<AnswerPiece> {
    let mut seen = Vec::new();
    for piece in &mut pieces {
        if let AnswerPiece::Thinking { block, .. }
        | AnswerPiece::Signature { block, .. }
        | AnswerPiece::Redacted { block, .. } = piece
        {
            if !seen.contains(block) {
                seen.push(*block);
            }
            *block = u32::try_from(seen.iter().position(|at| at == block).unwrap()).unwrap();
        }
    }
    pieces
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(pieces in some_pieces(), cut: bool, tokens in 3..99_i64) {
        let calls = pieces.iter().any(|piece| matches!(piece, AnswerPiece::Call { .. }));
        let finish = if cut { FinishReason::Length } else if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        let usage = Usage {
            input_tokens: Some(tokens),
            cached_input_tokens: Some(0),
            cache_creation_tokens: Some(3),
            output_tokens: Some(tokens),
            reasoning_tokens: Some(1),
            ..Usage::default()
        };
        let mut all = vec![AnswerPiece::Start { id: Some("resp_1".to_owned()), model: Some("m-1".to_owned()) }];
        all.extend(pieces);
        all.extend([AnswerPiece::Finish { index: 0, finish }, AnswerPiece::Usage(usage)]);
        let bytes = written(&all);
        let mut read = renumbered(self::pieces(&bytes));
        // A text around reasoning is two messages.
        read.retain(|piece| !matches!(piece, AnswerPiece::NextMessage { .. }));
        // Its id is the writer's own.
        if let (AnswerPiece::Start { id, .. }, AnswerPiece::Start { id: written, .. }) = (&mut read[0], &all[0]) {
            id.clone_from(written);
        }
        prop_assert_eq!(read, all);
        // A client that does not stream, with an upstream that does.
        let whole = assembled(&bytes);
        let again = events_of_whole(whole.to_string().as_bytes()).unwrap();
        prop_assert_eq!(assembled(&again), whole);
    }
}
