//! The options of `bench` as one valid plan. Not for targets: see `target`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::options::BenchOptions;
use super::target::BenchTargets;
use photofinish_base::machine;
use photofinish_config::Config;
use photofinish_lab::bench::block::{ARRIVALS_MAX, Arrivals};
use photofinish_lab::bench::client::{ANSWER_BOUNDS, CHOICES};
use photofinish_lab::bench::conversation::ConversationReader;
use photofinish_lab::bench::measured::LoadSlo;
use photofinish_lab::bench::prompt::{AGENT, SessionSource, Workload};
use photofinish_lab::bench::{Load, LoadTarget};

/// Levels of a closed loop if none are given.
const LEVELS: [usize; 4] = [1, 10, 25, 50];
const STAGE: Duration = Duration::from_secs(30);
/// The longest trial of a search.
const TRIAL: Duration = Duration::from_secs(120);
/// The longest stage if only its requests are given.
const STAGE_MAX: Duration = Duration::from_secs(3_600);
/// Requests at once that a hosted provider gets without `--yes`.
const HOSTED_USERS: usize = 10;
/// Descriptors that the program needs besides those of its requests.
const OWN_DESCRIPTORS: usize = 64;
/// Lines of a file of prompts or conversations.
const PROMPTS_MAX: usize = 100_000;
/// Bytes of one of its lines.
const LINE_MAX: usize = 8 << 20;

/// The levels of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Levels {
    Users(Vec<usize>),
    Rates(Vec<f64>),
    FindRate,
}

/// What a run does.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    pub workload: Workload,
    /// Given prompts; empty if they are made.
    pub prompts: Vec<Map<String, Value>>,
    /// Conversations that are played instead.
    pub sessions: Option<SessionSource>,
    /// Members of every request.
    pub members: Map<String, Value>,
    pub prefix: f64,
    pub seed: u64,
    pub levels: Levels,
    pub arrivals: Arrivals,
    pub in_flight_max: usize,
    pub duration: Duration,
    pub requests: usize,
    pub warm_up: Option<Duration>,
    pub slo: Option<LoadSlo>,
    pub attain: f64,
    pub margin: f64,
    pub max_cost: Option<f64>,
    /// The target is the server of `--url`.
    pub by_url: bool,
    /// Attempts that one request may run at once.
    pub attempts: usize,
}

impl BenchPlan {
    /// # Errors
    /// In words, if the options contradict each other or the machine.
    pub fn new(options: &BenchOptions, targets: &BenchTargets) -> Result<BenchPlan, String> {
        let levels = match (options.find, options.request_rate.is_empty(), options.concurrency.is_empty()) {
            (Some(_), ..) => Levels::FindRate,
            (None, false, _) => Levels::Rates(options.request_rate.clone()),
            (None, true, false) => Levels::Users(options.concurrency.clone()),
            (None, true, true) => Levels::Users(LEVELS.to_vec()),
        };
        if matches!(levels, Levels::Users(_)) {
            let needless =
                [("--arrivals", options.arrivals.is_some()), ("--in-flight-max", options.in_flight_max.is_some())];
            if let Some((name, _)) = needless.iter().find(|(_, given)| *given) {
                return Err(format!("{name} is for an open loop: give --request-rate or --find rate"));
            }
        }
        let sessions = sessions(options, &targets.config)?;
        let usual = if options.find.is_some() { TRIAL } else { STAGE };
        let duration = options.duration.unwrap_or(if options.requests.is_some() { STAGE_MAX } else { usual });
        let plan = BenchPlan {
            workload: workload(options, &targets.config)?,
            prompts: options.prompts.as_deref().map_or(Ok(Vec::new()), prompts)?,
            members: members(options)?,
            prefix: options.prefix,
            seed: options.seed.unwrap_or_else(|| fastrand::u64(..) >> 12),
            levels,
            arrivals: options.arrivals.unwrap_or_default(),
            in_flight_max: options.in_flight_max.unwrap_or(10_000),
            duration,
            requests: options.requests.unwrap_or(ARRIVALS_MAX),
            // The first turns of sessions are slow because nothing is cached yet: that is a figure, and no warm-up.
            warm_up: options.warm_up.or(sessions.as_ref().map(|_| Duration::ZERO)),
            sessions,
            slo: options.slo,
            attain: options.attain,
            margin: options.margin(),
            max_cost: options.max_cost,
            by_url: options.url.is_some(),
            attempts: targets.attempts,
        };
        plan.check_money(options, targets)?;
        plan.check_arrivals()?;
        plan.check_sessions(options, targets.targets.len())?;
        plan.check_descriptors(options.in_flight_max)?;
        if plan.warm_up.is_some_and(|warm_up| warm_up >= plan.duration) {
            return Err("--warm-up is not shorter than a stage".to_owned());
        }
        Ok(plan)
    }

