//! Which models and upstreams an answer is about. Not for what is said of them.

use std::collections::BTreeMap;

use crate::config::{RaceSettings, Upstream};
use crate::health::{Live, named};

/// A model as it is asked for.
pub(super) struct Asked<'a> {
    pub(super) name: String,
    pub(super) alias_of: Option<String>,
    /// The model whose budget pays; empty where upstreams are named.
    pub(super) paid_by: String,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) settings: &'a RaceSettings,
}

impl<'a> Asked<'a> {
    pub(super) fn new(live: &'a Live, name: &str) -> Result<Asked<'a>, String> {
        let config = &live.config;
        if let Some(model) = config.model(name) {
            let alias_of = (model.name != name).then(|| model.name.clone());
            let upstreams = model.upstreams.clone();
            let paid_by = model.name.clone();
            return Ok(Asked { name: name.to_owned(), alias_of, paid_by, upstreams, settings: &model.race });
        }
        let upstreams = named(live, None, name, &config.race)?;
        Ok(Asked { name: name.to_owned(), alias_of: None, paid_by: String::new(), upstreams, settings: &config.race })
    }
}

/// The models. An alias is its model by another name.
pub(super) fn all(live: &Live) -> Vec<Asked<'_>> {
    live.config.models.keys().filter_map(|name| Asked::new(live, name).ok()).collect()
}

/// An upstream as it is listed: by whom, and with the settings of the first of them.
pub(super) struct Listing<'a> {
    pub(super) place: usize,
    pub(super) upstream: &'a Upstream,
    pub(super) settings: &'a RaceSettings,
    pub(super) models: Vec<String>,
}

/// By `provider/model`.
pub(super) struct Listed<'a>(BTreeMap<String, Listing<'a>>);

impl<'a> Listed<'a> {
    pub(super) fn new(asked: &'a [Asked<'a>]) -> Listed<'a> {
        let mut listed: BTreeMap<String, Listing<'a>> = BTreeMap::new();
        for asked in asked {
            for upstream in &asked.upstreams {
                let place = listed.len();
                let first = || Listing { place, upstream, settings: asked.settings, models: Vec::new() };
                listed.entry(upstream.name()).or_insert_with(first).models.push(asked.name.clone());
            }
        }
        Listed(listed)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = (&str, &Listing<'a>)> {
        let mut all: Vec<(&str, &Listing<'a>)> =
            self.0.iter().map(|(name, listing)| (name.as_str(), listing)).collect();
        all.sort_by_key(|(_, listing)| listing.place);
        all.into_iter()
    }
}
