//! Request headers that override race settings for one request, written as in the configuration. Not for authentication.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderMap;

use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::holders::Holders;
use photofinish_base::printable::quoted;
use photofinish_config::keyring::HashedKey;
use photofinish_config::units::{format_duration, parse_duration};
use photofinish_config::{
    Lossy, MAX_ATTEMPTS, Objective, Override, Permit, Policy, RaceSettings, SloSettings, User, nearest,
};
use photofinish_routing::policy::{ExtraStarts, rules};
use photofinish_translation::request::session_hash;
use photofinish_translation::request::tags::{TAG_BYTES_MAX, TAGS_MAX, is_tag, joined};

/// The prefix of the gateway's own header names.
pub const PREFIX: &str = "x-photofinish-";
const POLICY: &str = "x-photofinish-policy";
const UPSTREAMS: &str = "x-photofinish-upstreams";
const HEDGE_AFTER: &str = "x-photofinish-hedge-after";
const ATTEMPTS: &str = "x-photofinish-max-attempts";
const OPTIMISE: &str = "x-photofinish-optimise";
const BUDGET: &str = "x-photofinish-budget";
const SLO: &str = "x-photofinish-slo";
const HOLD: &str = "x-photofinish-hold-max";
const LOSSY: &str = "x-photofinish-lossy";
/// Requests of one session go to one upstream. It costs nothing, so it is no override. The others are OpenAI's.
const SESSIONS: [&str; 3] = ["x-photofinish-session", "session-id", "session_id"];

/// What the request is charged to: words, separated by commas.
const TAGS: &str = "x-photofinish-tags";

/// The header of each override.
const HEADERS: [(Override, &str); 9] = [
    (Override::Policy, POLICY),
    (Override::Upstreams, UPSTREAMS),
    (Override::HedgeAfter, HEDGE_AFTER),
    (Override::MaxAttempts, ATTEMPTS),
    (Override::Optimise, OPTIMISE),
    (Override::Budget, BUDGET),
    (Override::Slo, SLO),
    (Override::HoldMax, HOLD),
    (Override::Lossy, LOSSY),
];

/// The overrides of one request.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    policy: Option<Policy>,
    /// A hash of the session's id.
    pub session: Option<u64>,
    /// Upstreams separated by commas, not yet looked up.
    pub upstreams: Option<String>,
    /// The only upstreams that may have what the request names.
    pub holders: Option<Holders>,
    hedge_after: Option<Duration>,
    max_attempts: Option<usize>,
    optimise: Option<Objective>,
    budget: Option<f64>,
    slo: OverriddenSlo,
    hold_max: Option<Duration>,
    lossy: Option<Lossy>,
    /// The user whose settings must not cost more than the model's. None: they may.
    bounded_for: Option<String>,
}

/// The given parts of an `slo`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OverriddenSlo {
    ttft: Option<Duration>,
    tpot: Option<Duration>,
}

/// The session that a header names, whoever sends it.
pub fn session(headers: &HeaderMap) -> Option<u64> {
    let ids = SESSIONS.iter().filter_map(|name| headers.get(*name)).filter(|id| !id.is_empty());
    ids.filter_map(|id| id.to_str().ok()).map(session_hash).next()
}

/// `user`: none if every override is allowed.
///
/// # Errors
/// 400 that names the header; 403 for a header that this user may not send.
pub fn read(headers: &HeaderMap, user: Option<&User>) -> Result<Overrides, Rejection> {
    // Most requests have none, and a look-up of each name costs more than one pass.
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(Overrides::default());
    }
    if let Some(user) = user {
        let forbidden =
            HEADERS.iter().find(|(override_, name)| !user.overrides.allows(*override_) && headers.contains_key(*name));
        if let Some((override_, name)) = forbidden {
            return Err(Rejection::forbidden_override(name, &user.name, override_.as_str()));
        }
    }
    Ok(Overrides {
        session: None,
        policy: value(headers, POLICY, policy)?,
        upstreams: value(headers, UPSTREAMS, |text| Ok(text.to_owned()))?,
        holders: None,
        hedge_after: value(headers, HEDGE_AFTER, |text| duration(text, RaceSettings::HEDGE_AFTER))?,
        max_attempts: value(headers, ATTEMPTS, attempts)?,
        optimise: value(headers, OPTIMISE, optimise)?,
        budget: value(headers, BUDGET, budget)?,
        slo: value(headers, SLO, slo)?.unwrap_or_default(),
        hold_max: value(headers, HOLD, |text| duration(text, RaceSettings::HOLD))?,
        lossy: value(headers, LOSSY, lossy)?,
        bounded_for: user.filter(|user| user.overrides == Permit::Usual).map(|user| user.name.clone()),
    })
}