    fn check_money(&self, options: &BenchOptions, targets: &BenchTargets) -> Result<(), String> {
        let give_it = if self.by_url {
            "give it with --price IN/OUT (USD per million tokens)"
        } else {
            "give it as `input_price` and `output_price` of the upstream under [models]"
        };
        let is_unpriced = |target: &LoadTarget| target.prices.iter().all(Option::is_none);
        if self.max_cost.is_some() && targets.unpriced.is_empty() && targets.targets.iter().all(is_unpriced) {
            let names: Vec<&str> = targets.targets.iter().map(|target| target.name.as_str()).collect();
            return Err(format!(
                "no price is known for {}, so --max-cost has no effect: {give_it}, or leave it out",
                names.join(", ")
            ));
        }
        if targets.hosted.is_empty() {
            return Ok(());
        }
        let hosted = targets.hosted.join(", ");
        if self.max_cost.is_none() {
            return Err(format!(
                "{hosted}: a hosted provider bills each request; say with --max-cost what may be spent"
            ));
        }
        if !targets.unpriced.is_empty() {
            let names = targets.unpriced.join(", ");
            return Err(format!("no price is known for {names}, so --max-cost could not be kept: {give_it}"));
        }
        let at_once = match &self.levels {
            Levels::Users(levels) => levels.iter().copied().max().unwrap_or(1),
            _ => self.in_flight_max,
        };
        if at_once > HOSTED_USERS && !options.yes {
            return Err(format!(
                "{hosted}: up to {at_once} requests at once to a hosted provider; --yes says that this is meant, \
                 --concurrency or --in-flight-max makes it fewer"
            ));
        }
        Ok(())
    }

    fn check_sessions(&self, options: &BenchOptions, targets: usize) -> Result<(), String> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        let Levels::Users(levels) = &self.levels else {
            return Err("sessions are for a closed loop: give --concurrency".to_owned());
        };
        if targets > 1 {
            return Err("sessions are for one target: the requests of two could not be paired".to_owned());
        }
        if options.input_tokens.is_some()
            || options.prefix > 0.0
            || (options.output_tokens.is_some() && sessions.count().is_none())
        {
            return Err("--input-tokens, --output-tokens and --prefix are not for the workload agent".to_owned());
        }
        let most = levels.iter().copied().max().unwrap_or(1);
        match sessions.count() {
            Some(count) if count < most => Err(format!(
                "--sessions: {most} users need {most} conversations, and the file has {count}: give --concurrency"
            )),
            _ => Ok(()),
        }
    }

    fn check_arrivals(&self) -> Result<(), String> {
        let Levels::Rates(rates) = &self.levels else { return Ok(()) };
        let most = rates.iter().copied().fold(0.0, f64::max) * self.duration.as_secs_f64();
        if most > ARRIVALS_MAX as f64 && self.requests >= ARRIVALS_MAX {
            return Err(format!("{most:.0} arrivals in a stage; {ARRIVALS_MAX} at most: make --duration shorter"));
        }
        Ok(())
    }

    /// Before the first request, with the number that is needed.
    fn check_descriptors(&self, in_flight_max: Option<usize>) -> Result<(), String> {
        // Only the hard limit counts; where it cannot be raised, the soft one is what there is.
        let limit = machine::raise_descriptors().unwrap_or_else(|_| machine::descriptors());
        let (most, mut whose) = match &self.levels {
            Levels::Users(levels) => {
                let most = levels.iter().copied().max().unwrap_or(1);
                (most, Load::Users(most).to_string())
            }
            // The usual bound of an open loop is for emergencies: it is lowered, and that is said.
            _ => match in_flight_max {
                Some(asked) => (asked, format!("--in-flight-max {asked}")),
                None => (1, "an open loop".to_owned()),
            },
        };
        let needed = (most * self.attempts + OWN_DESCRIPTORS) as u64;
        if needed > limit {
            if self.attempts > 1 {
                whose += &format!(" with {} attempts each", self.attempts);
            }
            return Err(format!(
                "{whose}: at least {needed} file descriptors are needed; the limit is {limit} (ulimit -n)"
            ));
        }
        Ok(())
    }

    /// Requests in flight that the limit of descriptors allows.
    pub fn in_flight_allowed(&self) -> usize {
        let limit = usize::try_from(machine::descriptors()).unwrap_or(usize::MAX);
        self.in_flight_max.min((limit.saturating_sub(OWN_DESCRIPTORS) / self.attempts).max(1))
    }

    /// The loads of its levels; none of a search.
    pub fn loads(&self) -> Vec<Load> {
        match &self.levels {
            Levels::Users(levels) => levels.iter().copied().map(Load::Users).collect(),
            Levels::Rates(rates) => {
                rates.iter().map(|rate| Load::Rate { per_second: *rate, arrivals: self.arrivals }).collect()
            }
            Levels::FindRate => Vec::new(),
        }
    }

    /// What was asked for, for the run's row: no prompt, no key.
    pub fn spec(&self) -> Value {
        let (load, levels) = match &self.levels {
            Levels::Users(levels) => ("concurrency", json!(levels)),
            Levels::Rates(rates) => ("request_rate", json!(rates)),
            Levels::FindRate => ("find", json!("rate")),
        };
        json!({
            "workload": self.workload, "given_prompts": self.prompts.len(),
            "conversations": self.sessions.as_ref().and_then(SessionSource::count), "prefix": self.prefix, "seed": self.seed,
            load: levels, "arrivals": self.arrivals, "in_flight_max": self.in_flight_max,
            "duration_s": self.duration.as_secs_f64(), "requests": self.requests, "slo": self.slo, "attain": self.attain,
            "max_cost_usd": self.max_cost, "body": self.members.keys().collect::<Vec<_>>(),
        })
    }
}

