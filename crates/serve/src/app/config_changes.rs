//! What a changed file did, for the audit: users, teams, limits and addresses of providers, in words. No token. A file is compared with
//! what the database has of the one before, so that what changed while no gateway ran is found too.
//!
//! Not for what changed by `/api`: those lines have their author.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::accounts::AccountKeeper;
use photofinish_config::{Config, Limits};
use photofinish_gateway::proxy::Gateway;
use photofinish_history::store::{Author, FileChange};

/// Lines of the audit from one reload of the configuration; the last one counts the others.
const LINES_MAX: usize = 256;
/// Bytes of one value in such a line.
const VALUE_MAX: usize = 256;

type DescribedMembers = Map<String, Value>;
/// By subject, such as `file:user:ann`.
type DescribedFile = BTreeMap<String, DescribedMembers>;

/// Enters what the configuration of a start changed while no gateway ran.
pub(super) async fn enter_start(gateway: &Gateway, accounts: &Arc<AccountKeeper>) {
    let (accounts, live) = (accounts.clone(), gateway.live());
    let by = Author { who: String::new(), origin: "configuration file, at a start".to_owned() };
    // After a panic, which is in the log, the next reload or start finds it.
    let _ = gateway.shutdown().run_blocking(move || enter(&accounts, None, live.as_read(), &by)).await;
}

/// Enters what this configuration, which is in force now, changed. `before`: the one that it replaced, if this gateway had one; it counts
/// where the database knows none. Blocks.
pub(super) fn enter(accounts: &AccountKeeper, before: Option<&Config>, config: &Config, by: &Author) {
    let (now, before) = (described(config), before.map(described));
    let changes = |kept: Option<&str>| {
        let kept = kept.and_then(|kept| serde_json::from_str(kept).ok());
        kept.or_else(|| before.clone()).map(|before| changes(before, now.clone())).unwrap_or_default()
    };
    accounts.enter((&config.source.to_string(), &json!(now).to_string()), changes, by);
}

/// In the order of their subjects.
fn changes(before: DescribedFile, mut after: DescribedFile) -> Vec<FileChange> {
    let mut changes = Vec::new();
    for (subject, old) in before {
        let new = after.remove(&subject);
        if new.as_ref() != Some(&old) {
            changes.push(FileChange { subject, before: Some(old.into()), after: new.map(Value::from) });
        }
    }
    let made = after.into_iter();
    changes.extend(made.map(|(subject, new)| FileChange { subject, before: None, after: Some(new.into()) }));
    changes.sort_by(|one, other| one.subject.cmp(&other.subject));
    if changes.len() > LINES_MAX {
        let more = changes.len() - (LINES_MAX - 1);
        changes.truncate(LINES_MAX - 1);
        let after = Some(json!({ "more_changes": more }));
        changes.push(FileChange { subject: "file:more".to_owned(), before: None, after });
    }
    changes
}

fn described(config: &Config) -> DescribedFile {
    let mut described = BTreeMap::from([("file:everybody".to_owned(), limits(&config.limits))]);
    for user in &config.users {
        let mut members = limits(&user.limits);
        add(&mut members, "role", user.role.as_str());
        if let Some(team) = &user.team {
            add(&mut members, "team", team);
        }
        described.insert(format!("file:user:{}", user.name), members);
    }
    described.extend(config.teams.iter().map(|(name, team)| (format!("file:team:{name}"), limits(&team.limits))));
    for (name, provider) in &config.providers {
        let mut members = DescribedMembers::new();
        // Without its path, which may have a key.
        for spoken in &provider.dialects {
            let host = spoken.base_url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            add(&mut members, spoken.dialect.as_str(), &host);
        }
        described.insert(format!("file:provider:{name}"), members);
    }
    described
}

/// Those that are set.
fn limits(limits: &Limits) -> DescribedMembers {
    let mut members = DescribedMembers::new();
    for (name, value) in limits.settings() {
        let text = value.to_string();
        match text.len() > VALUE_MAX {
            true => add(&mut members, &name, &text),
            false => drop(members.insert(name, value)),
        }
    }
    members
}

fn add(members: &mut DescribedMembers, name: &str, value: &str) {
    let value = &value[..value.floor_char_boundary(VALUE_MAX)];
    members.insert(name.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    fn config(text: &str) -> Config {
        parse(text, Path::new("config.toml"), &|_| None).unwrap()
    }

    const USERS: &str = "[users.ann]\ntoken = \"planted-token-of-ann\"\nrole = \"admin\"\n";

    fn lines(before: &str, after: &str) -> Vec<String> {
        let all = |text: &str| config(&format!("{USERS}{text}"));
        let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
        let line =
            |change: FileChange| format!("{}: {} → {}", change.subject, value(&change.before), value(&change.after));
        changes(described(&all(before)), described(&all(after))).into_iter().map(line).collect()
    }

    #[test]
    fn each_change_is_a_line_and_no_line_has_a_token() {
        let eve = "[users.eve]\ntoken = \"planted-token-of-eve\"\nrole = \"admin\"\n";
        let team = |day: &str| format!("[teams.search.budget]\nday = {day}\n");
        let at = |path: &str| format!("[providers.mine]\nbase_url = \"http://{path}\"\napi_key = \"planted\"\n");
        for (before, after, expected) in [
            (String::new(), String::new(), vec![]),
            (String::new(), eve.to_owned(), vec![r#"file:user:eve: - → {"role":"admin"}"#]),
            (eve.to_owned(), String::new(), vec![r#"file:user:eve: {"role":"admin"} → -"#]),
            (team("5"), team("5000"), vec![r#"file:team:search: {"budget":{"day":5.0}} → {"budget":{"day":5000.0}}"#]),
            (String::new(), "[limits]\nrpm = 60\n".to_owned(), vec![r#"file:everybody: {} → {"rpm":60}"#]),
            (
                at("a:1/planted/v1"),
                at("b:2/planted/v1"),
                vec![r#"file:provider:mine: {"openai":"http://a:1"} → {"openai":"http://b:2"}"#],
            ),
            (at("a:1/v1"), at("a:1/v2"), vec![]),
        ] {
            assert_eq!(lines(&before, &after), expected, "{before} → {after}");
        }
    }

    #[test]
    fn a_reload_has_a_bound() {
        let user = |n: usize| format!("[users.u{n}]\ntoken = \"planted-token-of-{n}\"\n");
        let lines = lines("", &(0..300).map(user).collect::<String>());
        assert_eq!(lines.len(), LINES_MAX);
        assert!(lines.contains(&r#"file:more: - → {"more_changes":45}"#.to_owned()), "{lines:?}");
    }
}
