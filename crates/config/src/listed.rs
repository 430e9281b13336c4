//! What providers list now, and what that changes: a model that is gone from its provider's list becomes the last choice, one that the
//! catalogue does not know yet is served by name, and so are the models of local servers.
//!
//! Not for asking: see `app::discovery`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hosts::today;
use super::settings::HostLimits;
use super::{Config, ModelConfig, Provider, UpstreamConfig, catalogue};
use crate::offerings::{ModelCatalogue, Offering, undated};

/// Models of one server that are served by name because it lists them. Others are usable as `provider/id`.
const SERVED_MAX: usize = 1_000;

/// The list of each provider that was read, by the provider's name.
pub type ProviderLists = BTreeMap<String, Arc<ProviderList>>;

/// The ids that a provider listed; at least one.
#[derive(Debug)]
pub struct ProviderList {
    /// Each id in lower case, because some providers write it differently in their documentation, and as the provider lists it.
    ids: BTreeSet<(String, String)>,
    /// When it was read: `2026-11-22 06:30 UTC`.
    at: Arc<str>,
}

/// The upstreams of one provider that its list lacks, as `provider/model`, each with the name of its model.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnlistedUpstreams {
    /// Found in the catalogue: they become the last choice.
    pub found: Vec<(String, String)>,
    /// The user named them, and may know a name that no list has: they stay.
    pub named: Vec<(String, String)>,
}

impl ProviderList {
    pub fn new(ids: Vec<String>, at: &str) -> ProviderList {
        ProviderList { ids: ids.into_iter().map(|id| (id.to_lowercase(), id)).collect(), at: at.into() }
    }

    /// The ids as the provider writes them.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.ids.iter().map(|(_, id)| id.as_str())
    }

    /// Whether it has this id, the id with a date, or, in the catalogue, another id of the same model.
    pub fn has(&self, catalogue: &ModelCatalogue, provider: &str, id: &str) -> bool {
        let folded = id.to_lowercase();
        let stem = folded.strip_suffix("-latest").unwrap_or(&folded);
        let from = (stem.to_owned(), String::new());
        let mut alike = self.ids.range(from..).map_while(|(listed, _)| listed.strip_prefix(stem));
        let model = |id: &str| catalogue.offering(provider, id).and_then(|offering| offering.model.as_deref());
        alike.any(is_version) || model(id).is_some_and(|wanted| self.ids().any(|listed| model(listed) == Some(wanted)))
    }
}

/// The name of a model in an id: without its maker and the date of a snapshot.
fn bare(id: &str) -> &str {
    let name = id.rsplit('/').next().unwrap_or(id);
    undated(name).unwrap_or(name)
}

/// Whether this end of an id only says which version it is: empty, `-20251101`, `-2026-04-23`, `-0613`, `-001`, `-04-17`,
/// `@20251101`, `-latest` or `:latest`.
fn is_version(end: &str) -> bool {
    if matches!(end, "" | "-latest" | ":latest") {
        return true;
    }
    let Some(version) = end.strip_prefix(['-', '@']) else { return false };
    let shape: String = version.chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    matches!(shape.as_str(), "dddddddd" | "dddd-dd-dd" | "dddd" | "ddd" | "dd-dd" | "dd-dddd")
}

impl Provider {
    /// Every model that it lists is served by name: a local server, or one that only the file knows.
    pub fn serves_its_list(&self) -> bool {
        catalogue::find(&self.vendor).is_none_or(|entry| entry.key_variable.is_none())
    }
}

impl Config {
    /// This configuration with what providers list now. `self` is as it was read.
    pub fn with_lists(&self, lists: &ProviderLists) -> Config {
        let mut config = self.clone();
        for (name, list) in lists {
            let Some(provider) = self.providers.get(name) else { continue };
            if provider.serves_its_list() {
                list.ids().take(SERVED_MAX).for_each(|id| config.serve(self, provider, id));
            } else {
                config.leave_out_unlisted(provider, list);
            }
        }
        if self.serves_catalogue {
            config.serve_new(lists);
        }
        config
    }

