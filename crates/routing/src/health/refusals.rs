//! Requests of a kind that an upstream always refuses while others answer them. Not an incident of its host, and no failure of its
//! breaker: it goes last for requests of this kind, for a while. Not for what a refusal teaches: see `state`.

use std::collections::HashMap;
use std::time::Duration;

use super::needs::RequestNeeds;
use photofinish_base::clock::Instant;
use photofinish_config::offerings::InputKind;
use photofinish_translation::ApiRequest;
use photofinish_wire::Surface;

/// Refusals in a row until an upstream goes last.
pub const REFUSALS: u32 = 5;
/// How long nothing of a kind of requests is sent to an upstream that refuses them; then one tries.
const RESTS_FOR: Duration = Duration::from_secs(600);
/// How long such refusals are remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);
/// Upstreams, each by caller.
const REMEMBERED_MAX: usize = 10_000;
/// Kinds of requests of one upstream and caller.
const KINDS_MAX: usize = 16;

/// What a request has that an upstream may refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFeatures {
    /// Of the upstream.
    pub surface: Surface,
    pub has_tools: bool,
    /// It asks for JSON.
    pub asks_json: bool,
    /// Input other than text.
    pub inputs: Vec<InputKind>,
}

impl RequestFeatures {
    pub fn of(request: &ApiRequest, surface: Surface) -> RequestFeatures {
        let inputs = RequestNeeds::of(request).kinds().to_vec();
        RequestFeatures { surface, has_tools: request.has_tools, asks_json: request.asks_json, inputs }
    }

    /// Of the history, which knows no more of a request.
    pub fn with_tools(surface: Surface, has_tools: bool) -> RequestFeatures {
        RequestFeatures { surface, has_tools, asks_json: false, inputs: Vec::new() }
    }

    /// "tools and images"; empty for text alone.
    pub fn in_words(&self) -> String {
        let named = [(self.has_tools, "tools"), (self.asks_json, "JSON")];
        let inputs = self.inputs.iter().map(|kind| match kind {
            InputKind::Text => "text",
            InputKind::Image => "images",
            InputKind::Audio => "audio",
            InputKind::Video => "video",
            InputKind::Pdf => "documents",
        });
        let parts: Vec<&str> = named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).chain(inputs).collect();
        parts.join(" and ")
    }
}

/// Refusals of requests of one kind, without an accepted one between them.
#[derive(Clone, Debug)]
pub struct RefusedKind {
    pub kind: RequestFeatures,
    pub refused: u32,
    /// The status and the codes of the last one: "400 unsupported_value".
    pub why: String,
    /// The last refusal, or the last trial.
    at: Instant,
}

impl RefusedKind {
    /// "refused 12 of 12 requests with tools: 400 unsupported_value"
    pub fn in_words(&self) -> String {
        let with = match self.kind.in_words() {
            words if words.is_empty() => String::new(),
            words => format!(" with {words}"),
        };
        format!("refused {0} of {0} requests{with}: {1}", self.refused, self.why)
    }
}

/// Refusals by upstream and caller. A caller's requests say nothing of those of others.
#[derive(Debug, Default)]
pub struct Refusals(HashMap<(String, Option<u64>), Vec<RefusedKind>>);

