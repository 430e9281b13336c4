//! LiteLLM's `config.yaml` as a configuration of Photofinish. Not for addresses and keys: see `providers`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::providers::ImportedProviders;
use super::text::{ImportNotes, duration, key, quoted, reference, seconds_text, value, variable};
use super::yaml::YamlValue;

/// A configuration, and what could not be taken over.
pub(super) struct ImportedConfig {
    pub text: String,
    pub notes: Vec<String>,
    pub models: usize,
    pub providers: usize,
}

/// Parameters of a deployment that are read elsewhere, or that describe it alone.
const READ: [&str; 26] = [
    "model",
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "custom_llm_provider",
    "vertex_project",
    "vertex_location",
    "vertex_credentials",
    "aws_region_name",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "timeout",
    "stream_timeout",
    "weight",
    "order",
    "max_parallel_requests",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "extra_body",
    "extra_headers",
    "organization",
    "additional_drop_params",
];

/// Parameters that are members of a request: they count where the client says nothing else.
const MEMBERS: [&str; 18] = [
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_completion_tokens",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "stop",
    "seed",
    "n",
    "response_format",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "thinking",
    "service_tier",
    "user",
];

/// Settings that need no equal, and what replaces them.
const ELSEWHERE: [(&str, &str); 28] = [
    ("cache", "there is no cache of answers; the providers' caches of prompts are used"),
    ("cache_params", "there is no cache of answers"),
    ("callbacks", "every attempt is a row that you can query; [otlp] sends traces"),
    ("success_callback", "every attempt is a row that you can query; [otlp] sends traces"),
    ("failure_callback", "every attempt is a row that you can query; [incidents] calls a webhook"),
    ("drop_params", "what an upstream cannot take is left out, and the answer's headers name it: see `lossy`"),
    ("set_verbose", "PHOTOFINISH_LOG=debug"),
    ("redis_host", "several gateways share one Postgres: url of [store]"),
    ("redis_port", "several gateways share one Postgres"),
    ("redis_password", "several gateways share one Postgres"),
    ("redis_url", "several gateways share one Postgres"),
    ("enable_pre_call_checks", "upstreams whose window is too small are never asked"),
    ("retry_after", "a failed upstream is asked again after 0.1 s, doubling, or when it says"),
    ("retry_policy", "`retries` of [race] is one number"),
    ("allowed_fails_policy", "`breaker` of [race] is one rule"),
    ("store_model_in_db", "models are in the file, which is read again when it changes"),
    ("alerting", "`webhook` of [incidents]"),
    ("alerting_threshold", "incidents are measured against the usual latency"),
    ("custom_auth", "callers are [users] with tokens, or have keys: see docs/keys.md"),
    ("guardrails", "there are no guardrails"),
    ("pass_through_endpoints", "paths of a provider: /providers/NAME/…"),
    ("rpm", "the provider's own limit is followed when it answers 429"),
    ("tpm", "the provider's own limit is followed when it answers 429"),
    ("max_retries", "`retries` of [race]"),
    ("tags", "requests choose upstreams by name"),
    ("routing_strategy_args", "`adaptive` learns by itself"),
    ("default_max_internal_user_budget", "[limits] of users"),
    ("ui_username", "the dashboard asks for an admin's token"),
];

#[derive(Clone)]
struct ImportedUpstream {
    name: String,
    /// What its table says, without its tier.
    says: Vec<String>,
    tier: u32,
}

/// One model name of LiteLLM.
#[derive(Default)]
struct ImportedModel {
    upstreams: Vec<ImportedUpstream>,
    aliases: Vec<String>,
    content_policy: bool,
    /// The longest timeout of its deployments, seconds.
    total: f64,
}

struct LiteLlm<'y> {
    file: &'y YamlValue,
    notes: ImportNotes,
    providers: ImportedProviders,
    /// In the order of the file.
    names: Vec<String>,
    models: BTreeMap<String, ImportedModel>,
}

