//! Ends of calls for tests of readers and writers. Only for tests.

use super::AnswerPiece;

/// The pieces with the end of each call, at its finish or at the end.
pub fn with_ends(pieces: &[AnswerPiece]) -> Vec<AnswerPiece> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            AnswerPiece::Call { index, call, .. } => open.push((*index, *call)),
            AnswerPiece::Finish { index: of, .. } => {
                let ended = open.extract_if(.., |(index, _)| index == of);
                all.extend(ended.map(|(index, call)| AnswerPiece::CallEnd { index, call }));
            }
            _ => {}
        }
        all.push(piece.clone());
    }
    all.extend(open.into_iter().map(|(index, call)| AnswerPiece::CallEnd { index, call }));
    all
}

/// The pieces without the ends of calls.
pub fn without_ends(mut pieces: Vec<AnswerPiece>) -> Vec<AnswerPiece> {
    pieces.retain(|piece| !matches!(piece, AnswerPiece::CallEnd { .. }));
    pieces
}
