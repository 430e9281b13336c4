//! Look-ups in a [`Config`]. Not for reading it: see `load`.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Span;
use jiff::civil::Date;

use super::catalogue::{self, CatalogueEntry};
use super::catalogue_file::catalogue_file;
use super::problem::{nearest, nearest_models};
use super::{Config, ConfigSource, Keys, ModelConfig, Provider, UpstreamConfig, hosts};
use crate::offerings::Offering;
use photofinish_base::printable::quoted;

/// Days after which the catalogue is old: of prices five months old, one in eleven was wrong.
const OLD_AFTER_DAYS: i32 = 60;

impl Config {
    /// Where a newer catalogue is kept: next to the store.
    pub fn catalogue_file(&self) -> PathBuf {
        catalogue_file(self.store.address.local_file())
    }

    /// A warning if the catalogue is old on this day, such as `2026-11-22`.
    pub fn old_catalogue(&self, today: &str) -> Option<String> {
        let (date, today): (Date, Date) = (self.catalogue.date().parse().ok()?, today.parse().ok()?);
        let days = date.until(today).unwrap_or_else(|_| Span::new()).get_days();
        (days > OLD_AFTER_DAYS).then(|| {
            format!(
                "the catalogue of models is {days} days old ({date}, {}): prices and limits may have changed; \
                 `photofinish models update` or a newer version brings new ones",
                self.catalogue_place
            )
        })
    }

    /// The model with this name or alias.
    pub fn model(&self, name: &str) -> Option<&Arc<ModelConfig>> {
        let named = |name: &str| self.models.get(name).or_else(|| self.models.get(self.aliases.get(name)?));
        // Ollama's clients add this tag to a name without one.
        named(name).or_else(|| named(name.strip_suffix(":latest")?))
    }

