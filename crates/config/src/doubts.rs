//! Warnings about models, limits and keys that are valid and probably not meant so.
//!
//! Not for mistakes, which stop the gateway: see `problem`.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

use super::catalogue::{self, CatalogueEntry};
use super::hosts::Hosting;
use super::prices::dearest;
use super::problem::is_misspelt;
use super::reader::ReaderScope;
use super::{Keys, Limits, ModelConfig, ModelPattern, Policy, Provider, RaceSettings, Team, UpstreamConfig, User};
use crate::offerings::ModelCatalogue;

/// Edits between a name and the one that was surely meant.
const EDITS_MAX: usize = 2;

/// About one model of the file. `name` is fit for a message.
pub(super) fn warn_of_model(
    scope: &ReaderScope<'_>,
    name: &str,
    race: &RaceSettings,
    upstreams: &[UpstreamConfig],
    catalogue: &ModelCatalogue,
) {
    upstreams
        .iter()
        .filter_map(|upstream| misspelt(upstream, catalogue))
        .for_each(|doubt| scope.warn(format!("model {name}: {doubt}")));
    if let Some(doubt) = different_models(race, upstreams, catalogue) {
        scope.warn(format!("model {name}: {doubt}"));
    }
    if race.policy != Policy::Weighted && upstreams.iter().any(|upstream| upstream.weight != 1.0) {
        let policy = race.policy.as_str();
        scope.warn(format!(
            "model {name}: \"weight\" counts under policy = \"weighted\" only, and this is \"{policy}\""
        ));
    }
    warn_of_prices(scope, name, race, upstreams);
}

/// About `budget`, which is a share and no percentage.
pub(super) fn warn_of_budgets<'m>(
    scope: &ReaderScope<'_>,
    race: &RaceSettings,
    models: impl Iterator<Item = &'m Arc<ModelConfig>>,
) {
    let own = models.filter(|model| model.race.budget != race.budget);
    let all = std::iter::once(("race".to_owned(), race.budget));
    for (table, budget) in all.chain(own.map(|model| (format!("models.{}", model.name), model.race.budget))) {
        if budget > 1.0 {
            scope.warn(format!(
                "budget = {budget} in [{table}] lets chosen extras cost {:.0} % of what single attempts cost; {budget} % is {}",
                100.0 * budget,
                budget / 100.0
            ));
        }
    }
}

/// About the limits of everybody, of teams and of users.
pub(super) fn warn_of_limits<'m>(
    scope: &ReaderScope<'_>,
    (hosting, models, aliases): (&Hosting<'_>, &BTreeMap<String, Arc<ModelConfig>>, &BTreeMap<String, String>),
    limits: &Limits,
    teams: impl Iterator<Item = &'m Arc<Team>>,
) {
    let known = KnownNames { hosting, models, aliases };
    known.warn_of(scope, "[limits]", limits);
    teams.for_each(|team| known.warn_of(scope, &format!("[teams.{}]", team.name), &team.limits));
    hosting.users.iter().for_each(|user| known.warn_of(scope, &format!("[users.{}]", user.name), &user.limits));
}

/// About keys in the wrong place: of another vendor than the one that they are sent to. `providers`: those that are right.
pub(super) fn warn_of_keys<'p>(
    scope: &ReaderScope<'_>,
    providers: impl Iterator<Item = &'p Arc<Provider>>,
    users: &[Arc<User>],
) {
    for provider in providers {
        let Some(entry) = catalogue::find(&provider.vendor).filter(|entry| is_at_vendor(provider, entry)) else {
            continue;
        };
        let warn = |key: &SecretString, place: String| {
            let issuer = catalogue::issuer_of(key.expose_secret()).filter(|issuer| issuer.name != entry.name);
            if let Some(issuer) = issuer {
                let usual = issuer.key_variable.as_deref().unwrap_or_default();
                let (vendor, issuer) = (&entry.name, &issuer.name);
                scope.warn(format!("{place} begins as keys of {issuer} do, not of {vendor}: {usual} is its variable"));
            }
        };
        if let Keys::Keys(keys) = &provider.keys {
            let place = if provider.key_sources.is_empty() {
                "its api_key".to_owned()
            } else {
                format!("the key in {}", provider.key_sources.join(" or "))
            };
            keys.iter().for_each(|key| warn(key, format!("provider {}: {place}", provider.name)));
        }
        for (user, key) in users.iter().filter_map(|user| Some((user, user.keys.get(&provider.name)?))) {
            warn(key, format!("the key for {} in keys of [users.{}]", provider.name, user.name));
        }
    }
}

/// Not at another address, where another's key may be right.
fn is_at_vendor(provider: &Provider, entry: &CatalogueEntry) -> bool {
    let is_its = |url: &String| url.is_empty() || url.contains('{') || *url == provider.base_url;
    entry.serves.iter().any(|served| is_its(&served.base_url))
}