fn workload(options: &BenchOptions, config: &Config) -> Result<Workload, String> {
    let name = &options.workload;
    let known = Workload::named(name, config)?;
    let (input, output) = (options.input_tokens, options.output_tokens);
    if input.is_none() && output.is_none() {
        let given = [("prompts", options.prompts.is_some()), ("sessions", options.sessions.is_some())];
        let name = given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned());
        return Ok(Workload { name: name.unwrap_or(known.name), ..known });
    }
    let (input, output) = (input.unwrap_or(known.input_tokens), output.unwrap_or(known.output_tokens));
    Ok(Workload::new(&format!("{input}/{output}"), input, output))
}

fn members(options: &BenchOptions) -> Result<Map<String, Value>, String> {
    const OURS: [&str; 3] = ["model", "stream", "messages"];
    let Some(text) = &options.body else { return Ok(Map::new()) };
    let members: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("--body: expected a JSON object: {error}"))?;
    if let Some(name) = OURS.iter().find(|name| members.contains_key(**name)) {
        return Err(format!("--body: the benchmark itself sets \"{name}\""));
    }
    check_lengths(&members).map_err(|what| format!("--body: {what}"))?;
    Ok(members)
}

/// Without a number nothing would bound what a request costs.
fn check_lengths(members: &Map<String, Value>) -> Result<(), String> {
    let is_wrong =
        |name: &&&str| members.get(**name).is_some_and(|value| value.as_u64().is_none_or(|number| number == 0));
    match ANSWER_BOUNDS.iter().chain([&CHOICES]).find(is_wrong) {
        Some(name) => Err(format!("\"{name}\" is no whole number above 0")),
        None => Ok(()),
    }
}

fn sessions(options: &BenchOptions, config: &Config) -> Result<Option<SessionSource>, String> {
    let Some(path) = &options.sessions else {
        let is_agent = options.workload == AGENT.0 && options.prompts.is_none();
        return Ok((is_agent && !config.workloads.contains_key(AGENT.0)).then_some(SessionSource::Agent));
    };
    let mut reader = ConversationReader::default();
    each_line(path, "--sessions", |row| reader.row(row))?;
    Ok(Some(SessionSource::Given(reader.finish().into())))
}

fn prompts(path: &Path) -> Result<Vec<Map<String, Value>>, String> {
    let mut prompts = Vec::new();
    each_line(path, "--prompts", |mut body| {
        if let Some(prompt) = body.remove("prompt") {
            let Value::String(prompt) = prompt else { return Err("\"prompt\" is no text".to_owned()) };
            body.insert("messages".to_owned(), json!([{ "role": "user", "content": prompt }]));
        }
        if !body.get("messages").is_some_and(Value::is_array) {
            return Err("expected \"prompt\" or \"messages\"".to_owned());
        }
        check_lengths(&body)?;
        body.remove("model");
        prompts.push(body);
        Ok(())
    })?;
    Ok(prompts)
}

/// One JSON object per line. An error names the line, and not what is in it.
fn each_line(
    path: &Path,
    option: &str,
    mut take: impl FnMut(Map<String, Value>) -> Result<(), String>,
) -> Result<(), String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{option}: cannot read {shown}: {error}"))?;
    let mut count = 0;
    let (mut lines, mut line, mut number) = (BufReader::new(file), Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let read = std::io::Read::take(&mut lines, LINE_MAX as u64 + 1).read_until(b'\n', &mut line);
        let wrong = |what: &str| Err(format!("{option}: {shown}:{number}: {what}"));
        match read {
            Err(error) => return wrong(&error.to_string()),
            Ok(0) => break,
            Ok(_) if line.len() > LINE_MAX => return wrong("the line is longer than 8 MiB"),
            Ok(_) if line.trim_ascii().is_empty() => continue,
            Ok(_) => {}
        }
        if count == PROMPTS_MAX {
            return wrong("more than 100,000 lines");
        }
        let Ok(body) = serde_json::from_slice::<Map<String, Value>>(&line) else {
            return wrong("expected a JSON object");
        };
        count += 1;
        take(body).or_else(|what| wrong(&what))?;
    }
    if count == 0 { Err(format!("{option}: {shown} has no prompt")) } else { Ok(()) }
}

#[cfg(test)]
pub(super) mod tests;
