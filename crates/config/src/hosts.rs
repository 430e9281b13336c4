//! Which providers race a model whose table lists no upstreams: the hosts of that model in the catalogue that are on.
//!
//! Not for upstreams that the file lists: see `resolve`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::problem::{LocatedProblem, shown};
use super::provider::ResolvedNames;
use super::reader::{Located, ReaderScope};
use super::settings::{HostLimits, Precisions};
use super::{Keys, ModelConfig, Provider, RaceSettings, Timeouts, UpstreamConfig, User, catalogue};
use crate::offerings::{CataloguedModel, ModelCatalogue, Offering, OfferingStatus};
use photofinish_base::clock::wall_micros;

/// Direct hosts that make routers unnecessary: a router adds a hop and hosts the same model at one of them.
const DIRECT_HOSTS: usize = 2;
/// Hosts that a message names.
const HOSTS_SHOWN: usize = 4;

/// A provider that hosts the model, and what it says of it.
type ModelHost = (Arc<Provider>, Arc<Offering>);

/// Who may host a model in this configuration.
pub(super) struct Hosting<'c> {
    pub catalogue: &'c ModelCatalogue,
    pub providers: &'c ResolvedNames,
    pub users: &'c [Arc<User>],
    /// `2026-11-22`; an offering that has ended by then is left out.
    pub today: String,
}

/// The present day, UTC.
#[cfg(not(test))]
pub fn today() -> String {
    day_at(wall_micros())
}

/// The day on which the built-in catalogue was made: what the tests say of its models stays true when a vendor retires one.
#[cfg(test)]
pub fn today() -> String {
    ModelCatalogue::built_in_date().to_owned()
}

/// The day after it.
pub fn tomorrow() -> String {
    day_at(wall_micros() + 86_400_000_000)
}

fn day_at(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

impl Hosting<'_> {
    /// The ids that say who serves them, of providers that are on: each is a model of its own, with that one upstream.
    pub fn regional(&self, race: &RaceSettings) -> BTreeMap<String, Arc<ModelConfig>> {
        let offered = self.catalogue.offerings().filter(|offering| offering.names_its_host() && !offering.embedding);
        let served = offered.filter_map(|offering| {
            let is_served =
                |provider: &&Arc<Provider>| !offering.is_retired(&self.today) && is_in_reach(offering, provider);
            let provider = self.on(&offering.provider).filter(is_served)?;
            let upstream =
                UpstreamConfig::of_catalogue(provider.clone(), offering.id.clone(), self.catalogue, race.timeouts);
            let (name, hosts, shadow) = (offering.id.clone(), Some(HostLimits::default()), None);
            let model =
                ModelConfig { name: name.clone(), upstreams: vec![upstream], hosts, race: race.clone(), shadow };
            Some((name, Arc::new(model)))
        });
        served.collect()
    }

    /// Whether an id of the catalogue names a model here: not one of a cloud that is off.
    pub fn is_named_by(&self, id: &str) -> bool {
        let mut clouds = catalogue::CLOUDS.iter().filter(|cloud| self.catalogue.offering(cloud, id).is_some());
        clouds.all(|cloud| self.on(cloud).is_some())
    }

    /// Every model that a provider hosts that is on.
    pub fn every_model(&self, race: &RaceSettings) -> BTreeMap<String, Arc<ModelConfig>> {
        let with_hosts = |(name, model): (&str, &CataloguedModel)| {
            let upstreams = self.upstreams(model, &HostLimits::default(), race.timeouts);
            let name = name.to_owned();
            (!upstreams.is_empty()).then(|| {
                (
                    name.clone(),
                    Arc::new(ModelConfig {
                        name,
                        upstreams,
                        hosts: Some(HostLimits::default()),
                        race: race.clone(),
                        shadow: None,
                    }),
                )
            })
        };
        self.catalogue.models().filter_map(with_hosts).collect()
    }

    /// The upstreams of a model whose table lists none.
    pub fn of_table(
        &self,
        scope: &ReaderScope<'_>,
        name: &Located<String>,
        limits: &HostLimits,
        timeouts: Timeouts,
    ) -> Vec<UpstreamConfig> {
        let title = shown(&name.value);
        let Some(model) = self.catalogue.model(&name.value) else {
            let message = format!("[models.{title}] has no \"upstreams\", and the catalogue has no model of this name");
            let problem = LocatedProblem::at(name.offset, message)
                .expected("a list such as [\"groq/openai/gpt-oss-120b\"], or a name that `photofinish models` lists");
            scope.report(problem.nearest(&name.value, self.catalogue.models().map(|(name, _)| name)));
            return Vec::new();
        };
        for excluded in &limits.exclude {
            let known = || catalogue::entries().map(|entry| entry.name.as_str());
            if !self.providers.contains_key(excluded) && catalogue::find(excluded).is_none() {
                let message = format!("unknown provider \"{}\" in exclude of [models.{title}]", shown(excluded));
                let problem = LocatedProblem::at(name.offset, message).expected("a provider that hosts the model");
                scope.report(problem.nearest(excluded, self.providers.keys().map(String::as_str).chain(known())));
            } else if !model.hosts.iter().any(|host| host.provider == *excluded) {
                scope.warn(format!("model {title}: {excluded} is excluded and does not host it"));
            }
        }
        let upstreams = self.upstreams(model, limits, timeouts);
        if upstreams.is_empty() {
            scope.warn(format!("model {title}: no provider that is on may serve it; {}", who_hosts(model)));
        }
        upstreams
    }

    pub fn upstreams(&self, model: &CataloguedModel, limits: &HostLimits, timeouts: Timeouts) -> Vec<UpstreamConfig> {
        let upstream = |(provider, offering): ModelHost| {
            UpstreamConfig::of_catalogue(provider, offering.id.clone(), self.catalogue, timeouts)
        };
        self.hosts(model, limits).into_iter().map(upstream).collect()
    }

    /// The hosts of the model, the cheapest first, each provider once.
    fn hosts(&self, model: &CataloguedModel, limits: &HostLimits) -> Vec<ModelHost> {
        let mut hosts = BTreeMap::<&str, ModelHost>::new();
        let variants = if limits.precision == Precisions::Native { &[][..] } else { &model.variants };
        for offering in model.hosts.iter().chain(variants) {
            let takes = |provider: &&Arc<Provider>| {
                !limits.exclude.contains(&provider.name)
                    && !offering.embedding
                    && !offering.is_retired(&self.today)
                    && limits.precision.take(offering, model.released_bits)
                    && is_in_reach(offering, provider)
                    && offering.dialect.as_deref().is_none_or(|only| provider.speaks(only))
            };
            let Some(provider) = self.on(&offering.provider).filter(takes) else { continue };
            let is_better = |(_, other): &ModelHost| within_provider(offering, other).is_lt();
            if hosts.get(offering.provider.as_str()).is_none_or(is_better) {
                hosts.insert(&offering.provider, (provider.clone(), offering.clone()));
            }
        }
        let mut hosts: Vec<ModelHost> = hosts.into_values().collect();
        let is_direct = |(provider, _): &ModelHost| catalogue::find(&provider.name).is_none_or(|entry| !entry.router);
        if hosts.iter().filter(|host| is_direct(host)).count() >= DIRECT_HOSTS {
            hosts.retain(is_direct);
        }
        hosts.sort_by(|(_, one), (_, other)| compare(one, other));
        keep_cheap(&mut hosts, limits.price_within);
        hosts
    }

    /// The provider, if some caller can use it once the gateway runs.
    fn on(&self, name: &str) -> Option<&Arc<Provider>> {
        let provider = self.providers.get(name)?.as_ref().filter(|provider| provider.simulate.is_none())?;
        let by_user = || self.users.iter().any(|user| user.keys.contains_key(name));
        let is_on = match provider.keys {
            Keys::Keys(_) | Keys::Token(_) => true,
            Keys::NotConfigured | Keys::Off(_) => by_user(),
        };
        is_on.then_some(provider)
    }
}

