//! What a run sends to: upstreams, models through their policies, or any server by its address. Not for the load: see `plan`.

use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::options::BenchOptions;
use photofinish_config::{
    self as config, BreakerSettings, Config, ModelConfig, Policy, Price, UpstreamConfig, UpstreamOrder, catalogue,
};
use photofinish_lab::bench::LoadTarget;

/// The name of a server of `--url` in rows, if the catalogue does not know its address: `url/MODEL`.
const URL_PROVIDER: &str = "url";

/// The targets of a run and the configuration that serves them.
pub struct BenchTargets {
    pub config: Config,
    pub targets: Vec<LoadTarget>,
    /// Of each target that is one upstream: that upstream.
    pub upstreams: Vec<Option<UpstreamConfig>>,
    /// The names of hosted providers among them: they cost money and have limits.
    pub hosted: Vec<String>,
    /// Upstreams without a known price among the hosted ones.
    pub unpriced: Vec<String>,
    /// Attempts that one request may run at once.
    pub attempts: usize,
}

/// The provider of the catalogue that has this address, so that its prices and peculiarities count.
fn provider_at(url: &str) -> &'static str {
    let url = url.trim_end_matches('/');
    // A server of one's own has no price.
    let mut hosted = catalogue::entries().filter(|entry| entry.key_variable.is_some());
    let known = hosted.find(|entry| entry.serves.iter().any(|served| served.base_url == url));
    known.map_or(URL_PROVIDER, |entry| &entry.name)
}

/// The configuration with a provider for the server of `--url`.
///
/// # Errors
/// In words, if the address, the dialect or the variable cannot be used.
pub fn with_url(config: Config, options: &BenchOptions) -> Result<Config, String> {
    let Some(url) = &options.url else { return Ok(config) };
    let text = |value: &str| format!("{:?}", value);
    let name = provider_at(url);
    let mut table = format!("[providers.{name}]\nbase_url = {}\n", text(url));
    if let Some(dialect) = &options.dialect {
        table += &format!("dialect = {}\n", text(dialect));
    }
    if let Some(variable) = &options.key_env {
        if std::env::var_os(variable).is_none_or(|value| value.is_empty()) {
            return Err(format!("--key-env: {variable} is not set"));
        }
        table += &format!("api_key = {}\n", text(&format!("${{{variable}}}")));
    }
    if let Some((input, output)) = options.price {
        for model in &options.model {
            let upstream = text(&format!("{name}/{model}"));
            let price = format!("input_price = {input}, output_price = {output}");
            table += &format!("[models.{upstream}]\nupstreams = [{{ upstream = {upstream}, {price} }}]\n");
        }
    }
    let env = |name: &str| std::env::var(name).ok();
    let read = config::parse(&table, Path::new("--url"), &env).map_err(|problems| problems.to_string())?;
    let Config { source, store, server, catalogue, .. } = config;
    Ok(Config { source, store, server, catalogue, ..read })
}