/// What patterns can match.
struct KnownNames<'c> {
    hosting: &'c Hosting<'c>,
    models: &'c BTreeMap<String, Arc<ModelConfig>>,
    aliases: &'c BTreeMap<String, String>,
}

impl KnownNames<'_> {
    /// Warns of what is valid in the limits of this table and does nothing.
    fn warn_of(&self, scope: &ReaderScope<'_>, table: &str, limits: &Limits) {
        for (key, patterns) in [("models", &limits.models), ("deny", &limits.deny)] {
            for pattern in patterns.iter().flatten().filter(|pattern| !self.is_matched(pattern)) {
                let pattern = pattern.as_str();
                scope.warn(format!("\"{pattern}\" in {key} of {table} matches no model, alias or upstream"));
            }
        }
        for pattern in limits.model_budgets.iter().map(|of| &of.models).filter(|pattern| !self.is_matched(pattern)) {
            let pattern = pattern.as_str();
            scope.warn(format!("\"{pattern}\" in model_budgets of {table} matches no model, alias or upstream"));
        }
        if limits.lacks_budget() {
            scope.warn(format!("warn, reserve, unpriced and own_keys of {table} have no effect without a budget"));
        }
    }

    fn is_matched(&self, pattern: &ModelPattern) -> bool {
        let Hosting { catalogue, providers, .. } = self.hosting;
        let matches = |name: &String| pattern.matches(name);
        let listed = || self.models.values().flat_map(|model| &model.upstreams).any(|one| pattern.matches(&one.name()));
        let known = || {
            let hosted = catalogue.offerings().filter(|offering| providers.contains_key(&offering.provider));
            hosted.into_iter().any(|offering| pattern.matches(&format!("{}/{}", offering.provider, offering.id)))
        };
        self.models.keys().chain(self.aliases.keys()).any(matches)
            || providers.keys().any(|provider| pattern.matches(&format!("{provider}/")))
            || listed()
            || known()
    }
}

/// An id that a provider of the catalogue does not have, but nearly.
fn misspelt(upstream: &UpstreamConfig, catalogue: &ModelCatalogue) -> Option<String> {
    let (provider, id) = (upstream.provider.vendor.as_str(), upstream.model.as_str());
    if upstream.provider.simulate.is_some() || catalogue.offering_or_undated(provider, id).is_some() {
        return None;
    }
    let known =
        catalogue.offerings().filter(|offering| offering.provider == provider).map(|offering| offering.id.as_str());
    let near = known.map(|known| (strsim::levenshtein(id, known), known));
    let (_, meant) = near.filter(|(edits, known)| *edits <= EDITS_MAX && is_misspelt(id, known)).min()?;
    Some(format!("the catalogue has no \"{id}\" of {provider}; did you mean \"{meant}\"?"))
}

/// Upstreams of which the catalogue knows that they are different models. Under `fallback` and `weighted` that is a plan.
fn different_models(race: &RaceSettings, upstreams: &[UpstreamConfig], catalogue: &ModelCatalogue) -> Option<String> {
    if matches!(race.policy, Policy::Fallback | Policy::Weighted) {
        return None;
    }
    let mut models = BTreeMap::new();
    for upstream in upstreams {
        let known = catalogue.offering_or_undated(&upstream.provider.vendor, &upstream.model);
        if let Some(model) = known.and_then(|offering| offering.model.as_deref()) {
            models.entry(model).or_insert_with(|| upstream.name());
        }
    }
    let listed: Vec<String> = models.into_iter().map(|(model, upstream)| format!("{model} ({upstream})")).collect();
    (listed.len() > 1).then(|| format!("it races different models, so answers differ: {}", listed.join(", ")))
}