    /// Serves models of hosted providers that the catalogue does not know, by their bare names. Nothing says that two providers mean the
    /// same by one name, so a name that several list stays `provider/id`, unless one of them has it as its whole id.
    fn serve_new(&mut self, lists: &ProviderLists) {
        let mut by_name: BTreeMap<&str, Vec<(&Arc<Provider>, &str)>> = BTreeMap::new();
        let providers = self.providers.clone();
        for (name, list) in lists {
            let Some(provider) = providers.get(name).filter(|provider| !provider.serves_its_list()) else { continue };
            for id in list.ids().filter(|id| self.is_new(provider, id)).take(SERVED_MAX) {
                by_name.entry(bare(id)).or_default().push((provider, id));
            }
        }
        for (name, mut offers) in by_name {
            if offers.iter().any(|(_, id)| !id.contains('/')) {
                offers.retain(|(_, id)| !id.contains('/'));
            }
            let origin = |(provider, id): &(&Arc<Provider>, &str)| {
                (provider.name.clone(), id.rsplit_once('/').map(|(maker, _)| maker.to_owned()))
            };
            let is_one = offers.iter().map(origin).collect::<BTreeSet<_>>().len() == 1;
            // The name without a date, or else the newest date.
            let newest = offers.into_iter().max_by_key(|(_, id)| (bare(id).len() == id.len(), *id));
            let Some((provider, id)) = newest.filter(|_| is_one && self.may_be_named(name)) else { continue };
            let race = self.race.clone();
            let upstream =
                UpstreamConfig::of_catalogue(provider.clone(), id.to_owned(), &self.catalogue, race.timeouts);
            let (upstreams, hosts) = (vec![upstream], Some(HostLimits::default()));
            let model = ModelConfig { name: name.to_owned(), upstreams, hosts, race, shadow: None };
            self.models.entry(name.to_owned()).or_insert_with(|| Arc::new(model));
            if id != name && !id.contains('/') && self.may_be_named(id) {
                self.aliases.entry(id.to_owned()).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// Whether nothing is known of this id, nor of a model of its name.
    fn is_new(&self, provider: &Provider, id: &str) -> bool {
        let known = |name: &str| self.catalogue.identity(name).is_some() || self.models.contains_key(name);
        let name = bare(id);
        let names = [id, name, id.rsplit('/').next().unwrap_or(id)];
        // A router names whose model it is, and a list knows better than the catalogue what has ended: what matters is who serves it.
        let is_router = catalogue::find(&provider.vendor).is_some_and(|entry| entry.router) && id.contains('/');
        let offering = self.catalogue.offering_or_undated(&provider.vendor, id);
        let has_ended = offering.is_some_and(|offering| offering.is_retired(&today()));
        if has_ended || is_router && offering.is_none() {
            let named = |name: &str| self.models.contains_key(name);
            let served = |name: &str| named(name) || self.catalogue.identity(name).is_some_and(named);
            return !name.is_empty() && !names.into_iter().any(served);
        }
        !name.is_empty() && offering.is_none() && !names.into_iter().any(known)
    }

    /// The upstreams of this provider that its list lacks.
    pub fn unlisted(&self, provider: &Provider, list: &ProviderList) -> UnlistedUpstreams {
        let mut unlisted = UnlistedUpstreams::default();
        for model in self.models.values() {
            let side = if model.hosts.is_some() { &mut unlisted.found } else { &mut unlisted.named };
            let of = |upstream: &&UpstreamConfig| upstream.provider.name == provider.name;
            let lacks = |upstream: &&UpstreamConfig| !list.has(&self.catalogue, &provider.vendor, &upstream.model);
            let gone = model.upstreams.iter().filter(of).filter(lacks);
            side.extend(gone.map(|upstream| (upstream.name(), model.name.clone())));
        }
        unlisted
    }

    fn leave_out_unlisted(&mut self, provider: &Provider, list: &ProviderList) {
        for (gone, model) in self.unlisted(provider, list).found {
            let upstreams = self.models.get_mut(&model).map(|model| &mut Arc::make_mut(model).upstreams);
            for upstream in upstreams.into_iter().flatten().filter(|upstream| upstream.name() == gone) {
                upstream.unlisted = Some(list.at.clone());
            }
        }
    }

    /// The provider's ids that are upstreams only because it lists them. `self` has the lists, `as_read` has none.
    pub fn served_by_list(&self, as_read: &Config, provider: &Provider) -> BTreeSet<String> {
        let ids = |model: &ModelConfig| -> BTreeSet<String> {
            let own = model.upstreams.iter().filter(|upstream| upstream.provider.name == provider.name);
            own.map(|upstream| upstream.model.clone()).collect()
        };
        let added = |model: &Arc<ModelConfig>| {
            let configured = as_read.models.get(&model.name).map_or_else(BTreeSet::new, |model| ids(model));
            ids(model).into_iter().filter(move |id| !configured.contains(id))
        };
        self.models.values().flat_map(added).collect()
    }

    /// Adds a model of a local server. It becomes a host of its model in the catalogue, if `may_join` allows that. Otherwise it
    /// is served by its id, unless the file gives that name to a model: the file's limits hold for that model, so the id is
    /// then usable as `provider/id` only.
    fn serve(&mut self, as_read: &Config, provider: &Arc<Provider>, id: &str) {
        let race = self.race.clone();
        let catalogue = self.catalogue.clone();
        let upstream = UpstreamConfig::of_catalogue(provider.clone(), id.to_owned(), &catalogue, race.timeouts);
        let known = catalogue.identity(id).filter(|name| self.may_join(name, provider));
        let name = known.unwrap_or(id);
        if known.is_none() && (as_read.models.contains_key(id) || !self.may_be_named(id)) {
            return;
        }
        let new = || ModelConfig {
            name: name.to_owned(),
            upstreams: Vec::new(),
            hosts: Some(HostLimits::default()),
            race,
            shadow: None,
        };
        let model = self.models.entry(name.to_owned()).or_insert_with(|| Arc::new(new()));
        if !model.upstreams.iter().any(|listed| listed.name() == upstream.name()) {
            let model = Arc::make_mut(model);
            let timeouts = model.race.timeouts;
            model.upstreams.push(UpstreamConfig { timeouts, ..upstream });
        }
        if name != id && !self.models.contains_key(id) && self.may_be_named(id) {
            self.aliases.entry(id.to_owned()).or_insert_with(|| name.to_owned());
        }
    }

    /// Whether this model of the catalogue may have the provider as a further host, whose precision is unknown.
    fn may_join(&self, name: &str, provider: &Provider) -> bool {
        let Some(known) = self.catalogue.model(name).filter(|known| !known.hosts.iter().any(|host| host.embedding))
        else {
            return false;
        };
        match self.models.get(name) {
            Some(model) => model.hosts.as_ref().is_some_and(|limits| {
                !limits.exclude.contains(&provider.name)
                    && limits.precision.take(&Offering::default(), known.released_bits)
            }),
            None => self.serves_catalogue && !self.aliases.contains_key(name),
        }
    }

    /// Whether a request for this id can only mean this model: an alias of the file and `provider/model` mean others.
    fn may_be_named(&self, id: &str) -> bool {
        let means_upstream = id.split_once('/').is_some_and(|(provider, _)| self.providers.contains_key(provider));
        !means_upstream && !self.aliases.contains_key(id)
    }
}

#[cfg(test)]
mod tests;