/// What the request is charged to, by its header and its `metadata`; those of the header first.
///
/// # Errors
/// 400 for a tag that is no word, or too many.
pub fn charged_to(headers: &HeaderMap, of_body: Option<&str>) -> Result<Option<String>, Rejection> {
    let named = headers.get_all(TAGS).iter();
    let named = named.map(|value| value.to_str().map_err(|_| Rejection::header(TAGS, "it is not ASCII")));
    let named: Vec<&str> = named.collect::<Result<_, _>>()?;
    let named: Vec<&str> =
        named.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if let Some(wrong) = named.iter().find(|tag| !is_tag(tag)) {
        let expected = format!("at most {TAG_BYTES_MAX} of A-Z, a-z, 0-9 and ._:=/@+-, such as project=search");
        return Err(Rejection::header(TAGS, &format!("{} is no tag: {expected}", quoted(wrong))));
    }
    if named.len() > TAGS_MAX {
        return Err(Rejection::header(TAGS, &format!("it has more than {TAGS_MAX} tags")));
    }
    let of_body = of_body.unwrap_or_default().split(' ').filter(|tag| !tag.is_empty());
    let free = TAGS_MAX - named.len();
    Ok(joined(named.iter().copied().chain(of_body.filter(|tag| !named.contains(tag)).take(free))))
}

impl Overrides {
    /// The settings of this one request; `allowed` are the model's.
    ///
    /// # Errors
    /// 403 if they may cost more than this user may ask for.
    pub fn settings(&self, allowed: &RaceSettings) -> Result<RaceSettings, Rejection> {
        let asked = self.apply(allowed);
        let raised = self.bounded_for.as_ref().and_then(|user| Some((user, raised(allowed, &asked)?)));
        match raised {
            None => Ok(asked),
            Some((user, (override_, allows))) => {
                Err(Rejection::costly_override(header_of(override_), user, override_.as_str(), &allows))
            }
        }
    }

    /// The only key that may have what the request names, if it names something that is stored.
    pub fn its_key(&self, keys: Vec<HashedKey>) -> Vec<HashedKey> {
        self.holders.iter().fold(keys, |keys, holders| holders.its_key(keys))
    }

    /// They may not cost more than the model's settings.
    pub fn are_bounded(&self) -> bool {
        self.bounded_for.is_some()
    }

    fn apply(&self, settings: &RaceSettings) -> RaceSettings {
        RaceSettings {
            policy: self.policy.unwrap_or(settings.policy),
            hedge_after: self.hedge_after.unwrap_or(settings.hedge_after),
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            optimise: self.optimise.unwrap_or(settings.optimise),
            budget: self.budget.unwrap_or(settings.budget),
            slo: SloSettings {
                ttft: self.slo.ttft.unwrap_or(settings.slo.ttft),
                tpot: self.slo.tpot.unwrap_or(settings.slo.tpot),
            },
            hold_max: self.hold_max.unwrap_or(settings.hold_max),
            lossy: self.lossy.unwrap_or(settings.lossy),
            ..settings.clone()
        }
    }