/// Warns if a budget is not counted in plain money.
fn warn_of_prices(scope: &ReaderScope<'_>, model: &str, race: &RaceSettings, upstreams: &[UpstreamConfig]) {
    // A machine of one's own is not billed.
    let is_billed = upstreams.iter().any(|upstream| upstream.provider.is_hosted());
    if !race.policy.spends_budget() || race.budget == 0.0 || upstreams.len() < 2 || !is_billed {
        return;
    }
    let without: Vec<String> = upstreams
        .iter()
        .filter(|upstream| upstream.price.is_none() && upstream.provider.is_hosted())
        .map(|upstream| format!("{}/{}", upstream.provider.name, upstream.model))
        .collect();
    match dearest(upstreams.iter().filter_map(|upstream| upstream.price)) {
        None => {
            scope.warn(format!("model {model}: no upstream has a price: its budget counts tokens instead of money"));
        }
        Some(dearest) if !without.is_empty() => scope.warn(format!(
            "model {model}: {} without a price: counted at the highest of the others, {} USD per million input tokens \
             and {} per million output tokens",
            without.join(", "),
            dearest.input,
            dearest.output
        )),
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;

    fn warned(text: &str) -> Vec<String> {
        let env = |name: &str| name.ends_with("_API_KEY").then(|| "planted".to_owned());
        parse(text, Path::new("x"), &env).unwrap().warnings
    }

    #[test]
    fn a_key_of_another_vendor_is_told_by_its_form() {
        const USER: &str =
            "users.ann = { token = \"a-token-of-thirty-two-characters-or-more\", keys = { openai = \"${LENT}\" } }";
        let env = |variable: &str, key: &str| {
            let (variable, key) = (variable.to_owned(), key.to_owned());
            move |name: &str| (name == variable).then(|| key.clone())
        };
        for (text, variable, key, expected) in [
            (
                "",
                "OPENAI_API_KEY",
                "gsk_planted1234",
                Some(
                    "provider openai: the key in OPENAI_API_KEY begins as keys of groq do, not of openai: GROQ_API_KEY is its variable",
                ),
            ),
            ("", "GROQ_API_KEY", "sk-ant-planted1234", Some("begins as keys of anthropic do, not of groq")),
            (
                "providers.openai.api_key = \"${K}\"",
                "K",
                "gsk_planted1234",
                Some("provider openai: the key in K begins"),
            ),
            (
                "providers.x = { like = \"openai\", api_key = \"${K}\" }",
                "K",
                "gsk_planted1234",
                Some("provider x: the key"),
            ),
            (
                USER,
                "LENT",
                "gsk_planted1234",
                Some("the key for openai in keys of [users.ann] begins as keys of groq do"),
            ),
            (
                "providers.openai = { base_url = \"https://h.example/v1\", api_key = \"${K}\" }",
                "K",
                "gsk_planted1234",
                None,
            ),
            (
                "providers.own = { base_url = \"https://h.example/v1\", api_key = \"${K}\" }",
                "K",
                "gsk_planted1234",
                None,
            ),
            ("", "GROQ_API_KEY", "gsk_planted1234", None),
            ("", "DEEPSEEK_API_KEY", "sk-planted1234", None),
        ] {
            let warnings = parse(text, Path::new("x"), &env(variable, key)).unwrap().warnings;
            let of_keys: Vec<_> = warnings.iter().filter(|warning| warning.contains("begins as keys")).collect();
            assert_eq!(of_keys.len(), usize::from(expected.is_some()), "{text} {variable}: {warnings:?}");
            assert!(of_keys.iter().all(|warning| warning.contains(expected.unwrap())), "{of_keys:?}");
            assert!(!warnings.iter().any(|warning| warning.contains("planted")), "{warnings:?}");
        }
    }

    #[test]
    fn what_is_probably_not_meant_is_said() {
        for (text, expected) in [
            (
                "models.m.upstreams = [\"groq/openai/gpt-oss-120\"]",
                Some("no \"openai/gpt-oss-120\" of groq; did you mean \"openai/gpt-oss-120b\"?"),
            ),
            ("models.m.upstreams = [\"groq/openai/gpt-oss-999b\"]", None),
            ("models.m.upstreams = [\"groq/quite-another\"]", None),
            ("models.m.upstreams = [\"groq/openai/gpt-oss-120b\", \"cerebras/gpt-oss-120b\"]", None),
            (
                "models.m.upstreams = [\"groq/openai/gpt-oss-120b\", \"groq/openai/gpt-oss-20b\"]",
                Some(
                    "it races different models, so answers differ: gpt-oss-120b (groq/openai/gpt-oss-120b), gpt-oss-20b (groq/",
                ),
            ),
            (
                "race.policy = \"fallback\"\nmodels.m.upstreams = [\"groq/openai/gpt-oss-120b\", \"groq/openai/gpt-oss-20b\"]",
                None,
            ),
            (
                "models.m.upstreams = [{ upstream = \"groq/openai/gpt-oss-120b\", weight = 3 }]",
                Some("\"weight\" counts under policy"),
            ),
            (
                "race.policy = \"weighted\"\nmodels.m.upstreams = [{ upstream = \"groq/openai/gpt-oss-120b\", weight = 3 }]",
                None,
            ),
            (
                "race.budget = 10\nmodels.m.upstreams = [\"groq/openai/gpt-oss-120b\"]",
                Some("budget = 10 in [race] lets chosen extras cost 1000 % of what single attempts cost; 10 % is 0.1"),
            ),
            ("models.m = { budget = 5, upstreams = [\"groq/openai/gpt-oss-120b\"] }", Some("budget = 5 in [models.m]")),
        ] {
            let warnings = warned(text);
            assert_eq!(warnings.len(), usize::from(expected.is_some()), "{text}: {warnings:?}");
            assert!(
                warnings.iter().all(|warning| expected.is_some_and(|expected| warning.contains(expected))),
                "{text}: {warnings:?}"
            );
        }
    }
}
