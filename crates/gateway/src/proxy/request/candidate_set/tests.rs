//! Who is asked, over random requests and random facts about the upstreams.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::offerings::{InputKind, ModelCatalogue, Offering};
use photofinish_config::{Config, parse};
use photofinish_facts::recording::NoRecorder;
use photofinish_limits::LimitLevels;
use photofinish_transport::upstream::{UpstreamClient, system_resolver};

const UPSTREAMS: usize = 4;
/// Facts about the upstreams, each with this number of requests.
const CASES: u32 = 2_000;
const REQUESTS: usize = 50;

/// What a request has.
#[derive(Clone, Debug)]
struct Needs {
    tools: bool,
    schema: bool,
    image: bool,
    max_tokens: Option<i64>,
    text_bytes: usize,
}

impl Needs {
    fn body(&self) -> Value {
        let mut content = vec![json!({"type": "text", "text": "wo".repeat(self.text_bytes / 2)})];
        content.extend(self.image.then(|| json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}})));
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        if self.tools {
            body["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
        }
        if self.schema {
            body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "s"}});
        }
        if let Some(max_tokens) = self.max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        body
    }

    fn answer_tokens(&self) -> u64 {
        self.max_tokens.unwrap_or(0).max(0).unsigned_abs()
    }

    /// The facts say that it cannot serve this, without any estimate.
    fn explicitly_lacked_by(&self, facts: &Offering) -> bool {
        let sees = |kinds: &Vec<InputKind>| kinds.contains(&InputKind::Image);
        (self.tools && facts.tools == Some(false))
            || (self.schema && facts.schema == Some(false))
            || (self.image && facts.kinds.as_ref().is_some_and(|kinds| !sees(kinds)))
            || facts.max_output.is_some_and(|most| self.answer_tokens() > most)
            || facts.context.is_some_and(|context| self.answer_tokens() > context)
    }

    /// It can serve this even if each of the request's bytes is a token.
    fn surely_fits(&self, bytes: usize, facts: &Offering) -> bool {
        let most = bytes as u64;
        !self.explicitly_lacked_by(facts)
            && facts.context.is_none_or(|context| self.answer_tokens().saturating_add(most) <= context)
    }
}

fn needs() -> impl Strategy<Value = Needs> {
    let max_tokens = prop_oneof![Just(None), (0_i64..20_000).prop_map(Some), Just(Some(i64::MAX)), Just(Some(-1))];
    // Most prompts are short and some are not.
    let text_bytes = prop_oneof![15 => 0_usize..200, 1 => 0_usize..30_000];
    (any::<bool>(), any::<bool>(), any::<bool>(), max_tokens, text_bytes).prop_map(
        |(tools, schema, image, max_tokens, text_bytes)| Needs { tools, schema, image, max_tokens, text_bytes },
    )
}

fn facts() -> impl Strategy<Value = Offering> {
    let limit = || proptest::option::of(1_u64..20_000);
    (any::<Option<bool>>(), any::<Option<bool>>(), any::<Option<bool>>(), limit(), limit()).prop_map(
        |(tools, schema, sees, context, max_output)| Offering {
            tools,
            schema,
            kinds: sees.map(|sees| if sees { vec![InputKind::Text, InputKind::Image] } else { vec![InputKind::Text] }),
            context,
            max_output,
            ..Offering::default()
        },
    )
}

/// What is known of an upstream, and whether its provider lists it.
type Known = (Option<Offering>, bool);