    /// Checks the name of a header that begins with `x-photofinish-` and contains no key.
    ///
    /// # Errors
    /// 400 for an unknown name, with the nearest known name.
    pub fn check_name(name: &str) -> Result<(), Rejection> {
        let known = HEADERS.iter().map(|(_, known)| *known).chain(SESSIONS.first().copied()).chain([TAGS]);
        if known.clone().any(|known| known == name) {
            return Ok(());
        }
        // All names have the same prefix.
        let bare = |name: &'static str| name.trim_start_matches(PREFIX);
        let near = nearest(name.trim_start_matches(PREFIX), known.clone().map(bare), 1).pop();
        Err(Rejection::header(
            name,
            &match near {
                Some(near) => format!("there is no such header; did you mean {PREFIX}{near}?"),
                None => format!("there is no such header; there are {}", known.collect::<Vec<_>>().join(", ")),
            },
        ))
    }

    /// The name of the header that lists upstreams.
    pub const fn upstreams_header() -> &'static str {
        UPSTREAMS
    }
}

fn header_of(override_: Override) -> &'static str {
    HEADERS.iter().find(|(listed, _)| *listed == override_).map_or(PREFIX, |(_, name)| name)
}

/// Reads one header; `read` returns the error in its text.
fn value<T>(
    headers: &HeaderMap,
    name: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Rejection> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let read = match value.to_str() {
        _ if headers.get_all(name).iter().count() > 1 => Err("it is sent more than once".to_owned()),
        Ok(text) => read(text.trim()),
        Err(_) => Err("expected visible ASCII characters".to_owned()),
    };
    read.map(Some).map_err(|why| Rejection::header(name, &why))
}

fn policy(text: &str) -> Result<Policy, String> {
    Policy::from_name(text).ok_or_else(|| none_of(text, &Policy::ALL.map(Policy::as_str)))
}

fn optimise(text: &str) -> Result<Objective, String> {
    Objective::from_name(text).ok_or_else(|| none_of(text, &Objective::ALL.map(Objective::as_str)))
}

fn lossy(text: &str) -> Result<Lossy, String> {
    Lossy::from_name(text).ok_or_else(|| none_of(text, &Lossy::ALL.map(Lossy::as_str)))
}

fn none_of(text: &str, names: &[&str]) -> String {
    format!("{} is none of {}", quoted(text), names.join(", "))
}

fn attempts(text: &str) -> Result<usize, String> {
    let attempts = text.parse().ok().filter(|attempts| (1..=MAX_ATTEMPTS).contains(attempts));
    attempts.ok_or_else(|| format!("{} is not a whole number from 1 to {MAX_ATTEMPTS}", quoted(text)))
}

fn budget(text: &str) -> Result<f64, String> {
    let range = RaceSettings::BUDGET;
    // NaN is in no range.
    let budget = text.parse().ok().filter(|budget| range.contains(budget));
    budget.ok_or_else(|| format!("{} is not a number from {} to {}", quoted(text), range.start(), range.end()))
}

fn duration(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    if range.contains(&duration) {
        return Ok(duration);
    }
    let [least, most] = [*range.start(), *range.end()].map(format_duration);
    Err(format!("{} is not in the range {least} to {most}", quoted(text)))
}

/// `ttft=1s,tpot=50ms`, or one of the two.
fn slo(text: &str) -> Result<OverriddenSlo, String> {
    let expected =
        || format!("{} is not ttft=DURATION, tpot=DURATION or both, such as ttft=1s,tpot=50ms", quoted(text));
    let mut targets = OverriddenSlo::default();
    for part in text.split(',') {
        let (name, limit) = part.split_once('=').ok_or_else(expected)?;
        let target = match name.trim() {
            "ttft" => &mut targets.ttft,
            "tpot" => &mut targets.tpot,
            _ => return Err(expected()),
        };
        if target.replace(duration(limit, SloSettings::TARGETS)?).is_some() {
            return Err(format!("{} is there twice", name.trim()));
        }
    }
    Ok(targets)
}

/// What starts attempts in addition to the first.
fn extras(settings: &RaceSettings) -> ExtraStarts {
    if settings.max_attempts == 1 { ExtraStarts::Never } else { rules(settings.policy).extras(settings) }
}