/// Reads a file.
///
/// # Errors
/// It is no YAML, or has no models.
pub(super) fn read(text: &str) -> Result<ImportedConfig, String> {
    let file = YamlValue::read(text)?;
    let Some(list) = file.get("model_list") else {
        return Err("it has no `model_list`: is it LiteLLM's config.yaml?".to_owned());
    };
    let (notes, providers) = (ImportNotes::default(), ImportedProviders::default());
    let mut import = LiteLlm { file: &file, notes, providers, names: Vec::new(), models: BTreeMap::new() };
    list.list().iter().for_each(|entry| import.deployment(entry));
    import.route();
    let (head, race, tail) = (import.head(), import.race(), import.callers());
    import.unread();
    let models = import.tables();
    let count = import.models.values().filter(|model| !model.upstreams.is_empty()).count();
    let text = format!("{head}{race}{}{models}{tail}", import.providers.tables());
    Ok(ImportedConfig { text, notes: import.notes.into_lines(), models: count, providers: import.providers.count() })
}

impl LiteLlm<'_> {
    fn deployment(&mut self, entry: &YamlValue) {
        let (Some(name), Some(params)) =
            (entry.get("model_name").and_then(YamlValue::text), entry.get("litellm_params"))
        else {
            self.notes.add(entry.line, "a deployment without `model_name` or `litellm_params` is left out");
            return;
        };
        if name.contains('*') {
            let why = "a pattern is no model: callers may name PROVIDER/MODEL without one, see docs/configuration.md";
            self.notes.add(entry.line, why);
            return;
        }
        let Some(upstream) = self.providers.upstream(params, &keys(self.file, name, params), &mut self.notes) else {
            return;
        };
        let (says, tier) = said(params, entry.get("model_info"));
        let changes = self.changes(params);
        if !changes.is_empty() && !self.providers.request(&upstream, changes) {
            self.notes
                .add(entry.line, format!("{upstream} has other parameters in another entry, which count for both"));
        }
        for (name, given) in params.members() {
            self.unequal(name, given, &[&READ[..], &MEMBERS[..]].concat());
        }
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
        let model = self.models.entry(name.to_owned()).or_default();
        model.total = params.get("timeout").and_then(YamlValue::number).unwrap_or(0.0).max(model.total);
        // The same upstream with another key: the provider uses its keys in turn.
        if !model.upstreams.iter().any(|known| known.name == upstream) {
            model.upstreams.push(ImportedUpstream { name: upstream, says, tier });
        }
    }

    /// What requests to a deployment get.
    fn changes(&mut self, params: &YamlValue) -> String {
        let pair = |(name, given): &(String, YamlValue)| Some(format!("{} = {}", key(name), value(given)?));
        let own = params.members().iter().filter(|(name, _)| MEMBERS.contains(&name.as_str())).filter_map(pair);
        let mut default: Vec<String> = own.collect();
        let mut headers = Vec::new();
        for extra in ["extra_body", "extra_headers"] {
            for (name, given) in params.get(extra).map(YamlValue::members).unwrap_or_default() {
                if holds_secret(name, given) {
                    self.notes.add(given.line, format!("{name} of {extra} holds a secret, which is not copied"));
                } else if extra == "extra_body" {
                    default.extend(value(given).map(|text| format!("{} = {text}", key(name))));
                } else if let Some(text) = given.text() {
                    headers.push(format!("{} = {}", key(&name.to_lowercase()), reference(text)));
                }
            }
        }
        let organization = params.get("organization").and_then(YamlValue::text);
        headers.extend(organization.map(|id| format!("openai-organization = {}", reference(id))));
        let drop = params.get("additional_drop_params").map(YamlValue::list).unwrap_or_default();
        let drop: Vec<String> = drop.iter().filter_map(|name| Some(quoted(name.text()?))).collect();
        let mut lines = Vec::new();
        for (name, members) in [("default", &default), ("headers", &headers)] {
            lines.extend((!members.is_empty()).then(|| format!("{name} = {{ {} }}", members.join(", "))));
        }
        lines.extend((!drop.is_empty()).then(|| format!("drop = [{}]", drop.join(", "))));
        lines.join("\n")
    }

    fn setting(&self, sections: &[&str], name: &str) -> Option<&YamlValue> {
        sections.iter().find_map(|section| self.file.get(section)?.get(name))
    }

    /// Fallbacks become upstreams of higher tiers, and other names aliases.
    fn route(&mut self) {
        let own: BTreeMap<String, Vec<ImportedUpstream>> =
            self.models.iter().map(|(name, model)| (name.clone(), model.upstreams.clone())).collect();
        for list in ["fallbacks", "context_window_fallbacks", "content_policy_fallbacks"] {
            let Some(rules) = self.setting(&["router_settings", "litellm_settings"], list).cloned() else { continue };
            for (name, others) in rules.list().iter().flat_map(YamlValue::members) {
                let names: Vec<&str> = others.list().iter().filter_map(YamlValue::text).collect();
                self.fall_back(&own, (name, others.line), &names, list == "content_policy_fallbacks");
            }
        }
        if let Some(rules) = self.setting(&["router_settings", "litellm_settings"], "default_fallbacks").cloned() {
            let names: Vec<&str> = rules.list().iter().filter_map(YamlValue::text).collect();
            let models = self.names.clone();
            models.iter().for_each(|name| self.fall_back(&own, (name, rules.line), &names, false));
        }
        let Some(aliases) = self.setting(&["router_settings"], "model_group_alias").cloned() else { return };
        for (alias, of) in aliases.members() {
            match of.text().or(of.get("model").and_then(YamlValue::text)).and_then(|of| self.models.get_mut(of)) {
                Some(model) => model.aliases.push(alias.clone()),
                None => self.notes.add(of.line, format!("the alias {alias} names no model of the list")),
            }
        }
    }

    fn fall_back(
        &mut self,
        own: &BTreeMap<String, Vec<ImportedUpstream>>,
        (name, line): (&str, usize),
        others: &[&str],
        content_policy: bool,
    ) {
        let Some(model) = self.models.get_mut(name) else {
            self.notes.add(line, format!("{name} has fallbacks and is no model of the list"));
            return;
        };
        model.content_policy |= content_policy;
        for other in others.iter().filter(|other| **other != name) {
            let Some(upstreams) = own.get(*other) else {
                self.notes.add(line, format!("the fallback {other} is no model of the list"));
                continue;
            };
            let tier = model.upstreams.iter().map(|known| known.tier + 1).max().unwrap_or(1);
            for upstream in upstreams {
                if !model.upstreams.iter().any(|known| known.name == upstream.name) {
                    model.upstreams.push(ImportedUpstream { tier, ..upstream.clone() });
                }
            }
        }
    }

    fn head(&self) -> String {
        let has_callers = self.setting(&["general_settings"], "master_key").is_some();
        let listen = if has_callers { "0.0.0.0:4000" } else { "127.0.0.1:4000" };
        let mut text = format!(
            "# Made of LiteLLM's configuration by `photofinish import litellm`. `photofinish check` shows what is on.\n\
             # docs/from-litellm.md says what is different.\n\n[server]\nlisten = \"{listen}\"\n"
        );
        let number = |name| self.setting(&["general_settings"], name).and_then(YamlValue::number);
        // Writing to a string cannot fail.
        if let Some(most) = number("max_parallel_requests").filter(|most| *most >= 1.0) {
            let _ = writeln!(text, "max_in_flight = {most:.0}");
        }
        if let Some(most) = number("max_request_size_mb").filter(|most| *most >= 1.0) {
            let _ = writeln!(text, "body_max = \"{most:.0}MiB\"");
        }
        if self.setting(&["litellm_settings"], "json_logs").is_some_and(YamlValue::is_true) {
            text.push_str("log = \"json\"\n");
        }
        if let Some(url) = self.setting(&["general_settings"], "database_url").and_then(YamlValue::text) {
            let url = variable(url).map_or("DATABASE_URL", |name| name);
            let _ = write!(text, "\n[store]\nurl = \"${{{url}}}\"   # a database of its own: not LiteLLM's\n");
        }
        text
    }

    fn race(&mut self) -> String {
        const BOTH: [&str; 2] = ["router_settings", "litellm_settings"];
        let mut lines = Vec::new();
        let has_weights = self
            .models
            .values()
            .any(|model| model.upstreams.iter().any(|known| known.says.iter().any(|one| one.starts_with("weight"))));
        match self.setting(&["router_settings"], "routing_strategy") {
            Some(strategy) if strategy.text() != Some("simple-shuffle") => {
                let name = strategy.text().unwrap_or_default().to_owned();
                let line = strategy.line;
                self.notes.add(line, format!("`{name}` becomes `adaptive`: it learns who is fast, within a budget"));
            }
            _ if has_weights => lines.push("policy = \"weighted\"".to_owned()),
            _ => {}
        }
        if let Some(retries) = self.setting(&BOTH, "num_retries").and_then(YamlValue::number) {
            lines.push(format!("retries = {:.0}", retries.clamp(0.0, 15.0)));
        }
        let total = self.setting(&BOTH, "timeout").or(self.setting(&BOTH, "request_timeout")).and_then(duration);
        lines.extend(total.map(|total| format!("timeouts.total = {total}")));
        let first = self.setting(&BOTH, "stream_timeout").and_then(duration);
        lines.extend(first.map(|first| format!("timeouts.first_token = {first}")));
        let fails = self.setting(&BOTH, "allowed_fails").and_then(YamlValue::number);
        let rest = self.setting(&BOTH, "cooldown_time").and_then(YamlValue::number).filter(|rest| *rest >= 1.0);
        let mut breaker: Vec<String> =
            fails.map(|fails| format!("failures = {:.0}", fails + 1.0)).into_iter().collect();
        breaker.extend(rest.map(|rest| format!("open = \"{rest:.0}s\", open_max = \"{:.0}s\"", rest.max(60.0))));
        lines.extend((!breaker.is_empty()).then(|| format!("breaker = {{ {} }}", breaker.join(", "))));
        if lines.is_empty() { String::new() } else { format!("\n[race]\n{}\n", lines.join("\n")) }
    }

    fn tables(&self) -> String {
        let mut text = String::new();
        for (name, model) in self.names.iter().filter_map(|name| Some((name, self.models.get(name)?))) {
            let entry = |ImportedUpstream { name, says, tier }: &ImportedUpstream| {
                let mut says = says.clone();
                says.extend((*tier > 1).then(|| format!("tier = {tier}")));
                match says.is_empty() {
                    true => quoted(name),
                    false => format!("{{ upstream = {}, {} }}", quoted(name), says.join(", ")),
                }
            };
            let entries: Vec<String> = model.upstreams.iter().map(entry).collect();
            let list = match entries.as_slice() {
                [one] => format!("[{one}]"),
                several => format!("[\n  {},\n]", several.join(",\n  ")),
            };
            let _ = write!(text, "\n[models.{}]\nupstreams = {list}\n", key(name));
            if !model.aliases.is_empty() {
                let aliases: Vec<String> = model.aliases.iter().map(|alias| quoted(alias)).collect();
                let _ = writeln!(text, "aliases = [{}]", aliases.join(", "));
            }
            if model.total > 0.0 {
                let _ = writeln!(text, "timeouts.total = {}", seconds_text(model.total));
            }
            if model.content_policy {
                text.push_str("content_policy = \"continue\"\n");
            }
        }
        text
    }

    /// Who may call, and what everybody together may spend.
    fn callers(&mut self) -> String {
        let mut text = String::new();
        if let Some(given) = self.setting(&["general_settings"], "master_key") {
            let name = given.text().and_then(variable).unwrap_or("LITELLM_MASTER_KEY").to_owned();
            if given.text().and_then(variable).is_none() {
                let line = given.line;
                self.notes.add(line, format!("the file holds the master key, which is not copied: set {name} to it"));
            }
            let _ = write!(text, "\n[users.admin]\ntoken = \"${{{name}}}\"\nrole = \"admin\"\n");
        }
        const BOTH: [&str; 2] = ["litellm_settings", "general_settings"];
        let budget = self.setting(&BOTH, "max_budget").and_then(YamlValue::number).filter(|budget| *budget > 0.0);
        if let Some(budget) = budget {
            let span = self.setting(&BOTH, "budget_duration");
            let window = match span.and_then(YamlValue::text) {
                Some("1d" | "24h") => "day",
                Some("7d" | "1w") => "week",
                Some("30d" | "31d" | "1mo" | "1m") => "month",
                _ => "total",
            };
            if let Some((line, span)) = span.and_then(|span| Some((span.line, span.text()?.to_owned()))) {
                let note = format!("a budget for {span} becomes one of a calendar {window} (UTC)");
                self.notes.add(line, note);
            }
            let _ = write!(text, "\n[limits]\nbudget = {{ {window} = {budget:?} }}\n");
        }
        text
    }

    /// Notes every setting that was not read.
    fn unread(&mut self) {
        let file = self.file;
        for (section, settings) in file.members() {
            match section.as_str() {
                "model_list" => {}
                "environment_variables" => {
                    let names: Vec<&str> = settings.members().iter().map(|(name, _)| name.as_str()).collect();
                    self.notes.add(settings.line, format!("set these variables yourself: {}", names.join(", ")));
                }
                "router_settings" | "litellm_settings" | "general_settings" => {
                    for (name, given) in settings.members() {
                        self.unequal(name, given, &SETTINGS);
                    }
                }
                _ => self.notes.add(settings.line, format!("`{section}` has no equal")),
            }
        }
    }

    fn unequal(&mut self, name: &str, given: &YamlValue, read: &[&str]) {
        if read.contains(&name) || given.text().is_some_and(|text| text.eq_ignore_ascii_case("false")) {
            return;
        }
        match ELSEWHERE.iter().find(|(known, _)| *known == name) {
            Some((_, instead)) => self.notes.add(given.line, format!("`{name}`: {instead}")),
            None => self.notes.add(given.line, format!("`{name}` has no equal")),
        }
    }
}

