//! What a new configuration would take away from the one in force: a file that was cut off, emptied or made by a command that failed is
//! still valid. Not for whether it is taken all the same: see `reload`.

use std::collections::BTreeSet;

use super::startup_log::shortened;
use photofinish_config::config::{Config, Listen};

/// What `after` drops so much of that a person has to accept it, as sentences; none if it may be taken at once. `bound`: where the gateway
/// listens.
///
/// A configuration with as many users or models as before drops none: they were renamed or replaced.
pub(super) fn losses(before: &Config, after: &Config, bound: &[Listen]) -> Vec<String> {
    let mut losses = Vec::new();
    let has_content = !before.users.is_empty() || !before.models.is_empty();
    let is_blank = |config: &Config| config.text.is_some_and(|text| text.is_blank);
    if is_blank(after) && !is_blank(before) && has_content {
        losses.push("the file is empty".to_owned());
    }
    losses.extend(lost_users(before, after, bound));
    losses.extend(lost_models(before, after));
    losses
}

fn lost_users(before: &Config, after: &Config, bound: &[Listen]) -> Option<String> {
    let names: Vec<&str> = before.users.iter().map(|user| user.name.as_str()).collect();
    let stay: BTreeSet<&str> = after.users.iter().map(|user| user.name.as_str()).collect();
    let lost = lost("users", &names, after.users.len(), |name| stay.contains(name))?;
    if !after.users.is_empty() {
        return Some(lost);
    }
    let listeners: Vec<String> = bound.iter().map(Listen::to_string).collect();
    Some(format!("{lost}: whoever reaches {} would need no token", listeners.join(", ")))
}

fn lost_models(before: &Config, after: &Config) -> Option<String> {
    let names: Vec<&str> = before.models.keys().map(String::as_str).collect();
    match (before.serves_catalogue, after.serves_catalogue) {
        // The first models of its own.
        (true, false) => None,
        (false, true) => {
            let all = lost("models", &names, 0, |_| false)?;
            Some(format!("{all}: without [models] those of the catalogue would be served"))
        }
        // An app may still ask for a model that is an alias now.
        _ => lost("models", &names, after.models.len(), |name| after.model(name).is_some()),
    }
}

/// The sentence, if all or more than half are gone and fewer are left.
fn lost(what: &str, before: &[&str], after: usize, stays: impl Fn(&str) -> bool) -> Option<String> {
    let gone: Vec<&str> = before.iter().copied().filter(|name| !stays(name)).collect();
    let (count, all) = (gone.len(), before.len());
    let is_loss = after < all && count * 2 > all;
    is_loss.then(|| format!("{count} of {all} {what} are gone ({})", shortened(&gone)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::config::parse;

    const SIM: &str = "[providers.sim]\nsimulate = {}\n";

    fn config(text: &str) -> Config {
        let env = |name: &str| (name == "GROQ_API_KEY" && text.contains("# keyed")).then(|| "planted".to_owned());
        parse(text, Path::new("config.toml"), &env).unwrap()
    }

    fn with(users: &[&str], models: &[&str]) -> String {
        let user = |name: &&str| format!("[users.{name}]\ntoken = \"token-of-{name}\"\n");
        let model = |name: &&str| format!("[models.{name}]\nupstreams = [\"sim/m\"]\n");
        let [users, models]: [String; 2] = [users.iter().map(user).collect(), models.iter().map(model).collect()];
        format!("{SIM}{models}{users}")
    }

    fn told(before: &str, after: &str) -> String {
        let bound = ["127.0.0.1:1", "10.0.0.1:2", "unix:/run/gateway"].map(|text| Listen::parse(text).unwrap());
        losses(&config(before), &config(after), &bound).join("; ")
    }

    #[test]
    fn all_or_more_than_half_of_the_users_or_models_are_a_loss() {
        let before = with(&["a", "b", "c"], &["k", "l", "m", "n"]);
        for (after, expected) in [
            (before.clone(), ""),
            (with(&["a", "b"], &["k", "l"]), ""),
            (with(&["x", "y", "z"], &["r", "s", "t", "u"]), ""),
            (with(&["a"], &["k", "l", "m", "n"]), "2 of 3 users are gone (b, c)"),
            (with(&["x"], &["k", "l", "m", "n"]), "3 of 3 users are gone (a, b, c)"),
            (with(&["a", "b", "c"], &["k"]), "3 of 4 models are gone (l, m, n)"),
            (with(&["a", "b", "c"], &["x", "y", "z"]), "4 of 4 models are gone (k, l, m, n)"),
        ] {
            assert_eq!(told(&before, &after), expected, "{after}");
        }
        assert_eq!(told(&with(&["a"], &["m"]), &with(&["b"], &["n"])), "", "renamed");
        let alias = format!("{SIM}[models.big]\nupstreams = [\"sim/m\"]\naliases = [\"k\", \"l\", \"m\"]\n");
        assert_eq!(told(&with(&[], &["k", "l", "m"]), &alias), "", "apps still find them");
    }

    #[test]
    fn a_configuration_without_users_opens_every_listener() {
        let expected =
            "1 of 1 users are gone (a): whoever reaches 127.0.0.1:1, 10.0.0.1:2, unix:/run/gateway would need no token";
        assert_eq!(told(&with(&["a"], &["m"]), &with(&[], &["m"])), expected);
        assert_eq!(told(&with(&[], &["m"]), &with(&["a"], &["m"])), "");
    }

    #[test]
    fn an_emptied_file_is_a_loss() {
        let blank = "# nothing\n\n";
        assert_eq!(
            told(&with(&[], &["m"]), blank),
            "the file is empty; 1 of 1 models are gone (m): without [models] those of the catalogue would be served"
        );
        assert!(told(&with(&["a"], &[]), "").starts_with("the file is empty; 1 of 1 users are gone"));
        assert_eq!(told("# one", "# another"), "");
        assert_eq!(told("[race]\nretries = 1", ""), "", "it had neither users nor models");
    }

    #[test]
    fn models_of_the_catalogue_count_as_those_of_tables_do() {
        let (keyed, own) = ("# keyed\n[race]\nretries = 1", with(&[], &["m"]));
        assert!(config(keyed).models.len() > 1);
        assert_eq!(told(keyed, &own), "", "the first models of its own");
        assert!(told(&own, keyed).starts_with("1 of 1 models are gone (m): without [models]"));
        assert!(told(keyed, "[race]\nretries = 1").contains(" models are gone ("));
        assert_eq!(told(keyed, "# keyed\n"), "the file is empty");
    }
}
