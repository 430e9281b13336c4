//! Names that anyone may read. What vendors call themselves and their models stays; what the operator named gets a number.

use photofinish_config::offerings::ModelCatalogue;
use photofinish_config::{catalogue, is_built_in_workload};

/// A run through the policy of a model has the target `model NAME` or `model NAME, POLICY`.
const BY_POLICY: &str = "model ";

/// The numbers given so far: the same name has the same number on the whole page.
pub(super) struct PublicNames<'c> {
    catalogue: &'c ModelCatalogue,
    providers: Vec<String>,
    models: Vec<String>,
    workloads: Vec<String>,
}

impl<'c> PublicNames<'c> {
    pub fn new(catalogue: &'c ModelCatalogue) -> PublicNames<'c> {
        PublicNames { catalogue, providers: Vec::new(), models: Vec::new(), workloads: Vec::new() }
    }

    /// An upstream, `PROVIDER/MODEL`.
    pub fn upstream(&mut self, name: &str) -> String {
        let Some((provider, model)) = name.split_once('/') else { return self.provider(name) };
        let model = match self.catalogue.offering_or_undated(provider, model) {
            Some(_) => model.to_owned(),
            None => self.model(model),
        };
        format!("{}/{model}", self.provider(provider))
    }

    /// A model, as the configuration or a provider names it; also `PROVIDER/MODEL`.
    pub fn model(&mut self, name: &str) -> String {
        if self.is_of_the_catalogue(name) {
            return name.to_owned();
        }
        match name.split_once('/') {
            Some((provider, _)) if catalogue::find(provider).is_some() => self.upstream(name),
            _ => format!("model-{}", number(&mut self.models, name)),
        }
    }

    /// One target of a benchmark.
    pub fn target(&mut self, name: &str) -> String {
        let Some(model) = name.strip_prefix(BY_POLICY) else { return self.upstream(name) };
        match model.rsplit_once(", ") {
            Some((model, policy)) => format!("{BY_POLICY}{}, {policy}", self.model(model)),
            None => format!("{BY_POLICY}{}", self.model(model)),
        }
    }

    /// Of a benchmark also `INPUT/OUTPUT`, in tokens.
    pub fn workload(&mut self, name: &str) -> String {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let of_lengths = name.split_once('/').is_some_and(|(input, output)| is_number(input) && is_number(output));
        if of_lengths || is_built_in_workload(name) {
            return name.to_owned();
        }
        format!("workload-{}", number(&mut self.workloads, name))
    }

    fn provider(&mut self, name: &str) -> String {
        if catalogue::find(name).is_some() {
            return name.to_owned();
        }
        format!("server-{}", number(&mut self.providers, name))
    }

    /// Whether a provider offers it under this name, or several host it.
    fn is_of_the_catalogue(&self, name: &str) -> bool {
        self.catalogue.model(name).is_some()
            || self.catalogue.undated_model(name).is_some()
            || self.catalogue.offerings().any(|offering| offering.id == name)
    }
}

/// From 1 on.
fn number(names: &mut Vec<String>, name: &str) -> usize {
    let known = names.iter().position(|known| known == name);
    1 + known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config as config;

    #[test]
    fn what_the_catalogue_has_stays_and_the_rest_gets_numbers() {
        let mut names = PublicNames::new(ModelCatalogue::built_in());
        for (name, expected) in [
            ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
            // No dot and no port: a name all the same.
            ("acme-lab/openai/gpt-oss-120b", "server-1/openai/gpt-oss-120b"),
            ("gpu7.corp/qwen-of-acme", "server-2/model-1"),
            ("10.0.0.7:8000/gpt-oss-120b", "server-3/gpt-oss-120b"),
            ("acme-lab/secret", "server-1/model-2"),
            ("openai/ft:gpt-4o:acme::1", "openai/model-3"),
            ("vllm/secret", "vllm/model-2"),
            ("http://gpu8:1/v1", "server-4/model-4"),
            ("acme", "server-5"),
        ] {
            assert_eq!(names.upstream(name), expected);
        }
        for (name, expected) in [
            ("gpt-oss-120b", "gpt-oss-120b"),
            ("secret", "model-2"),
            ("groq/secret", "groq/model-2"),
            ("acme/bot", "model-5"),
        ] {
            assert_eq!(names.model(name), expected);
        }
    }

    #[test]
    fn targets_of_policies_hide_their_model() {
        let mut names = PublicNames::new(ModelCatalogue::built_in());
        for (name, expected) in [
            ("model gpt-oss-120b", "model gpt-oss-120b"),
            ("model acme-bot, hedge", "model model-1, hedge"),
            ("model acme-bot", "model model-1"),
            ("url/acme-bot", "server-1/model-1"),
        ] {
            assert_eq!(names.target(name), expected);
        }
    }

    #[test]
    fn workloads_of_every_installation_stay() {
        let config = config::parse("", Path::new("test"), &|_| None).unwrap();
        let mut names = PublicNames::new(ModelCatalogue::built_in());
        for name in config.workloads.keys().map(String::as_str).chain(["chat", "ping", "4000/300"]) {
            assert_eq!(names.workload(name), name);
        }
        for (name, expected) in [("acme/300", "workload-1"), ("4000/", "workload-2"), ("acme/300", "workload-1")] {
            assert_eq!(names.workload(name), expected);
        }
    }
}