/// A text that is no variable is where secrets are.
fn holds_secret(name: &str, given: &YamlValue) -> bool {
    let name = name.to_lowercase();
    let is_secret =
        ["authorization", "secret", "password", "cookie", "credential"].iter().any(|word| name.contains(word))
            || ["key", "token"].iter().any(|word| name.ends_with(word));
    let is_inside = |(name, given): &(String, YamlValue)| holds_secret(name, given);
    is_secret && given.text().is_some_and(|text| variable(text).is_none())
        || given.members().iter().any(is_inside)
        || given.list().iter().any(|given| holds_secret(&name, given))
}

/// Settings that are read.
const SETTINGS: [&str; 19] = [
    "routing_strategy",
    "num_retries",
    "timeout",
    "request_timeout",
    "stream_timeout",
    "allowed_fails",
    "cooldown_time",
    "fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "default_fallbacks",
    "model_group_alias",
    "master_key",
    "database_url",
    "max_parallel_requests",
    "max_request_size_mb",
    "max_budget",
    "budget_duration",
    "json_logs",
];

/// The keys of the model's deployments that differ in their keys alone: LiteLLM takes one of them for each request.
fn keys<'y>(file: &'y YamlValue, name: &str, params: &YamlValue) -> Vec<&'y YamlValue> {
    const SAME: [&str; 6] = ["model", "api_base", "base_url", "api_version", "aws_region_name", "vertex_project"];
    let place = |params: &YamlValue| SAME.map(|name| params.get(name).and_then(YamlValue::text).map(str::to_owned));
    let asked = place(params);
    let list = file.get("model_list").map(YamlValue::list).unwrap_or_default();
    let of_model = list.iter().filter(|entry| entry.get("model_name").and_then(YamlValue::text) == Some(name));
    let alike = of_model.filter_map(|entry| entry.get("litellm_params")).filter(|params| place(params) == asked);
    alike.filter_map(|params| params.get("api_key")).collect()
}