impl Refusals {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// It refused what another upstream answered. Returns the refusals once they are enough for it to go last.
    pub fn refused(
        &mut self,
        upstream: &str,
        caller: Option<u64>,
        kind: RequestFeatures,
        why: String,
        now: Instant,
    ) -> Option<RefusedKind> {
        let key = (upstream.to_owned(), caller);
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, kinds| kinds.iter().any(|known| is_fresh(known, now)));
            if self.0.len() >= REMEMBERED_MAX {
                return None;
            }
        }
        let kinds = self.0.entry(key).or_default();
        kinds.retain(|known| is_fresh(known, now));
        let place = kinds.iter().position(|known| known.kind == kind);
        let known = match place {
            Some(place) => &mut kinds[place],
            None if kinds.len() >= KINDS_MAX => return None,
            None => {
                kinds.push(RefusedKind { kind, refused: 0, why: String::new(), at: now });
                kinds.last_mut()?
            }
        };
        known.refused = known.refused.saturating_add(1);
        (known.why, known.at) = (why, now);
        (known.refused == REFUSALS).then(|| known.clone())
    }

    /// It answered a request of this kind. True: it went last before.
    pub fn answered(&mut self, upstream: &str, caller: Option<u64>, kind: &RequestFeatures) -> bool {
        let key = (upstream.to_owned(), caller);
        let Some(kinds) = self.0.get_mut(&key) else { return false };
        let went_last = kinds.iter().any(|known| known.kind == *kind && known.refused >= REFUSALS);
        kinds.retain(|known| known.kind != *kind);
        if kinds.is_empty() {
            self.0.remove(&key);
        }
        went_last
    }

    /// Whether it goes last for this request. Once in a while one may try.
    pub fn rests(
        &mut self,
        upstream: &str,
        caller: Option<u64>,
        kind: impl FnOnce() -> RequestFeatures,
        now: Instant,
    ) -> bool {
        let Some(kinds) = self.0.get_mut(&(upstream.to_owned(), caller)) else { return false };
        let kind = kind();
        let known = kinds.iter_mut().find(|known| known.kind == kind && known.refused >= REFUSALS);
        let Some(known) = known else { return false };
        let rests = now < known.at + RESTS_FOR;
        if !rests {
            known.at = now;
        }
        rests
    }

    /// Of every upstream that goes last for some requests; the most refused of all callers.
    pub fn resting(&self, now: Instant) -> Vec<(&str, &RefusedKind)> {
        let mut resting: Vec<(&str, &RefusedKind)> = Vec::new();
        let enough = |known: &&RefusedKind| known.refused >= REFUSALS && is_fresh(known, now);
        for ((upstream, _), kinds) in &self.0 {
            for known in kinds.iter().filter(enough) {
                let same = resting.iter_mut().find(|(name, other)| name == upstream && other.kind == known.kind);
                match same {
                    Some((_, other)) if other.refused < known.refused => *other = known,
                    Some(_) => {}
                    None => resting.push((upstream, known)),
                }
            }
        }
        resting
    }
}

fn is_fresh(known: &RefusedKind, now: Instant) -> bool {
    now < known.at + REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(has_tools: bool) -> RequestFeatures {
        RequestFeatures::with_tools(Surface::Chat, has_tools)
    }

    fn refuse(refusals: &mut Refusals, caller: Option<u64>, now: Instant) -> Option<RefusedKind> {
        refusals.refused("a/m", caller, kind(true), "400".to_owned(), now)
    }

    #[test]
    fn five_refusals_in_a_row_rest_their_kind_for_ten_minutes() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for nth in 1..=REFUSALS {
            assert!(!refusals.rests("a/m", None, || kind(true), start), "before refusal {nth}");
            assert_eq!(refuse(&mut refusals, None, start).is_some(), nth == REFUSALS);
        }
        assert_eq!(refuse(&mut refusals, None, start).map(|known| known.refused), None, "said once");
        assert!(refusals.rests("a/m", None, || kind(true), start));
        assert!(!refusals.rests("a/m", None, || kind(false), start), "another kind");
        assert!(!refusals.rests("b/m", None, || kind(true), start), "another upstream");
        assert!(!refusals.rests("a/m", Some(7), || kind(true), start), "another caller");
        let descriptions: Vec<String> = refusals.resting(start).iter().map(|(_, known)| known.in_words()).collect();
        assert_eq!(descriptions, ["refused 6 of 6 requests with tools: 400"]);
        let later = start + RESTS_FOR;
        assert!(!refusals.rests("a/m", None, || kind(true), later), "one tries");
        assert!(refusals.rests("a/m", None, || kind(true), later), "and no other");
        assert!(refusals.answered("a/m", None, &kind(true)));
        assert!(!refusals.rests("a/m", None, || kind(true), later) && refusals.is_empty());
    }

    #[test]
    fn an_answer_between_them_begins_anew() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for _ in 0..3 {
            (1..REFUSALS).for_each(|_| assert!(refuse(&mut refusals, None, now).is_none()));
            assert!(!refusals.answered("a/m", None, &kind(true)), "it did not go last");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_fades() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for caller in 0..=REMEMBERED_MAX {
            refuse(&mut refusals, Some(caller as u64), now);
        }
        assert_eq!(refusals.0.len(), REMEMBERED_MAX);
        refuse(&mut refusals, None, now + REMEMBERED_FOR);
        assert_eq!(refusals.0.len(), 1, "the old ones make room");
    }
}