impl BenchTargets {
    /// # Errors
    /// In words, with the nearest name, if a target cannot be used.
    pub fn new(mut config: Config, options: &BenchOptions) -> Result<BenchTargets, String> {
        let mut targets = Vec::new();
        let mut used: Vec<UpstreamConfig> = Vec::new();
        let by_address = options.url.is_some();
        let mut upstreams = Vec::new();
        let named = options.targets.iter().cloned();
        let provider = options.url.as_deref().map_or(URL_PROVIDER, provider_at);
        let of_url = options.model.iter().filter(|_| by_address).map(|model| format!("{provider}/{model}"));
        let mut attempts = 1;
        for name in named.chain(of_url) {
            let upstream = upstream(&config, &name)?;
            targets.push(single(&name, &upstream)?);
            upstreams.push(Some(upstream.clone()));
            used.push(upstream);
        }
        for model in options.model.iter().filter(|_| !by_address) {
            let known = config.model(model).ok_or_else(|| no_model(&config, model))?.clone();
            let on: Vec<UpstreamConfig> =
                known.upstreams.iter().filter(|upstream| config.provider_is_on(&upstream.provider)).cloned().collect();
            if on.is_empty() {
                return Err(format!("no upstream of {model} is on; `photofinish check` says why"));
            }
            let policies = policies(&known, &options.policy)?;
            attempts = attempts.max(most_at_once(&known, &on, &policies));
            targets.extend(through_policies(model, &most_paid(&known, &on), &options.policy, &policies)?);
            used.extend(on);
        }
        if targets.is_empty() {
            return Err("name a target: PROVIDER/MODEL, --model NAME, or --url URL --model NAME".to_owned());
        }
        upstreams.resize(targets.len(), None);
        for (lane, target) in (0..).zip(&mut targets) {
            target.lane = lane;
        }
        let hosted = |upstream: &&UpstreamConfig| upstream.provider.is_hosted();
        let names = |upstreams: &mut dyn Iterator<Item = &UpstreamConfig>| {
            let mut names: Vec<String> = upstreams.map(UpstreamConfig::name).collect();
            names.dedup();
            names
        };
        let hosted_names = names(&mut used.iter().filter(hosted));
        let unpriced = names(&mut used.iter().filter(hosted).filter(|upstream| upstream.price.is_none()));
        // A benchmark of one upstream asks it whatever it answered before, and asks once.
        if options.model.is_empty() || by_address {
            config.race.breaker = BreakerSettings { failures: 0, ..config.race.breaker };
            config.race.retries = 0;
        }
        for upstream in upstreams.iter().flatten() {
            keep_as_listed(&mut config, upstream);
        }
        Ok(BenchTargets { config, targets, upstreams, hosted: hosted_names, unpriced, attempts })
    }
}

/// Makes the upstream a model of its own name. The gateway knows the price and the timeouts that a model's table gives it only if
/// the request is for a model.
fn keep_as_listed(config: &mut Config, upstream: &UpstreamConfig) {
    let name = upstream.name();
    let lists = |model: &&Arc<ModelConfig>| model.upstreams.iter().any(|listed| listed.name() == name);
    let Some(mut own) = config.models.values().find(lists).map(|model| ModelConfig::clone(model)) else { return };
    own.upstreams = vec![upstream.clone()];
    own.race = config.race.clone();
    own.name.clone_from(&name);
    config.models.insert(name, Arc::new(own));
}

fn upstream(config: &Config, name: &str) -> Result<UpstreamConfig, String> {
    let Some((provider, model)) =
        name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
    else {
        let hint =
            if config.model(name).is_some() { format!("; for the model use --model {name}") } else { String::new() };
        return Err(format!("expected PROVIDER/MODEL, not {name:?}{hint}"));
    };
    let listed = config.models.values().flat_map(|model| &model.upstreams).find(|upstream| upstream.name() == name);
    if let Some(upstream) = listed {
        return on(upstream.clone());
    }
    let Some(known) = config.providers.get(provider) else { return Err(config.why_no_provider(provider)) };
    on(UpstreamConfig::of_catalogue(known.clone(), model.to_owned(), &config.catalogue, config.race.timeouts))
}

fn on(upstream: UpstreamConfig) -> Result<UpstreamConfig, String> {
    match upstream.provider.why_off() {
        Some(why) => Err(format!("the provider {} is off: {why}", upstream.provider.name)),
        None => Ok(upstream),
    }
}

fn no_model(config: &Config, name: &str) -> String {
    let nearest = config.nearest_models(name);
    let hint = if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) };
    format!("there is no model {name:?} in the configuration{hint}")
}

fn header(name: &'static str, value: &str, headers: &mut HeaderMap) -> Result<(), String> {
    let value = HeaderValue::from_str(value).map_err(|_| format!("{value:?}: expected visible characters"))?;
    headers.insert(name, value);
    Ok(())
}

