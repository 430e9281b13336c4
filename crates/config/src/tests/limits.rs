//! `[limits]`, `[teams]` and the limits of users.

use super::*;

const BASE: &str = "models.m = { aliases = [\"fast\"], upstreams = [\"groq/x\"] }\n";

fn problem(text: &str) -> String {
    let problems = bad(&format!("{BASE}{text}"));
    assert_eq!(problems.list.len(), 1, "{problems}");
    problems.list[0].to_string()
}

#[test]
fn each_level_has_its_own() {
    let text = "
[limits]
rpm = 600
tpm = { tokens = 100_000, burst = 5_000 }
streams = 50

[teams.search]
models = [\"m\", \"groq/*\"]
budget = { month = 400.5 }

[users.alice]
token = \"${TOKEN}\"
team = \"search\"
rpm = { requests = 30 }
budget = { day = 0.000_001, month = 20 }
deny = \"fast\"
reserve = \"max\"
unpriced = \"free\"
own_keys = \"counted\"
";
    let config = good(&format!("{BASE}{text}"));
    let (all, team, alice) = (&config.limits, &config.teams["search"], &config.users[0]);
    assert_eq!(all.rpm, Some(Rate { per_minute: 600, burst: 600 }));
    assert_eq!((all.tpm, all.streams), (Some(Rate { per_minute: 100_000, burst: 5_000 }), Some(50)));
    assert_eq!(team.limits.budget, Budget { month: Some(400_500_000_000), ..Budget::default() });
    assert_eq!((alice.team.as_deref(), alice.key.is_none()), (Some("search"), true));
    assert_eq!(alice.limits.rpm, Some(Rate { per_minute: 30, burst: 30 }));
    assert_eq!(alice.limits.budget, Budget { day: Some(1_000), month: Some(20_000_000_000), ..Budget::default() });
    let settings = (alice.limits.reserve, alice.limits.unpriced, alice.limits.own_keys);
    assert_eq!(settings, (Reserve::Max, Unpriced::Free, OwnKeys::Counted));
    assert!(config.warnings.iter().all(|warning| !warning.contains("matches no")), "{:?}", config.warnings);
    let config = good(BASE);
    assert!(config.limits.is_empty() && config.teams.is_empty());
}

#[test]
fn bad_limits_are_told_with_their_place() {
    for (text, expected) in [
        ("limits.rpm = 0", "2:14: bad value 0 for \"rpm\" in [limits]; expected 1 to 1000000000"),
        ("limits.rpm = -5", "2:14: bad value -5 for \"rpm\" in [limits]; expected 1 to 1000000000"),
        (
            "limits.rpm = 99999999999999999999",
            "2:14: bad value 99999999999999999999 for \"rpm\" in [limits]; expected 1 to",
        ),
        ("limits.rpm = 1.5", "2:14: \"rpm\" in [limits] is a number with a fraction; expected an integer"),
        (
            "limits.rpm = { burst = 5 }",
            "2:14: rpm of [limits] has no \"requests\"; expected { requests = 60, burst = 10 }",
        ),
        ("limits.rpm = { requests = 5, burst = 0 }", "2:38: bad value 0 for \"burst\" in rpm of [limits]"),
        ("limits.rpm = { tokens = 5, requests = 5 }", "2:16: unknown key \"tokens\" in rpm of [limits]"),
        ("limits.streams = 0", "2:18: bad value 0 for \"streams\" in [limits]; expected 1 to 1000000"),
        (
            "limits.budget.day = 0",
            "2:21: bad value 0 for \"day\" in budget of [limits]; expected 0.000001 to 1000000000",
        ),
        ("limits.budget.day = -1.5", "2:21: bad value -1.5 for \"day\" in budget of [limits]"),
        ("limits.budget.month = 1e12", "2:23: bad value 1e12 for \"month\" in budget of [limits]"),
        (
            "limits.budget.year = 1",
            "2:15: unknown key \"year\" in budget of [limits]; expected one of day, week, month, total",
        ),
        ("limits.models = [\"a b\"]", "2:18: bad value \"a b\" for \"models\" in [limits]; expected names of models"),
        (
            "limits.reserve = \"maximum\"",
            "2:18: bad value \"maximum\" for \"reserve\" in [limits]; expected one of usual, max",
        ),
        ("limits.role = \"admin\"", "2:8: unknown key \"role\" in [limits]; expected it under [users.NAME]"),
        ("teams.\"\".rpm = 1", "2:7: bad team name \"\"; expected 1 to 64 bytes without control characters"),
        (
            "teams.search.rpm = 1\n[users.a]\ntoken = \"${TOKEN}\"\nteam = \"serach\"",
            "5:8: unknown team \"serach\" in [users.a]; expected a table under [teams]; did you mean \"search\"?",
        ),
    ] {
        let found = problem(text);
        assert!(found.starts_with(expected), "{text}\n{found}");
    }
}

#[test]
fn what_has_no_effect_is_warned_of() {
    for (text, expected) in [
        ("limits.models = [\"lama\"]", Some("\"lama\" in models of [limits] matches no model, alias or upstream")),
        (
            "teams.t.deny = [\"openai/*\"]",
            Some("\"openai/*\" in deny of [teams.t] matches no model, alias or upstream"),
        ),
        ("limits.models = [\"m\", \"f*\", \"groq/x\", \"groq/*\"]", None),
        ("limits.models = [\"groq/openai/gpt-oss-120b\"]", None),
        (
            "limits = { rpm = 5, reserve = \"max\" }",
            Some("warn, reserve, unpriced and own_keys of [limits] have no effect"),
        ),
        ("limits = { budget.day = 5, reserve = \"max\" }", None),
    ] {
        let warnings = good(&format!("{BASE}{text}")).warnings;
        let found = warnings.iter().find(|warning| warning.contains("matches no") || warning.contains("no effect"));
        assert_eq!(found.is_some(), expected.is_some(), "{text}: {warnings:?}");
        assert!(found.is_none_or(|found| expected.is_some_and(|expected| found.starts_with(expected))), "{found:?}");
    }
}