/// Which providers serve a model, with the variables of their keys: a whole clause.
pub(super) fn who_hosts(model: &CataloguedModel) -> String {
    let today = today();
    let live = model.hosts.iter().filter(|host| !host.is_retired(&today));
    let mut providers: Vec<&str> = live.map(|host| host.provider.as_str()).collect();
    providers.dedup();
    if providers.is_empty() {
        return "every provider has retired it".to_owned();
    }
    let named = |name: &&str| match catalogue::find(name).and_then(|entry| entry.key_variable.as_deref()) {
        Some(variable) => format!("{name} ({variable})"),
        None => (*name).to_owned(),
    };
    let listed: Vec<String> = providers.iter().take(HOSTS_SHOWN).map(named).collect();
    let more = providers.len().saturating_sub(HOSTS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more} serve it", listed.join(", "))
}

/// Of several ids of one model at one provider: that of the caller's region, because newer models have no other; the one that
/// has the name of the model; the cheapest.
fn within_provider(one: &Offering, other: &Offering) -> Ordering {
    let anywhere = |offering: &Offering| match offering.region.as_deref() {
        None => 2,
        Some("global") => 1,
        Some(_) => 0,
    };
    let is_other = |offering: &Offering| offering.model.as_deref() != Some(&*offering.id);
    anywhere(one).cmp(&anywhere(other)).then(is_other(one).cmp(&is_other(other))).then(compare(one, other))
}

/// Offerings that are deprecated or a preview come last; then the cheapest first. An unknown price counts as the dearest.
fn compare(one: &Offering, other: &Offering) -> Ordering {
    let goes = |offering: &Offering| matches!(offering.status, OfferingStatus::Deprecated | OfferingStatus::Preview);
    let price = |offering: &Offering| offering.blended_price().unwrap_or(f64::INFINITY);
    goes(one).cmp(&goes(other)).then(price(one).total_cmp(&price(other))).then(one.id.cmp(&other.id))
}

/// Keeps the hosts within this many times the cheapest price. A host without a price is as dear as the dearest.
fn keep_cheap(hosts: &mut Vec<ModelHost>, within: Option<f64>) {
    let Some(within) = within else { return };
    let prices: Vec<f64> = hosts.iter().filter_map(|(_, offering)| offering.blended_price()).collect();
    let (Some(cheapest), Some(dearest)) =
        (prices.iter().copied().reduce(f64::min), prices.iter().copied().reduce(f64::max))
    else {
        return;
    };
    hosts.retain(|(_, offering)| offering.blended_price().unwrap_or(dearest) <= cheapest * within);
}

/// Countries of Asia and the Pacific with ids of their own, and their regions of AWS.
const COUNTRIES: [(&str, &[&str]); 3] = [
    ("jp", &["ap-northeast-1", "ap-northeast-3"]),
    ("au", &["ap-southeast-2", "ap-southeast-4"]),
    ("in", &["ap-south-1", "ap-south-2"]),
];

/// Some ids only work from a part of the world; the region of AWS says where the caller is.
fn is_in_reach(offering: &Offering, provider: &Provider) -> bool {
    let Some(region) = offering.region.as_deref() else { return true };
    let Some(own) = provider.region() else { return region == "global" };
    match COUNTRIES.iter().find(|(country, _)| *country == region) {
        Some((_, regions)) => regions.contains(&own),
        None if region == "apac" => own.starts_with("ap-"),
        None => region == "global" || own.split_once('-').is_some_and(|(continent, _)| continent == region),
    }
}