/// The first override in `asked` that may raise the cost above `allowed`, and what the model's settings allow.
pub fn raised(allowed: &RaceSettings, asked: &RaceSettings) -> Option<(Override, String)> {
    if asked.max_attempts > allowed.max_attempts {
        return Some((Override::MaxAttempts, format!("max_attempts = {}", allowed.max_attempts)));
    }
    if asked.budget > allowed.budget {
        return Some((Override::Budget, format!("budget = {}", allowed.budget)));
    }
    let (before, after) = (extras(allowed), extras(asked));
    if after > before {
        return Some((Override::Policy, spelt(allowed)));
    }
    if after == ExtraStarts::Late && before == ExtraStarts::Late && asked.hedge_after < allowed.hedge_after {
        return Some((Override::HedgeAfter, format!("hedge_after = {:?}", format_duration(allowed.hedge_after))));
    }
    // Losers cost what they run on, and no budget counts it.
    if after < ExtraStarts::Late {
        return None;
    }
    // With these objectives losers run on until the better answer is known.
    let holds = |settings: &RaceSettings| matches!(settings.optimise, Objective::Completion | Objective::Goodput);
    if holds(asked) && !holds(allowed) {
        return Some((Override::Optimise, format!("optimise = {:?}", allowed.optimise.as_str())));
    }
    let holds_longer = holds(asked) && asked.hold_max > allowed.hold_max;
    holds_longer.then(|| (Override::HoldMax, format!("hold_max = {:?}", format_duration(allowed.hold_max))))
}