/// What a deployment's entry in `upstreams` says, and its tier.
fn said(params: &YamlValue, info: Option<&YamlValue>) -> (Vec<String>, u32) {
    let number = |name: &str| params.get(name).or(info.and_then(|info| info.get(name))).and_then(YamlValue::number);
    let mut says = Vec::new();
    says.extend(number("weight").filter(|weight| *weight > 0.0).map(|weight| format!("weight = {weight:?}")));
    says.extend(
        number("max_parallel_requests").filter(|most| *most >= 1.0).map(|most| format!("in_flight_max = {most:.0}")),
    );
    for (theirs, ours) in [
        ("input_cost_per_token", "input_price"),
        ("cache_read_input_token_cost", "cached_price"),
        ("cache_creation_input_token_cost", "cache_write_price"),
        ("output_cost_per_token", "output_price"),
    ] {
        // Of a million tokens, to a millionth of a dollar.
        let price = number(theirs).filter(|price| *price >= 0.0).map(|price| (price * 1e12).round() / 1e6);
        says.extend(price.map(|price| format!("{ours} = {price:?}")));
    }
    let window = info.and_then(|info| info.get("max_input_tokens")).and_then(YamlValue::number);
    says.extend(window.filter(|window| *window >= 1.0).map(|window| format!("context = {window:.0}")));
    let first = params.get("stream_timeout").and_then(duration);
    says.extend(first.map(|first| format!("timeouts = {{ first_token = {first} }}")));
    (says, number("order").filter(|order| *order >= 1.0).map_or(1, |order| order.min(1e6) as u32))
}
