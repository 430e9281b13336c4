//! Signatures and encrypted reasoning in several deltas.

use super::*;

#[test]
fn what_is_sealed_is_told_when_it_is_whole() {
    let delta = |block: u32, name: &str, data: &str| {
        let delta = json!({ "contentBlockIndex": block, "delta": { "reasoningContent": { name: data } } });
        event("contentBlockDelta", &delta.to_string())
    };
    let stop = |block: u32| event("contentBlockStop", &json!({ "contentBlockIndex": block }).to_string());
    let signature = |block, data: &str| AnswerPiece::Signature {
        index: 0,
        block,
        signature: format!("photofinish.anthropic.{data}"),
    };
    let redacted =
        |block, data: &str| AnswerPiece::Redacted { index: 0, block, data: format!("photofinish.anthropic.{data}") };
    for (stream, expected) in [
        (vec![delta(0, "signature", "ab="), delta(0, "signature", "c"), stop(0)], vec![signature(0, "ab=c")]),
        // "a", "bc", "def" and "g", each base64 with its own padding.
        (
            [
                vec!["YQ==", "YmM=", "ZGVm", "Zw=="]
                    .into_iter()
                    .map(|data| delta(1, "redactedContent", data))
                    .collect(),
                vec![stop(1)],
            ]
            .concat(),
            vec![redacted(1, "YWJjZGVmZw==")],
        ),
        (
            vec![delta(1, "redactedContent", "aaéé="), delta(1, "redactedContent", "YQ=="), stop(1)],
            vec![redacted(1, "aaéé=YQ==")],
        ),
        (
            vec![delta(1, "redactedContent", "no="), delta(1, "redactedContent", "?"), stop(1)],
            vec![redacted(1, "no=?")],
        ),
        (
            vec![
                delta(0, "signature", "a"),
                delta(1, "signature", "b"),
                delta(1, "redactedContent", "YQ=="),
                delta(1, "text", "c"),
            ],
            vec![
                signature(0, "a"),
                signature(1, "b"),
                redacted(1, "YQ=="),
                AnswerPiece::Thinking { index: 0, block: 1, text: "c".to_owned() },
            ],
        ),
    ] {
        assert_eq!(pieces(&stream), expected);
    }
}