/// What the cost of a policy depends on.
fn spelt(settings: &RaceSettings) -> String {
    let RaceSettings { policy, max_attempts, budget, .. } = settings;
    let budget = if policy.spends_budget() { format!(", budget = {budget}") } else { String::new() };
    format!("policy = {:?}, max_attempts = {max_attempts}{budget}", policy.as_str())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn tags_of_the_header_come_before_those_of_the_body() {
        let of = |header: &'static str, body: Option<&str>| {
            charged_to(&headers(&[(TAGS, header)]), body).map_err(|rejection| rejection.code())
        };
        assert_eq!(charged_to(&HeaderMap::new(), None).unwrap(), None);
        assert_eq!(charged_to(&HeaderMap::new(), Some("a=1 b=2")).unwrap().unwrap(), "a=1 b=2");
        assert_eq!(
            of("project=search, job=x,", Some("a=1 project=search")).unwrap().unwrap(),
            "a=1 job=x project=search"
        );
        assert_eq!(of("a,b,c,d,e,f,g,h", Some("z=1")).unwrap().unwrap(), "a b c d e f g h");
        for wrong in ["two words", "a,b,c,d,e,f,g,h,i", "ä", "x\"y"] {
            assert!(
                charged_to(
                    &HeaderMap::from_iter([(
                        HeaderName::from_static(TAGS),
                        HeaderValue::from_bytes(wrong.as_bytes()).unwrap()
                    )]),
                    None
                )
                .is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn good_values_are_laid_over_the_models() {
        let config = photofinish_config::parse("", std::path::Path::new("x"), &|_| None).unwrap();
        let applied = |pairs: &[(&'static str, &'static str)]| read(&headers(pairs), None).unwrap().apply(&config.race);
        assert_eq!(applied(&[]), config.race);
        let all = [
            (POLICY, "adaptive"),
            (HEDGE_AFTER, "90ms"),
            (ATTEMPTS, "2"),
            (OPTIMISE, "goodput"),
            (BUDGET, "10"),
            (SLO, "tpot=20ms, ttft=1.5s"),
            (HOLD, "0s"),
            (LOSSY, "drop"),
        ];
        let expected = RaceSettings {
            policy: Policy::Adaptive,
            hedge_after: Duration::from_millis(90),
            max_attempts: 2,
            optimise: Objective::Goodput,
            budget: 10.0,
            slo: SloSettings { ttft: Duration::from_millis(1_500), tpot: Duration::from_millis(20) },
            hold_max: Duration::ZERO,
            lossy: Lossy::Drop,
            ..config.race.clone()
        };
        assert_eq!(applied(&all), expected);
        let half = applied(&[(SLO, "tpot=0.5ms"), (HEDGE_AFTER, "300ms")]);
        assert_eq!((half.slo.ttft, half.slo.tpot), (config.race.slo.ttft, Duration::from_micros(500)));
        assert_eq!(half.hedge_after, Duration::from_millis(300));
        assert_eq!(read(&headers(&[(UPSTREAMS, "a/b, c/d")]), None).unwrap().upstreams.as_deref(), Some("a/b, c/d"));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_expected() {
        for (name, values, expected) in [
            (POLICY, &["quickest", "fastest", "rule", "", "Race"][..], "race, hedge, "),
            (HEDGE_AFTER, &["soon", "p95", ""], "\"250ms\""),
            (HEDGE_AFTER, &["366d"], "at most 365d"),
            (ATTEMPTS, &["0", "17", "x", "-1"], "1 to 16"),
            (OPTIMISE, &["tpot", "TTFT", ""], "auto, ttft, completion, goodput"),
            (BUDGET, &["-0.1", "10.1", "nan", "inf", "-inf", "1e99", "ten", "10 %", ""], "0 to 10"),
            (SLO, &["", "1s", "ttft", "e2e=1s", "ttft=1s,"], "such as ttft=1s,tpot=50ms"),
            (SLO, &["ttft=0s", "tpot=0ms", "ttft=1s,tpot=0s"], "0.001ms to 365d"),
            (SLO, &["ttft=1", "tpot=p95", "ttft=nan", "ttft=1s;tpot=50ms"], "a number and a unit"),
            (SLO, &["ttft=1s,ttft=2s"], "twice"),
            (LOSSY, &["keep", "", "Drop"], "prefer, refuse, drop"),
            (HOLD, &["6s", "1h"], "0s to 5s"),
            (HOLD, &["300", "-1s", "NaNs", ""], "a number and a unit"),
        ] {
            for value in values {
                let rejection = read(&headers(&[(name, value)]), None).unwrap_err();
                let message = rejection.message();
                assert!(message.contains(name) && message.contains(expected), "{value}: {message}");
            }
        }
        for name in [POLICY, HEDGE_AFTER, ATTEMPTS, OPTIMISE, BUDGET, SLO, HOLD, LOSSY, UPSTREAMS] {
            let mut twice = headers(&[(name, "2")]);
            twice.append(name, HeaderValue::from_static("2"));
            assert!(read(&twice, None).unwrap_err().message().contains("more than once"), "{name}");
        }
    }

    #[test]
    fn a_misspelt_header_is_named_with_the_nearest() {
        for (typed, expected) in [
            ("polcy", "did you mean x-photofinish-policy?"),
            ("upstream", "did you mean x-photofinish-upstreams?"),
            ("attempts", "did you mean x-photofinish-max-attempts?"),
            ("hedge", "did you mean x-photofinish-hedge-after?"),
            ("optimize", "did you mean x-photofinish-optimise?"),
            ("zzz", "there are x-photofinish-policy, x-photofinish-upstreams, "),
        ] {
            let name = format!("{PREFIX}{typed}");
            let rejection = Overrides::check_name(&name).unwrap_err();
            assert_eq!((rejection.status().as_u16(), rejection.code()), (400, "photofinish_bad_header"));
            assert!(rejection.message().contains(&name) && rejection.message().contains(expected), "{rejection:?}");
        }
        assert!(HEADERS.iter().all(|(_, name)| Overrides::check_name(name).is_ok()));
    }

    #[test]
    fn every_override_has_the_header_of_its_name() {
        for (override_, name) in HEADERS {
            assert_eq!(name, format!("x-photofinish-{}", override_.as_str()));
        }
        assert!(Override::ALL.iter().all(|override_| HEADERS.iter().any(|(listed, _)| listed == override_)));
    }
}

#[cfg(test)]
mod override_cost_tests {
    use std::path::Path;

    use super::*;

    /// The settings of these keys of `[race]`.
    fn settings(keys: &str) -> RaceSettings {
        let text = format!("[race]\n{}", keys.replace("; ", "\n"));
        photofinish_config::parse(&text, Path::new("x"), &|_| None).unwrap_or_else(|problems| panic!("{problems}")).race
    }

    #[test]
    fn what_may_cost_more_is_told_by_the_override_that_raises_it() {
        use Override::{Budget, HedgeAfter, HoldMax, MaxAttempts, Optimise, Policy};
        const RACE: &str = "policy = \"race\"";
        const HEDGE: &str = "policy = \"hedge\"; hedge_after = \"500ms\"";
        const ADAPTIVE: &str = "policy = \"adaptive\"; budget = 0.1";
        const FREE: &str = "policy = \"adaptive\"; budget = 0.0";
        const ONE: &str = "policy = \"race\"; max_attempts = 1";
        const FALLBACK: &str = "policy = \"fallback\"";
        for (allowed, asked, expected) in [
            (RACE, "policy = \"hedge\"; hedge_after = \"0s\"", None),
            (RACE, ADAPTIVE, None),
            (RACE, FALLBACK, None),
            (RACE, "policy = \"race\"; max_attempts = 2", None),
            (RACE, "policy = \"race\"; max_attempts = 5", Some(MaxAttempts)),
            (RACE, "policy = \"race\"; optimise = \"completion\"", Some(Optimise)),
            ("policy = \"race\"; optimise = \"goodput\"", "policy = \"race\"; optimise = \"completion\"", None),
            (
                "policy = \"race\"; optimise = \"goodput\"; hold_max = \"1s\"",
                "policy = \"race\"; optimise = \"goodput\"; hold_max = \"2s\"",
                Some(HoldMax),
            ),
            (RACE, "policy = \"race\"; hold_max = \"5s\"", None),
            (RACE, "policy = \"fallback\"; optimise = \"completion\"; hold_max = \"5s\"", None),
            (HEDGE, RACE, Some(Policy)),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"501ms\"", None),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"499ms\"", Some(HedgeAfter)),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"1ms\"; max_attempts = 1", None),
            (HEDGE, ADAPTIVE, None),
            (ADAPTIVE, RACE, Some(Policy)),
            (ADAPTIVE, HEDGE, Some(Policy)),
            (ADAPTIVE, "policy = \"race\"; max_attempts = 1", None),
            (ADAPTIVE, "policy = \"adaptive\"; budget = 0.1; hedge_after = \"1ms\"", None),
            (ADAPTIVE, "policy = \"adaptive\"; budget = 0.05; optimise = \"completion\"; hold_max = \"5s\"", None),
            (ADAPTIVE, "policy = \"adaptive\"; budget = 0.2", Some(Budget)),
            (FREE, "policy = \"race\"; budget = 0.0", Some(Policy)),
            (FREE, "policy = \"adaptive\"; budget = 0.0", None),
            (FREE, "policy = \"adaptive\"; budget = 0.01", Some(Budget)),
            (FALLBACK, ADAPTIVE, Some(Policy)),
            (FALLBACK, "policy = \"weighted\"", None),
            (FALLBACK, "policy = \"adaptive\"; budget = 0.0", None),
            (ONE, RACE, Some(MaxAttempts)),
            (ONE, "policy = \"hedge\"; max_attempts = 1; hedge_after = \"0s\"", None),
        ] {
            let raised = raised(&settings(allowed), &settings(asked));
            assert_eq!(raised.as_ref().map(|(override_, _)| *override_), expected, "{allowed} -> {asked}: {raised:?}");
        }
    }

    #[test]
    fn the_message_has_what_the_model_allows() {
        for (allowed, asked, expected) in [
            (
                "policy = \"adaptive\"; budget = 0.0; max_attempts = 2",
                "policy = \"race\"; budget = 0.0; max_attempts = 2",
                "policy = \"adaptive\", max_attempts = 2, budget = 0",
            ),
            ("policy = \"fallback\"", "policy = \"race\"", "policy = \"fallback\", max_attempts = 4"),
            ("policy = \"hedge\"", "policy = \"hedge\"; hedge_after = \"50ms\"", "hedge_after = \"1s\""),
            ("max_attempts = 1", "max_attempts = 16", "max_attempts = 1"),
            ("budget = 0.1", "budget = 0.5", "budget = 0.1"),
        ] {
            assert_eq!(raised(&settings(allowed), &settings(asked)).unwrap().1, expected);
        }
    }
}
