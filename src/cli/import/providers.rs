//! The providers of an imported configuration: which of the catalogue they are, their addresses and their keys. No key goes into
//! the text, only the variable that holds it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Uri;
use photofinish_config::catalogue::{self, CatalogueEntry};

use super::text::{ImportNotes, key, quoted, reference, variable};
use super::yaml::YamlValue;

/// Names of LiteLLM that are others here.
const NAMES: [(&str, &str); 11] = [
    ("together_ai", "together"),
    ("fireworks_ai", "fireworks"),
    ("vertex_ai", "vertex"),
    ("vertex_ai_beta", "vertex"),
    ("text-completion-openai", "openai"),
    ("dashscope", "alibaba"),
    ("hosted_vllm", "vllm"),
    ("ollama_chat", "ollama"),
    ("cohere_chat", "cohere"),
    ("lm_studio", "lmstudio"),
    ("azure_text", "azure"),
];

/// How models are named that LiteLLM takes without a provider.
const BARE: [(&str, &str); 9] = [
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("chatgpt-", "openai"),
    ("text-embedding-", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
    ("command-", "cohere"),
];

/// Keys for servers that want none.
const NO_KEYS: [&str; 9] =
    ["none", "empty", "dummy", "fake", "fake-key", "not-needed", "lm-studio", "ollama", "sk-1234"];

#[derive(Default)]
pub(super) struct ImportedProviders {
    list: Vec<ImportedProvider>,
    /// Keys that the file holds, each with the variable that takes its place.
    copied: Vec<(String, String)>,
}

struct ImportedProvider {
    name: String,
    /// The provider of the catalogue, or the own name; what the file says of it; and the variables of its keys. A key that pays for one
    /// model does not pay for another.
    identity: (String, Vec<String>, Vec<String>),
    /// What its requests get, by model.
    requests: BTreeMap<String, String>,
}

impl ImportedProviders {
    /// The upstream of these parameters, as `PROVIDER/MODEL`. `keys`: those of all deployments that differ in nothing else. None: it has no
    /// equal, which is noted.
    pub fn upstream(&mut self, params: &YamlValue, keys: &[&YamlValue], notes: &mut ImportNotes) -> Option<String> {
        let named = params.get("model")?;
        let base = params.get("api_base").or(params.get("base_url")).and_then(YamlValue::text);
        let (mut kind, model) = kind_of(params, named.text()?, base);
        let mut base = base.map(|base| base.trim_end_matches('/').to_owned());
        if kind == "openai"
            && let Some(address) = base.as_deref()
        {
            match entry_at(address) {
                Some(entry) => (kind, base) = (entry.name.clone(), None),
                None => kind = name_of(address),
            }
        }
        if kind == "vertex" && model.starts_with("claude") {
            notes.add(named.line, "Claude at Vertex is not spoken: use the provider anthropic or bedrock");
            return None;
        }
        if base.is_none() && catalogue::find(&kind).is_none() {
            notes.add(named.line, format!("the provider of \"{}\" is not known: give it an `api_base`", named.text()?));
            return None;
        }
        base = base.map(|base| match (kind.as_str(), variable(&base)) {
            ("azure", None) if !base.contains("/openai") => format!("{base}/openai"),
            ("ollama", None) if !base.ends_with("/v1") => format!("{base}/v1"),
            _ => base,
        });
        let mut variables: Vec<String> = keys.iter().filter_map(|key| self.key(&kind, key, notes)).collect();
        let says = table_of(params, base.as_deref(), notes);
        if variables.is_empty() && !says.iter().any(|line| line.starts_with("aws =") || line.starts_with("token =")) {
            variables.extend(catalogue::find(&kind).and_then(|entry| entry.key_variable.clone()));
        }
        variables.sort();
        variables.dedup();
        let place = self.place((kind, says, variables));
        Some(format!("{}/{model}", self.list[place].name))
    }

    /// The variable of a key. None: it is no key.
    fn key(&mut self, kind: &str, given: &YamlValue, notes: &mut ImportNotes) -> Option<String> {
        let text = given.text()?;
        if let Some(variable) = variable(text) {
            return Some(variable.to_owned());
        }
        if catalogue::is_placeholder(text) || NO_KEYS.contains(&text.to_lowercase().as_str()) {
            return None;
        }
        let known = self.copied.iter().find(|(key, _)| key == text).map(|(_, variable)| variable.clone());
        let variable = known.unwrap_or_else(|| {
            let usual = catalogue::find(kind).and_then(|entry| entry.key_variable.clone());
            let usual = usual.unwrap_or_else(|| format!("{}_API_KEY", kind.to_uppercase().replace(['-', '.'], "_")));
            let before = self.copied.iter().filter(|(_, variable)| variable.starts_with(&usual)).count();
            let variable = if before == 0 { usual } else { format!("{usual}_{}", before + 1) };
            self.copied.push((text.to_owned(), variable.clone()));
            variable
        });
        notes.add(given.line, format!("the file holds a key, which is not copied: set {variable} to it"));
        Some(variable)
    }

    fn place(&mut self, identity: (String, Vec<String>, Vec<String>)) -> usize {
        if let Some(place) = self.list.iter().position(|known| known.identity == identity) {
            return place;
        }
        let before = self.list.iter().filter(|known| known.identity.0 == identity.0).count();
        let name = if before == 0 { identity.0.clone() } else { format!("{}-{}", identity.0, before + 1) };
        self.list.push(ImportedProvider { name, identity, requests: BTreeMap::new() });
        self.list.len() - 1
    }

    /// What the requests of an upstream get. False: they get something else already.
    pub fn request(&mut self, upstream: &str, changes: String) -> bool {
        let Some((provider, model)) = upstream.split_once('/') else { return false };
        let Some(provider) = self.list.iter_mut().find(|known| known.name == provider) else { return false };
        *provider.requests.entry(model.to_owned()).or_insert_with(|| changes.clone()) == changes
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The tables of those that need one.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for provider in &self.list {
            let lines = provider.lines();
            // Writing to a string cannot fail.
            if !lines.is_empty() {
                let _ = write!(text, "\n[providers.{}]\n{}\n", key(&provider.name), lines.join("\n"));
            }
            for (model, changes) in &provider.requests {
                let place = format!("[providers.{}.request_for.{}]", key(&provider.name), key(model));
                let _ = write!(text, "\n{place}\n{changes}\n");
            }
        }
        text
    }
}

impl ImportedProvider {
    /// Its table. Empty: the catalogue and the usual variable say all of it.
    fn lines(&self) -> Vec<String> {
        let (kind, says, keys) = &self.identity;
        let entry = catalogue::find(kind);
        let is_first = *kind == self.name;
        let mut lines: Vec<String> =
            entry.filter(|_| !is_first).map(|_| format!("like = {}", quoted(kind))).into_iter().collect();
        lines.extend(says.iter().cloned());
        let is_usual = |variable: &String| entry.is_some_and(|entry| entry.key_variables().any(|one| one == variable));
        let written: Vec<String> = keys.iter().map(|key| reference(&format!("os.environ/{key}"))).collect();
        match written.as_slice() {
            [] => {}
            [_] if lines.is_empty() && self.requests.is_empty() && is_usual(&keys[0]) => {}
            [one] => lines.push(format!("api_key = {one}")),
            several => lines.push(format!("api_key = [{}]   # used in turn", several.join(", "))),
        }
        lines
    }
}

/// The provider and the model's name there.
fn kind_of(params: &YamlValue, model: &str, base: Option<&str>) -> (String, String) {
    let renamed =
        |name: &str| NAMES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours).to_owned();
    if let Some(kind) = params.get("custom_llm_provider").and_then(YamlValue::text) {
        let model = model.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')).unwrap_or(model);
        return (renamed(kind), model.to_owned());
    }
    let (kind, model) = match model.split_once('/') {
        Some((kind, model)) => (renamed(kind), model),
        None => {
            let usual = BARE.iter().find(|(begin, _)| model.starts_with(begin)).map(|(_, kind)| *kind);
            (usual.filter(|_| base.is_none()).unwrap_or("openai").to_owned(), model)
        }
    };
    let mut model = model;
    if kind == "bedrock" {
        // LiteLLM's way to a call or a region.
        let is_way = |part: &str| {
            ["converse", "invoke", "converse_like"].contains(&part)
                || part.matches('-').count() == 2 && !part.contains('.')
        };
        while let Some((_, rest)) = model.split_once('/').filter(|(part, _)| is_way(part)) {
            model = rest;
        }
    }
    (kind, model.to_owned())
}

