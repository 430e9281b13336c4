//! The models and upstreams of an answer. Not for their figures.

use std::collections::BTreeMap;

use crate::health::{LiveConfig, named};
use photofinish_config::config::{RaceSettings, UpstreamConfig};

/// A model under a requested name.
pub(super) struct RequestedModel<'a> {
    pub(super) name: String,
    pub(super) alias_of: Option<String>,
    /// The model whose budget pays; empty where upstreams are named.
    pub(super) paid_by: String,
    pub(super) upstreams: Vec<UpstreamConfig>,
    pub(super) settings: &'a RaceSettings,
}

impl<'a> RequestedModel<'a> {
    pub(super) fn new(live: &'a LiveConfig, name: &str) -> Result<RequestedModel<'a>, String> {
        let config = &live.config;
        if let Some(model) = config.model(name) {
            let alias_of = (model.name != name).then(|| model.name.clone());
            let upstreams = model.upstreams.clone();
            let paid_by = model.name.clone();
            return Ok(RequestedModel { name: name.to_owned(), alias_of, paid_by, upstreams, settings: &model.race });
        }
        let upstreams = named(live, None, name, &config.race)?;
        Ok(RequestedModel {
            name: name.to_owned(),
            alias_of: None,
            paid_by: String::new(),
            upstreams,
            settings: &config.race,
        })
    }
}

/// The models. An alias is its model by another name.
pub(super) fn all(live: &LiveConfig) -> Vec<RequestedModel<'_>> {
    live.config.models.keys().filter_map(|name| RequestedModel::new(live, name).ok()).collect()
}

/// An upstream with the models that list it, and the settings of the first of them.
pub(super) struct ListedUpstream<'a> {
    pub(super) place: usize,
    pub(super) upstream: &'a UpstreamConfig,
    pub(super) settings: &'a RaceSettings,
    pub(super) models: Vec<String>,
}

/// The key is `provider/model`.
pub(super) struct ListedUpstreams<'a>(BTreeMap<String, ListedUpstream<'a>>);

impl<'a> ListedUpstreams<'a> {
    pub(super) fn new(asked: &'a [RequestedModel<'a>]) -> ListedUpstreams<'a> {
        let mut listed: BTreeMap<String, ListedUpstream<'a>> = BTreeMap::new();
        for asked in asked {
            for upstream in &asked.upstreams {
                let place = listed.len();
                let first = || ListedUpstream { place, upstream, settings: asked.settings, models: Vec::new() };
                listed.entry(upstream.name()).or_insert_with(first).models.push(asked.name.clone());
            }
        }
        ListedUpstreams(listed)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = (&str, &ListedUpstream<'a>)> {
        let mut all: Vec<(&str, &ListedUpstream<'a>)> =
            self.0.iter().map(|(name, listing)| (name.as_str(), listing)).collect();
        all.sort_by_key(|(_, listing)| listing.place);
        all.into_iter()
    }
}
