//! How every upstream stands now, and why a plan would begin with it or not: gathered for people from what was learnt, the
//! breakers, the cool-downs and the ledgers. Changes nothing, and no race asks it.

mod fields;
mod ranking;
mod told;
mod view;

pub use fields::{MODEL, PREDICTED, REASON, UPSTREAM};
pub use told::{BreakerNow, CODES, ModelNow, Predicted, Reason, Routing, Unit, UpstreamNow};
pub use view::SIZES;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::field::named;
use super::gateway::{Gateway, Live};
use super::rejection::Rejection;
use crate::config::{RaceSettings, Upstream};
use view::View;

/// Upstreams in one answer.
const UPSTREAMS_MAX: usize = 1_000;
/// Models in one answer, aliases included.
const MODELS_MAX: usize = 1_000;

/// All of it, or what concerns one `model`: a name, an alias, or upstreams with commas between.
///
/// # Errors
/// 404 for an unknown model.
pub fn routing(gateway: &Gateway, model: Option<&str>) -> Result<Routing, Rejection> {
    let live = gateway.live();
    let mut asked = match model {
        Some(model) => vec![Asked::new(&live, model)?],
        None => all(&live),
    };
    let models_beyond = asked.len().saturating_sub(MODELS_MAX);
    asked.truncate(MODELS_MAX);
    let view = View::new(gateway, &live);
    let models = asked.iter().map(|asked| view.model(asked)).collect();
    let listed = Listed::new(&asked);
    let mut upstreams: Vec<UpstreamNow> =
        listed.in_order().map(|(name, listing)| view.upstream(name, listing)).collect();
    if model.is_none() {
        upstreams.extend(others(&view, &live, &listed));
    }
    let left_out = models_beyond + upstreams.len().saturating_sub(UPSTREAMS_MAX);
    upstreams.truncate(UPSTREAMS_MAX);
    Ok(Routing { now_us: view.now_us(), upstreams, models, left_out })
}

/// A model as it is asked for.
struct Asked<'a> {
    name: String,
    alias_of: Option<String>,
    /// The model whose budget pays; empty where upstreams are named.
    paid_by: String,
    upstreams: Vec<Upstream>,
    settings: &'a RaceSettings,
}

impl<'a> Asked<'a> {
    fn new(live: &'a Live, name: &str) -> Result<Asked<'a>, Rejection> {
        let config = &live.config;
        if let Some(model) = config.model(name) {
            let alias_of = (model.name != name).then(|| model.name.clone());
            let upstreams = model.upstreams.clone();
            let paid_by = model.name.clone();
            return Ok(Asked { name: name.to_owned(), alias_of, paid_by, upstreams, settings: &model.race });
        }
        let upstreams = named(live, None, name, &config.race)
            .map_err(|why| Rejection::unknown_model(name, &config.nearest_models(name), &why))?;
        Ok(Asked { name: name.to_owned(), alias_of: None, paid_by: String::new(), upstreams, settings: &config.race })
    }
}

/// The models. An alias is its model by another name.
fn all(live: &Live) -> Vec<Asked<'_>> {
    live.config.models.keys().filter_map(|name| Asked::new(live, name).ok()).collect()
}

/// An upstream as it is listed: by whom, and with the settings of the first of them.
struct Listing<'a> {
    place: usize,
    upstream: &'a Upstream,
    settings: &'a RaceSettings,
    models: Vec<String>,
}

/// By `provider/model`.
struct Listed<'a>(BTreeMap<String, Listing<'a>>);

impl<'a> Listed<'a> {
    fn new(asked: &'a [Asked<'a>]) -> Listed<'a> {
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

    fn in_order(&self) -> impl Iterator<Item = (&str, &Listing<'a>)> {
        let mut all: Vec<(&str, &Listing<'a>)> =
            self.0.iter().map(|(name, listing)| (name.as_str(), listing)).collect();
        all.sort_by_key(|(_, listing)| listing.place);
        all.into_iter()
    }
}

/// Upstreams that callers named themselves and that can still be named, those used last first.
fn others(view: &View<'_>, live: &Live, listed: &Listed<'_>) -> Vec<UpstreamNow> {
    let settings = &live.config.race;
    let mut names: Vec<(Option<i64>, &str)> = view.known().filter(|(_, name)| !listed.0.contains_key(*name)).collect();
    names.sort_by_key(|(last_us, name)| (Reverse(*last_us), *name));
    let told = |(_, name): (Option<i64>, &str)| {
        let upstream = named(live, None, name, settings).ok()?.into_iter().next()?;
        Some(view.upstream(name, &Listing { place: 0, upstream: &upstream, settings, models: Vec::new() }))
    };
    names.into_iter().filter_map(told).collect()
}