/// What the file says of the provider.
fn table_of(params: &YamlValue, base: Option<&str>, notes: &mut ImportNotes) -> Vec<String> {
    let text = |name: &str| params.get(name).and_then(YamlValue::text).map(reference);
    let mut lines: Vec<String> = base.map(|base| format!("base_url = {}", reference(base))).into_iter().collect();
    for (theirs, ours) in [
        ("api_version", "api_version"),
        ("vertex_project", "project"),
        ("vertex_location", "location"),
        ("aws_region_name", "region"),
    ] {
        lines.extend(text(theirs).map(|value| format!("{ours} = {value}")));
    }
    let mut secret = |name: &str| {
        let given = params.get(name)?;
        let usual = name.to_uppercase();
        let variable = variable(given.text()?).unwrap_or_else(|| {
            notes.add(given.line, format!("the file holds a secret, which is not copied: set {usual} to it"));
            &usual
        });
        Some(reference(&format!("os.environ/{variable}")))
    };
    if let (Some(id), Some(key)) = (secret("aws_access_key_id"), secret("aws_secret_access_key")) {
        let session = secret("aws_session_token").map(|token| format!(", session_token = {token}")).unwrap_or_default();
        lines.push(format!("aws = {{ access_key_id = {id}, secret_access_key = {key}{session} }}"));
    }
    if params.get("vertex_project").is_some() {
        let command = "token = { command = [\"gcloud\", \"auth\", \"print-access-token\"], refresh = \"45m\" }";
        lines.push(command.to_owned());
    }
    lines
}

/// The provider of the catalogue that is at this address.
fn entry_at(base: &str) -> Option<&'static CatalogueEntry> {
    let host = |url: &str| url.parse::<Uri>().ok().and_then(|uri| Some(uri.authority()?.as_str().to_owned()));
    let asked = host(base)?;
    let is_there = |entry: &&CatalogueEntry| {
        entry.key_variable.is_some()
            && entry.serves.iter().any(|served| host(&served.base_url).as_ref() == Some(&asked))
    };
    catalogue::entries().find(is_there)
}

/// A name for the provider at this address.
fn name_of(base: &str) -> String {
    let host = variable(base).unwrap_or_else(|| base.split("://").last().unwrap_or_default());
    let host = host.split('/').next().unwrap_or_default().to_lowercase();
    let name: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { "server".to_owned() } else { name }
}
