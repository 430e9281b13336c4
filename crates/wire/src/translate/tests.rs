//! Marks of signatures, and every owner's signatures through every surface.

mod alike;
mod arrives;
mod foreign;
mod interleaved;
mod json_in_words;
mod kept;
mod matrix;
mod usage;

use super::AnswerPiece;
use super::signature::*;

#[test]
fn a_signature_says_who_made_it() {
    let made = tag(SignatureOwner::Gemini, "abc");
    assert_eq!(made, "photofinish.gemini.abc");
    assert_eq!(tag(SignatureOwner::Anthropic, &made), made, "a mark is kept");
    for (owner, data) in
        [(SignatureOwner::Gemini, Some("abc")), (SignatureOwner::Anthropic, None), (SignatureOwner::OpenAi, None)]
    {
        assert_eq!(own(owner, &made), data);
        assert_eq!(shown(owner, &made), data.unwrap_or(&made));
    }
    for nobodys in ["abc", "", UNSIGNED, "photofinish.", "photofinish.gemini", "photofinish.gemini.", "gemini.abc"] {
        assert_eq!(own(SignatureOwner::Gemini, nobodys), None, "{nobodys}");
    }
}

#[test]
fn a_place_for_all_signatures_says_what_each_is_for() {
    let made = tag(SignatureOwner::Gemini, "abc");
    for (text, expected) in [
        ("abc", SignatureUse::Thought("photofinish.responses.abc".to_owned())),
        (made.as_str(), SignatureUse::Thought(made.clone())),
        (&of_call(&made), SignatureUse::Call(made.clone())),
        (&of_redacted(&made), SignatureUse::Redacted(made.clone())),
        (UNSIGNED, SignatureUse::Unsigned),
        ("", SignatureUse::Unsigned),
        // A signature of an unknown owner is kept.
        ("photofinish.other.abc", SignatureUse::Thought("photofinish.other.abc".to_owned())),
        (&of_call("abc"), SignatureUse::Call("photofinish.unknown.abc".to_owned())),
    ] {
        assert_eq!(held(SignatureOwner::Responses, text), expected);
    }
}

#[test]
fn a_signature_may_come_in_pieces() {
    let mut signature = String::new();
    ["ab", "c", ""].iter().for_each(|more| append(&mut signature, &tag(SignatureOwner::Anthropic, more)));
    assert_eq!(signature, "photofinish.anthropic.abc");
}

/// The pieces with the end of each call, at its finish or at the end.
pub(crate) fn with_ends(pieces: &[AnswerPiece]) -> Vec<AnswerPiece> {
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
pub(crate) fn without_ends(mut pieces: Vec<AnswerPiece>) -> Vec<AnswerPiece> {
    pieces.retain(|piece| !matches!(piece, AnswerPiece::CallEnd { .. }));
    pieces
}
