//! What a run sends to: upstreams, models through their policies, or any server by its address. Not for the load: see `plan`.

use std::net::IpAddr;
use std::path::Path;

use http::{HeaderMap, HeaderValue, Uri};

use super::options::BenchOptions;
use crate::bench::LoadTarget;
use crate::config::{self, BreakerSettings, Config, Policy, Provider, UpstreamConfig};

/// The name of the server of `--url` in rows: `url/MODEL`.
pub const URL_PROVIDER: &str = "url";

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
}

/// The configuration with a provider `url` for the server of `--url`.
///
/// # Errors
/// In words, if the address, the dialect or the variable cannot be used.
pub fn with_url(config: Config, options: &BenchOptions) -> Result<Config, String> {
    let Some(url) = &options.url else { return Ok(config) };
    let text = |value: &str| format!("{:?}", value);
    let mut table = format!("[providers.{URL_PROVIDER}]\nbase_url = {}\n", text(url));
    if let Some(dialect) = &options.dialect {
        table += &format!("dialect = {}\n", text(dialect));
    }
    if let Some(variable) = &options.key_env {
        if std::env::var_os(variable).is_none_or(|value| value.is_empty()) {
            return Err(format!("--key-env: {variable} is not set"));
        }
        table += &format!("api_key = {}\n", text(&format!("${{{variable}}}")));
    }
    let env = |name: &str| std::env::var(name).ok();
    let read = config::parse(&table, Path::new("--url"), &env).map_err(|problems| problems.to_string())?;
    Ok(Config { source: config.source, store: config.store, server: config.server, ..read })
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
        let of_url = options.model.iter().filter(|_| by_address).map(|model| format!("{URL_PROVIDER}/{model}"));
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
            targets.extend(through_policies(model, &on, &options.policy)?);
            used.extend(on);
        }
        if targets.is_empty() {
            return Err("name a target: PROVIDER/MODEL, --model NAME, or --url URL --model NAME".to_owned());
        }
        upstreams.resize(targets.len(), None);
        for (lane, target) in (0..).zip(&mut targets) {
            target.lane = lane;
        }
        let hosted = |upstream: &&UpstreamConfig| is_hosted(&upstream.provider);
        let names = |upstreams: &mut dyn Iterator<Item = &UpstreamConfig>| {
            let mut names: Vec<String> = upstreams.map(UpstreamConfig::name).collect();
            names.dedup();
            names
        };
        let hosted_names = names(&mut used.iter().filter(hosted));
        let unpriced = names(&mut used.iter().filter(hosted).filter(|upstream| upstream.price.is_none()));
        // A benchmark of one upstream asks it whatever it answered before, and asks once.
        if options.model.is_empty() || by_address {
            for race in [&mut config.race, &mut config.race_without_table] {
                race.breaker = BreakerSettings { failures: 0, ..race.breaker };
                race.retries = 0;
            }
        }
        Ok(BenchTargets { config, targets, upstreams, hosted: hosted_names, unpriced })
    }
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

fn through_policies(model: &str, on: &[UpstreamConfig], policies: &[String]) -> Result<Vec<LoadTarget>, String> {
    let prices: Vec<_> = on.iter().map(|upstream| upstream.price).collect();
    let target =
        |name: String, headers| LoadTarget { name, model: model.to_owned(), headers, prices: prices.clone(), lane: 0 };
    if policies.is_empty() {
        return Ok(vec![target(format!("model {model}"), HeaderMap::new())]);
    }
    let with_policy = |policy: &String| {
        let known = Policy::from_name(policy).ok_or_else(|| {
            let nearest = config::nearest(policy, Policy::ALL.iter().map(|known| known.as_str()), 1);
            let hint = nearest.first().map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
            format!("no policy {policy:?}{hint}")
        })?;
        let mut headers = HeaderMap::new();
        header("x-photofinish-policy", known.as_str(), &mut headers)?;
        Ok(target(format!("model {model}, {}", known.as_str()), headers))
    };
    policies.iter().map(with_policy).collect()
}

/// Someone else runs it: it is not simulated, and its address is not of this machine or a private network.
pub fn is_hosted(provider: &Provider) -> bool {
    if provider.simulate.is_some() {
        return false;
    }
    let uri: Option<Uri> = provider.base_url.parse().ok();
    let Some(host) = uri.as_ref().and_then(Uri::host) else { return true };
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()),
        Ok(IpAddr::V6(ip)) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unspecified()),
        // A name without a dot is one of the own network.
        Err(_) => host.contains('.') && !host.ends_with(".local") && !host.ends_with(".internal"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: BenchOptions,
    }

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
        "#;
        let config = config::parse(config, Path::new("test"), &|_| None).map_err(|problems| problems.to_string())?;
        let options = Cli::try_parse_from([&["bench"], arguments].concat()).map_err(|error| error.to_string())?.options;
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