    /// The names under which limits know this upstream: those of the model that lists it, if that is the one which is asked for.
    pub fn names_of<'c>(
        &'c self,
        asked: Option<&'c Arc<ModelConfig>>,
        upstream: &UpstreamConfig,
    ) -> impl Iterator<Item = &'c str> + Clone + use<'c> {
        let is_same =
            |listed: &UpstreamConfig| listed.model == upstream.model && listed.provider.name == upstream.provider.name;
        let model = asked.filter(|model| model.upstreams.iter().any(is_same)).map(|model| model.name.as_str());
        let aliases = self.aliases.iter().filter(move |(_, of)| Some(of.as_str()) == model);
        model.into_iter().chain(aliases.map(|(alias, _)| alias.as_str()))
    }

    /// The price of this upstream, `provider/model`, of a model. None: there is no such one, or it has no price.
    pub fn price_of(&self, model: &str, upstream: &str) -> Option<super::Price> {
        self.model(model)?.upstreams.iter().find(|one| one.name() == upstream)?.price
    }

    /// The usable models and aliases most like `name`, at most three, the best first.
    pub fn nearest_models(&self, name: &str) -> Vec<String> {
        let names = self.models.keys().chain(self.aliases.keys()).map(String::as_str);
        nearest_models(name, names.filter(|name| self.model(name).is_some_and(|model| self.upstreams_on(model) > 0)), 3)
    }

    /// The models of the catalogue most like `name`, served or not, at most three.
    pub fn nearest_catalogued(&self, name: &str) -> Vec<String> {
        nearest_models(name, self.catalogue.models().map(|(name, _)| name), 3)
    }

    /// Why a model of the catalogue is not served, or has no host, as the end of a sentence; and who would serve it. None: the
    /// catalogue has no such model, and none with nearly its name.
    pub fn why_not_served(&self, name: &str) -> Option<String> {
        if let Some(model) = self.catalogue.model(name) {
            let hosts = hosts::who_hosts(model);
            return Some(if self.models.contains_key(name) {
                format!("no provider that is on may serve it: {hosts}")
            } else if self.serves_catalogue {
                format!("no provider that hosts it is on: {hosts}")
            } else {
                format!("the configuration has other [models]; a table [models.{name:?}] would add it: {hosts}")
            });
        }
        let nearest = self.nearest_catalogued(name);
        let nearest = nearest.first().filter(|nearest| !self.models.contains_key(*nearest))?;
        Some(format!("the catalogue has {nearest}: {}", hosts::who_hosts(self.catalogue.model(nearest)?)))
    }

    /// The key that would make the most of the models with one upstream raceable, and how many.
    pub fn most_useful_key(&self) -> Option<(&'static str, usize)> {
        let alone = || self.models.values().filter(|model| model.upstreams.len() == 1);
        let today = hosts::today();
        let gain = |entry: &'static CatalogueEntry| {
            let hosts = |model: &&Arc<ModelConfig>| {
                let known = self.catalogue.model(&model.name);
                let live = |host: &Arc<Offering>| host.provider == entry.name && !host.is_retired(&today);
                known.is_some_and(|known| known.hosts.iter().any(live))
            };
            Some((entry.key_variable.as_deref()?, alone().filter(hosts).count()))
        };
        let off = catalogue::entries()
            .filter(|entry| !entry.router && !entry.only_if_named && entry.has_address(&|_| None))
            .filter(|entry| !self.providers.contains_key(&entry.name));
        off.filter_map(gain).filter(|(_, gained)| *gained > 0).max_by_key(|(_, gained)| *gained)
    }

    /// How many models have two upstreams or more that some caller can use.
    pub fn raceable(&self) -> usize {
        self.models.values().filter(|model| self.upstreams_on(model) > 1).count()
    }

    /// Why there is no provider of this name, as the end of a sentence, with a way out.
    pub fn why_no_provider(&self, name: &str) -> String {
        match catalogue::find(name) {
            Some(entry) => match (entry.key_variable.as_deref(), entry.address_variable()) {
                (Some(key), Some(address)) => {
                    format!(
                        "the provider {name} needs a key in {key} and its address in {address}, or a table [providers.{name}]"
                    )
                }
                (Some(key), None) if !entry.only_if_named && entry.has_address(&|_| None) => {
                    format!("the provider {name} needs a key in {key}, or a table [providers.{name}]")
                }
                _ => format!("the provider {name} needs a table [providers.{name}]"),
            },
            None => {
                let known = catalogue::entries().map(|entry| entry.name.as_str());
                let nearest = nearest(name, self.providers.keys().map(String::as_str).chain(known), 1);
                let hint = nearest.first().map_or(String::new(), |nearest| format!(" (did you mean {nearest}?)"));
                format!("there is no provider {} in the configuration{hint}", quoted(name))
            }
        }
    }

    /// Whether a key that a caller sends to it pays: it, or a user, has one here. Elsewhere it is not checked.
    pub fn takes_keys(&self, provider: &str) -> bool {
        let configured =
            self.providers.get(provider).is_some_and(|provider| !matches!(provider.keys, Keys::NotConfigured));
        configured || self.users.iter().any(|user| user.keys.contains_key(provider))
    }

    /// Some caller can use the provider without sending a key: it is on, or a user has a key for it.
    pub fn provider_is_on(&self, provider: &Provider) -> bool {
        provider.is_on() || self.users.iter().any(|user| user.keys.contains_key(&provider.name))
    }

    /// There is no file, and no provider has a key.
    pub fn is_without_keys(&self) -> bool {
        matches!(self.source, ConfigSource::BuiltIn(_)) && self.providers.is_empty()
    }

    /// Upstreams of a model that some caller can use once the gateway runs. A provider with a token counts.
    pub fn upstreams_on(&self, model: &ModelConfig) -> usize {
        let will_be = |provider: &Provider| matches!(provider.keys, Keys::Token(_)) || self.provider_is_on(provider);
        model.upstreams.iter().filter(|upstream| will_be(&upstream.provider)).count()
    }

    /// The same in words: `1 of 2 upstreams on`.
    pub fn upstreams_on_text(&self, model: &ModelConfig) -> String {
        match self.upstreams_on(model) {
            0 => "off: none of its providers is on".to_owned(),
            on => format!("{on} of {} upstreams on", model.upstreams.len()),
        }
    }
}