/// The model `m` with these upstreams.
fn config(known: &[Known]) -> Config {
    let mut text = "[models.m]\nupstreams = [".to_owned();
    (0..UPSTREAMS).for_each(|place| text += &format!("\"p{place}/m\", "));
    text += "]\n";
    for place in 0..UPSTREAMS {
        text += &format!(
            "[providers.p{place}]\nbase_url = \"http://p{place}.test\"\ndialect = \"openai\"\napi_key = \"k\"\n"
        );
    }
    let mut config = parse(&text, Path::new("x"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    let model = Arc::make_mut(config.models.get_mut("m").unwrap());
    for (upstream, (facts, is_listed)) in model.upstreams.iter_mut().zip(known) {
        upstream.unlisted = (!is_listed).then(|| "today".into());
        upstream.context = facts.as_ref().and_then(|facts| facts.context);
        upstream.offering = facts.clone().map(Arc::new);
    }
    config
}

fn gateway() -> Arc<Gateway> {
    let live = LiveConfig::new(config(&[]), &HashMap::new()).unwrap();
    let shutdown = Shutdown::new();
    let client = UpstreamClient::with_resolver(shutdown.clone(), system_resolver()).unwrap();
    Arc::new(Gateway::new(live, client, Arc::new(NoRecorder), shutdown))
}

#[tokio::test]
async fn a_model_without_a_host_names_the_keys_that_would_help() {
    let catalogue = ModelCatalogue::built_in();
    // Its vendor has named no day of retirement: the test holds on any day.
    let lasting = |hosts: &[Arc<Offering>]| {
        hosts.iter().any(|host| host.provider == "anthropic" && !host.is_retired("9999-12-31"))
    };
    let (model, _) = catalogue.models().find(|(_, model)| lasting(&model.hosts)).unwrap();
    let text = format!("[models.\"{model}\"]\naliases = [\"sonnet\"]");
    let config = parse(&text, Path::new("x"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    let live = LiveConfig::new(config, &HashMap::new()).unwrap();
    let caller = Caller::new(&live, None, &HeaderMap::new()).unwrap();
    let body = Bytes::from(json!({"model": "sonnet", "messages": [{"role": "user", "content": "x"}]}).to_string());
    let request = Arc::new(ApiRequest::parse(Surface::Chat, body).unwrap());
    let refused = resolve(
        &gateway(),
        &live,
        &caller,
        &request,
        ((&Overrides::default(), false), &LimitLevels::default()),
        false,
        &StillWanted::anyhow(),
    );
    let refused = format!("{:?}", refused.err().unwrap());
    assert!(refused.contains("no provider that is on may serve it: anthropic (ANTHROPIC_API_KEY)"), "{refused}");
}

#[tokio::test]
async fn an_explicit_lack_leaves_an_upstream_out_and_an_estimate_refuses_nobody() {
    let live = |known: &[Known]| LiveConfig::new(config(known), &HashMap::new()).unwrap();
    let gateway = gateway();
    let catalogue = proptest::collection::vec((proptest::option::weighted(0.8, facts()), any::<bool>()), UPSTREAMS);
    let cases = (catalogue, proptest::collection::vec(needs(), REQUESTS));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(CASES));
    let checked = runner.run(&cases, |(known, requests)| {
        let live = live(&known);
        let listed: [bool; UPSTREAMS] = std::array::from_fn(|place| known[place].1);
        let known: [Offering; UPSTREAMS] = std::array::from_fn(|place| known[place].0.clone().unwrap_or_default());
        let caller = Caller::new(&live, None, &HeaderMap::new()).map_err(|_| TestCaseError::fail("no caller"))?;
        for needs in requests {
            let body = Bytes::from(needs.body().to_string());
            let surely_fits = known.each_ref().map(|facts| needs.surely_fits(body.len(), facts));
            let request = Arc::new(ApiRequest::parse(Surface::Chat, body).unwrap());
            let overrides = Overrides::default();
            let chosen = resolve(
                &gateway,
                &live,
                &caller,
                &request,
                ((&overrides, false), &LimitLevels::default()),
                false,
                &StillWanted::anyhow(),
            );
            let Ok(chosen) = chosen else { return Err(TestCaseError::fail("refused")) };
            let asked: Vec<usize> =
                (0..UPSTREAMS).filter(|place| chosen.each().any(|one| one.name == format!("p{place}/m"))).collect();
            prop_assert!(!asked.is_empty());
            prop_assert_eq!(asked.len() + chosen.unable.len(), UPSTREAMS, "each is asked or has a reason");
            // The first choice are those that are listed, whatever the facts say of them.
            let in_reach = |place: usize| listed[place] || !listed.contains(&true);
            prop_assert!(asked.iter().all(|place| in_reach(*place)), "{:?}", needs);
            if (0..UPSTREAMS).any(|place| surely_fits[place] && in_reach(place)) {
                let lacking = asked.iter().find(|place| needs.explicitly_lacked_by(&known[**place]));
                prop_assert_eq!(lacking, None, "{:?}", needs);
            }
            let fits = (0..UPSTREAMS).find(|place| surely_fits[*place] && in_reach(*place) && !asked.contains(place));
            prop_assert_eq!(fits, None, "{:?}", needs);
        }
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}