fn single(name: &str, upstream: &UpstreamConfig) -> Result<LoadTarget, String> {
    let mut headers = HeaderMap::new();
    header("x-photofinish-policy", Policy::Fallback.as_str(), &mut headers)?;
    let prices = vec![upstream.price];
    Ok(LoadTarget { name: name.to_owned(), model: name.to_owned(), headers, prices, lane: 0 })
}

/// Those that were asked for, or else the model's own.
fn policies(model: &ModelConfig, asked: &[String]) -> Result<Vec<Policy>, String> {
    let known = |policy: &String| {
        Policy::from_name(policy).ok_or_else(|| {
            let nearest = config::nearest(policy, Policy::ALL.iter().map(|known| known.as_str()), 1);
            let hint = nearest.first().map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
            format!("no policy {policy:?}{hint}")
        })
    };
    if asked.is_empty() { Ok(vec![model.race.policy]) } else { asked.iter().map(known).collect() }
}

/// Attempts that one request may run at once.
fn most_at_once(model: &ModelConfig, on: &[UpstreamConfig], policies: &[Policy]) -> usize {
    let at_once = |policy: &Policy| matches!(policy.order(), UpstreamOrder::AllAtOnce | UpstreamOrder::ByDelay);
    let one_by_one = |policy: &Policy| !at_once(policy) && !policy.spends_budget();
    if policies.iter().all(one_by_one) { 1 } else { on.len().min(model.race.max_attempts) }
}

/// The price of each attempt that one request may start: a retry may be billed as well as what it retries.
fn most_paid(model: &ModelConfig, on: &[UpstreamConfig]) -> Vec<Option<Price>> {
    let each = 1 + model.race.retries as usize;
    on.iter().flat_map(|upstream| std::iter::repeat_n(upstream.price, each)).collect()
}

