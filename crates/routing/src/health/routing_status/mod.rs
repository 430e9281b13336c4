//! The status of every upstream, and why a plan would begin with it or not: `GET /api/routing`. Read-only. Not used by races.

mod listing;
mod ranking;
mod report;
mod view;

pub use report::{BreakerReport, CostUnit, ModelReport, PredictionReport, RoutingReport, StatusReason, UpstreamReport};
pub use view::SIZES;

use std::cmp::Reverse;

use super::{LiveConfig, UpstreamHealth, named};
use listing::{ListedUpstream, ListedUpstreams, RequestedModel, all};
use view::StatusView;

/// Upstreams in one answer.
const UPSTREAMS_MAX: usize = 1_000;
/// Models in one answer, aliases included.
const MODELS_MAX: usize = 1_000;

/// The whole status, or that of one `model`: a name, an alias, or upstreams separated by commas.
///
/// # Errors
/// The reason why the model is unknown.
pub fn routing(health: &UpstreamHealth, live: &LiveConfig, model: Option<&str>) -> Result<RoutingReport, String> {
    let mut asked = match model {
        Some(model) => vec![RequestedModel::new(live, model)?],
        None => all(live),
    };
    let models_beyond = asked.len().saturating_sub(MODELS_MAX);
    asked.truncate(MODELS_MAX);
    let view = StatusView::new(health, live);
    let models = asked.iter().map(|asked| view.model(asked)).collect();
    let listed = ListedUpstreams::new(&asked);
    let mut upstreams: Vec<UpstreamReport> =
        listed.in_order().map(|(name, listing)| view.upstream(name, listing)).collect();
    if model.is_none() {
        upstreams.extend(others(&view, live, &listed));
    }
    let left_out = models_beyond + upstreams.len().saturating_sub(UPSTREAMS_MAX);
    upstreams.truncate(UPSTREAMS_MAX);
    Ok(RoutingReport { now_us: view.now_us(), upstreams, models, left_out })
}

/// Upstreams that callers named and can still name, most recently used first.
fn others(view: &StatusView<'_>, live: &LiveConfig, listed: &ListedUpstreams<'_>) -> Vec<UpstreamReport> {
    let settings = &live.config.race;
    let mut names: Vec<(Option<i64>, &str)> = view.known().filter(|(_, name)| !listed.has(name)).collect();
    names.sort_by_key(|(last_us, name)| (Reverse(*last_us), *name));
    let told = |(_, name): (Option<i64>, &str)| {
        let upstream = named(live, None, name, settings).ok()?.into_iter().next()?;
        Some(view.upstream(name, &ListedUpstream { place: 0, upstream: &upstream, settings, models: Vec::new() }))
    };
    names.into_iter().filter_map(told).collect()
}
