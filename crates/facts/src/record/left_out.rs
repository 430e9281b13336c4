//! The upstreams that a race could not start, as its row has them: `groq/llama@cooling_down openrouter/x@breaker`.
//!
//! Not for deciding who is left out: see `proxy::candidate_set`.

use super::names::LeftOutReason;

/// The longest text; characters.
pub const TEXT_MAX: usize = 512;

/// An upstream that a race could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutUpstream {
    /// `provider/model`
    pub upstream: String,
    pub reason: LeftOutReason,
}

/// None if no upstream was left out. Beyond `TEXT_MAX` the text ends with `…`.
pub fn text(left_out: &[LeftOutUpstream]) -> Option<String> {
    let mut text = String::new();
    for LeftOutUpstream { upstream, reason } in left_out {
        let space = if text.is_empty() { "" } else { " " };
        let next = format!("{space}{upstream}@{}", reason.as_str());
        // Leaves room for the ellipsis.
        if text.chars().count() + next.chars().count() > TEXT_MAX - 2 {
            return Some(text + space + "…");
        }
        text.push_str(&next);
    }
    (!text.is_empty()).then_some(text)
}

/// The upstreams in the text of a row. A model's name may have blanks in it, so an upstream ends where a reason does.
pub fn parse(text: &str) -> Vec<LeftOutUpstream> {
    let (mut left_out, mut upstream) = (Vec::new(), String::new());
    for part in text.split(' ') {
        upstream.push_str(part);
        match upstream.rsplit_once('@').and_then(|(name, reason)| Some((name, LeftOutReason::from_name(reason)?))) {
            Some((name, reason)) => {
                left_out.push(LeftOutUpstream { upstream: name.to_owned(), reason });
                upstream.clear();
            }
            None => upstream.push(' '),
        }
    }
    left_out
}

/// The reasons in the text of a row, one for each upstream.
pub fn reasons(text: &str) -> impl Iterator<Item = LeftOutReason> {
    parse(text).into_iter().map(|left_out| left_out.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_who_was_left_out_and_why_and_is_bounded() {
        let all: Vec<LeftOutUpstream> = LeftOutReason::ALL
            .iter()
            .map(|reason| LeftOutUpstream { upstream: "ollama/a b@c:8b".to_owned(), reason: *reason })
            .collect();
        assert_eq!(text(&[]), None);
        assert_eq!(text(&all[..1]).as_deref(), Some("ollama/a b@c:8b@dialect"));
        assert_eq!(parse(&text(&all).unwrap()), all);
        assert_eq!(reasons(&text(&all).unwrap()).collect::<Vec<_>>(), LeftOutReason::ALL);
        let many = text(&vec![all[0].clone(); 100]).unwrap();
        assert!(many.chars().count() <= TEXT_MAX && many.ends_with("@dialect …"), "{many}");
        assert!(parse(&many).iter().all(|left_out| *left_out == all[0]), "{many}");
        assert_eq!(reasons("x/y@newer_reason …").count(), 0);
    }
}