fn through_policies(
    model: &str,
    prices: &[Option<Price>],
    asked: &[String],
    policies: &[Policy],
) -> Result<Vec<LoadTarget>, String> {
    let target =
        |name: String, headers| LoadTarget { name, model: model.to_owned(), headers, prices: prices.to_vec(), lane: 0 };
    if asked.is_empty() {
        return Ok(vec![target(format!("model {model}"), HeaderMap::new())]);
    }
    let with_policy = |policy: &Policy| {
        let mut headers = HeaderMap::new();
        header("x-photofinish-policy", policy.as_str(), &mut headers)?;
        Ok(target(format!("model {model}, {}", policy.as_str()), headers))
    };
    policies.iter().map(with_policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::options::typed;

    fn targets(arguments: &[&str]) -> Result<BenchTargets, String> {
        let config = r#"
            [providers.near]
            base_url = "http://10.0.0.7:8000/v1"
            [providers.far]
            base_url = "https://api.example.com/v1"
            [providers.off]
            base_url = "https://api.example.com/v1"
            api_key = "${NO_SUCH_KEY}"
            [models.m]
            upstreams = ["near/x", "far/y"]
            [models.patient]
            retries = 2
            upstreams = [{ upstream = "far/y", input_price = 1.0, output_price = 2.0 }, "near/x"]
        "#;
        let config = config::parse(config, Path::new("test"), &|_| None).map_err(|problems| problems.to_string())?;
        let options = typed(arguments)?;
        let config = with_url(config, &options)?;
        BenchTargets::new(config, &options)
    }

    #[test]
    fn targets_are_upstreams_models_and_servers() {
        let names = |arguments: &[&str]| -> Vec<String> {
            targets(arguments)
                .unwrap_or_else(|why| panic!("{why}"))
                .targets
                .into_iter()
                .map(|target| target.name)
                .collect()
        };
        assert_eq!(names(&["near/x", "far/y"]), ["near/x", "far/y"]);
        assert_eq!(names(&["--model", "m"]), ["model m"]);
        assert_eq!(
            names(&["--model", "m", "--policy", "race", "--policy", "hedge"]),
            ["model m, race", "model m, hedge"]
        );
        assert_eq!(names(&["--url", "http://127.0.0.1:8000/v1", "--model", "q"]), ["url/q"]);
    }

    #[test]
    fn hosted_providers_are_known_by_their_address() {
        assert!(targets(&["near/x"]).unwrap().hosted.is_empty());
        let far = targets(&["far/y"]).unwrap();
        assert_eq!((far.hosted, far.unpriced), (vec!["far/y".to_owned()], vec!["far/y".to_owned()]));
        assert!(targets(&["--url", "http://localhost:8000/v1", "--model", "q"]).unwrap().hosted.is_empty());
    }

    #[test]
    fn a_hosted_server_has_the_price_of_the_catalogue_or_a_given_one() {
        let found = |arguments: &[&str]| {
            let found = targets(arguments).unwrap_or_else(|why| panic!("{why}"));
            (
                found.targets[0].name.clone(),
                found.targets[0].prices[0].map(|price| (price.input, price.output)),
                found.unpriced,
            )
        };
        let openai = ["--url", "https://api.openai.com/v1/", "--model", "gpt-4o"];
        let (name, price, unpriced) = found(&openai);
        assert_eq!((name.as_str(), unpriced.as_slice()), ("openai/gpt-4o", [].as_slice()));
        assert!(price.is_some());
        assert_eq!(found(&[&openai[..], &["--price", "0.5/7"]].concat()).1, Some((0.5, 7.0)));
        let other = ["--url", "https://api.example.com/v1", "--model", "vendor/q"];
        assert_eq!(found(&other), ("url/vendor/q".to_owned(), None, vec!["url/vendor/q".to_owned()]));
        let (_, price, unpriced) = found(&[&other[..], &["--price", "1/2"]].concat());
        assert_eq!((price, unpriced), (Some((1.0, 2.0)), Vec::new()));
        // A server of one's own at an address that the catalogue knows keeps its name.
        assert_eq!(found(&["--url", "http://127.0.0.1:8000/v1", "--model", "q"]).0, "url/q");
        for wrong in ["1", "1/x", "-1/2", "1/inf"] {
            assert!(targets(&[&other[..], &[&format!("--price={wrong}")]].concat()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_runs_as_many_attempts_at_once_as_its_policy_may() {
        let attempts = |arguments: &[&str]| targets(arguments).unwrap_or_else(|why| panic!("{why}")).attempts;
        assert_eq!(attempts(&["near/x", "far/y"]), 1);
        assert_eq!(attempts(&["--model", "m", "--policy", "fallback"]), 1);
        assert_eq!(attempts(&["--model", "m", "--policy", "fallback", "--policy", "race"]), 2);
    }

    #[test]
    fn money_is_set_aside_for_every_retry() {
        let priced = |model: &str| {
            let found = targets(&["--model", model]).unwrap_or_else(|why| panic!("{why}"));
            found.targets[0].prices.iter().map(|price| price.map(|price| price.output)).collect::<Vec<_>>()
        };
        assert_eq!(priced("m"), [None; 4], "one by default");
        assert_eq!(priced("patient"), [Some(2.0), Some(2.0), Some(2.0), None, None, None]);
    }

    #[test]
    fn what_cannot_be_a_target_is_said() {
        for (arguments, said) in [
            (&[][..], "name a target"),
            (&["near"], "expected PROVIDER/MODEL, not \"near\""),
            (&["m"], "for the model use --model m"),
            (&["neer/x"], "did you mean near?"),
            (&["off/x"], "NO_SUCH_KEY is not set"),
            (&["--model", "n"], "no model \"n\""),
            (&["--model", "m", "--policy", "raze"], "did you mean race?"),
            (&["--url", "http://x/v1", "--model", "m", "--key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
            (&["--url", "ftp://x", "--model", "m"], "--url"),
        ] {
            let why = targets(arguments).err().unwrap_or_default();
            assert!(why.contains(said), "{arguments:?}: {why}");
        }
    }
}
