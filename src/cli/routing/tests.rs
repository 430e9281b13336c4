//! The table as it looks, and how the gateway is found and asked.

use clap::Parser as _;
use secrecy::ExposeSecret as _;

use super::*;
use photofinish_config::Listen;
use photofinish_routing::status::{
    BreakerReport, CostUnit, ModelReport, PredictionReport, StatusReason, UpstreamReport,
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: RoutingOptions,
}

fn upstream(name: &str, p50_ms: Option<f64>) -> UpstreamReport {
    let predicted = |(input_tokens, factor)| PredictionReport {
        input_tokens,
        ttft_p50_ms: p50_ms.map(|ms| ms * factor),
        ttft_p95_ms: p50_ms.filter(|ms| *ms < 300.0).map(|ms| 2.5 * ms * factor),
        whole_p50_ms: None,
        whole_p95_ms: None,
    };
    UpstreamReport {
        upstream: name.to_owned(),
        models: vec!["demo".to_owned()],
        on: true,
        predicted: [(500, 1.0), (2_000, 1.2), (8_000, 1.6)].map(predicted).to_vec(),
        whole_answers: false,
        level: 0.0,
        level_factor: 1.0,
        load_slope: 0.1,
        tpot_ms: p50_ms.map(|_| 8.25),
        samples: p50_ms.map_or(0.0, |_| 49.4),
        launches: 60,
        in_flight: p50_ms.map_or(0, |_| 2),
        throttled: false,
        caching: 0.0,
        breaker: BreakerReport::Closed,
        breaker_wait_s: None,
        cooling_down_s: None,
        last_observation_s: p50_ms.map(|_| 3.0),
        learnt: Vec::new(),
        refuses: Vec::new(),
        quality: Vec::new(),
    }
}

/// A model with one of everything.
fn routing() -> RoutingReport {
    let why = [
        ("sim/quick", "best", "the best for ttft"),
        ("sim/late", "slower", "TTFT p50 400 ms, 3.3 × that of sim/quick"),
        ("sim/broken", "breaker", "it kept failing: not tried for another 9s"),
        ("groq/m", "off", "groq is off because GROQ_API_KEY is not set"),
    ];
    let reason = |(upstream, code, text): (&str, &str, &str)| StatusReason {
        upstream: upstream.to_owned(),
        code: code.to_owned(),
        text: text.to_owned(),
    };
    let broken = UpstreamReport {
        breaker: BreakerReport::Open,
        breaker_wait_s: Some(9.0),
        ..upstream("sim/broken", Some(90.0))
    };
    let late =
        UpstreamReport { level_factor: 1.31, last_observation_s: Some(7_300.0), ..upstream("sim/late", Some(400.0)) };
    let limited = UpstreamReport { models: Vec::new(), cooling_down_s: Some(130.0), ..upstream("sim/other", None) };
    let off = UpstreamReport { on: false, ..upstream("groq/m", None) };
    RoutingReport {
        now_us: 1_795_176_819_000_000,
        upstreams: vec![upstream("sim/quick", Some(120.0)), late, broken, off, limited],
        models: vec![ModelReport {
            model: "demo".to_owned(),
            alias_of: None,
            policy: "adaptive".to_owned(),
            learns: true,
            optimise: "ttft".to_owned(),
            budget: 0.1,
            bucket: Some(0.0123),
            bucket_capacity: 0.02,
            extras_share: Some(0.043),
            rescues_share: Some(0.002),
            unit: CostUnit::Usd,
            lambda_ms: 240.4,
            mean_cost: 0.001,
            ttft_p99_ms: 812.0,
            answer_tokens: 60.0,
            whole_answers: false,
            order: vec!["sim/quick".to_owned(), "sim/late".to_owned()],
            why: why.map(reason).to_vec(),
        }],
        left_out: 0,
    }
}

/// With everything.
fn drawn(routing: &RoutingReport, width: Option<usize>, colour: bool) -> String {
    drawn_in(routing, Detail { wide: true, explain: true, whole: table::has_whole(routing) }, width, colour)
}

fn drawn_in(routing: &RoutingReport, detail: Detail, width: Option<usize>, colour: bool) -> String {
    let mut out = Vec::new();
    table::write(routing, detail, width, colour, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const BRIEF: &str = r"demo: policy adaptive, best by time to first token
last hour: extras cost 4.3 % of single attempts, rescues 0.2 %
 upstream    TTFT p50  state     why
 sim/quick     120 ms  ok        the best for ttft
 sim/late      400 ms  ok        TTFT p50 400 ms, 3.3 × that of sim/quick
 sim/broken     90 ms  open 9 s  it kept failing: not tried for another 9s
 groq/m             –  off       groq is off because GROQ_API_KEY is not set

Upstreams that callers named themselves:
 upstream   TTFT p50  state
 sim/other         –  cools 2 min

Times are predicted for a prompt of 500 tokens; more: --wide, --explain
";

#[test]
fn the_default_fits_a_laptop() {
    let text = drawn_in(&routing(), Detail { wide: false, explain: false, whole: false }, Some(80), false);
    assert_eq!(text, BRIEF, "{text}");
}

#[test]
fn whole_answers_are_shown_where_any_is_known() {
    let mut routing = routing();
    for (place, factor) in [1.0, 1.2, 1.6].into_iter().enumerate() {
        let predicted = &mut routing.upstreams[0].predicted[place];
        (predicted.ttft_p50_ms, predicted.ttft_p95_ms) = (None, None);
        (predicted.whole_p50_ms, predicted.whole_p95_ms) = (Some(1_500.0 * factor), Some(4_000.0 * factor));
    }
    routing.models[0].whole_answers = true;
    let brief = Detail { wide: false, explain: false, whole: table::has_whole(&routing) };
    let text = drawn_in(&routing, brief, Some(100), false);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(text.starts_with("demo: policy adaptive, best by time to the whole answer,"), "{text}");
    assert_eq!(lines[2], ["upstream", "TTFT", "p50", "whole", "p50", "state", "why"]);
    assert_eq!(lines[3][..6], ["sim/quick", "–", "1500", "ms", "ok", "the"]);
    assert_eq!(lines[4][..5], ["sim/late", "400", "ms", "–", "ok"]);
    let text = drawn(&routing, None, false);
    for words in ["whole 8k", "1500 / 4000 ms", "2400 / 6400 ms", "whole 500, whole p50: the same of"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

const WIDE: &str = r"demo: policy adaptive, best by time to first token
last hour: extras cost 4.3 % of single attempts, rescues 0.2 %
budget 10 %: $0.0123 of $0.0200 to spend on extras; one of mean cost ($0.001) must save 240 ms (λ); client
TTFT p99 812 ms, answers of 60 tokens
 upstream             500            2k            8k    now  load    TPOT  seen  running  used  state     why
 sim/quick   120 / 300 ms  144 / 360 ms  192 / 480 ms  ×1.00  0.10  8.2 ms    49        2   3 s  ok        the best for ttft
 sim/late      400 / – ms    480 / – ms    640 / – ms  ×1.31  0.10  8.2 ms    49        2   2 h  ok        TTFT p50 400 ms, 3.3 × that of sim/quick
 sim/broken   90 / 225 ms  108 / 270 ms  144 / 360 ms  ×1.00  0.10  8.2 ms    49        2   3 s  open 9 s  it kept failing: not tried for another 9s
 groq/m                 –             –             –  ×1.00  0.10       –     0        0     –  off       groq is off because GROQ_API_KEY is not set

Upstreams that callers named themselves:
 upstream   500  2k  8k    now  load  TPOT  seen  running  used  state
 sim/other    –   –   –  ×1.00  0.10     –     0        0     –  cools 2 min

500, 2k, 8k: TTFT predicted for prompts of this many tokens, p50 / p95; –: too few samples.
now: how much slower than usual it is at the moment. load: slope of ln TTFT over ln(1 + running).
TPOT: usual time for each token after the first. running: attempts there now. used: time since then.
seen: observations behind the predictions; old ones and early cancels count less.
state: off: no key; cools: cooling down; open, on trial: its breaker; throttled: fails often, no hedges to it.
why: for a prompt of 500 tokens. Those that cannot be asked are last.
";

#[test]
fn a_table_for_each_model_best_first() {
    assert_eq!(drawn(&routing(), Some(160), false), WIDE);
}

#[test]
fn a_narrow_terminal_gets_blocks() {
    let text = drawn(&routing(), Some(60), false);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(text.contains("\nsim/late\n  500 400 / – ms"), "{text}");
    assert!(text.contains("state open 9 s") && text.contains("why groq is off because"), "{text}");
}

#[test]
fn colours_tell_who_is_in_and_who_is_out() {
    let text = drawn(&routing(), Some(300), true);
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(line(" sim/quick ").starts_with("\x1b[32m") && line(" sim/quick ").ends_with("\x1b[0m"), "{text}");
    assert!(line(" groq/m ").starts_with("\x1b[31m") && line(" sim/broken ").starts_with("\x1b[31m"), "{text}");
    assert!(line(" sim/late ").starts_with(' '), "{text}");
    assert!(!drawn(&routing(), None, false).contains('\x1b'));
}

#[test]
fn models_that_are_off_take_one_line() {
    let mut routing = routing();
    let mut off = routing.models[0].clone();
    off.model = "gpt".to_owned();
    off.why.retain(|reason| reason.code == "off");
    routing.models.push(off);
    let text = drawn(&routing, None, false);
    assert!(text.contains("Off, because none of their providers is on: gpt. More: --model NAME\n"), "{text}");
    assert!(!text.contains("gpt: policy"), "{text}");
    routing.models.remove(0);
    assert!(drawn(&routing, None, false).contains("gpt: policy"), "asked for by its name");
}

#[test]
fn what_is_not_known_is_said() {
    let mut routing = routing();
    let model = &mut routing.models[0];
    (model.bucket, model.unit, model.alias_of) = (None, CostUnit::Tokens, Some("llama".to_owned()));
    (model.policy, model.learns) = ("race".to_owned(), false);
    routing.left_out = 7;
    let text = drawn(&routing, None, false).replace('\n', " ");
    for words in ["demo (alias of llama): policy race", "decides nothing", "no cost is known yet", "7 more"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let empty = RoutingReport { upstreams: Vec::new(), models: Vec::new(), ..routing };
    assert!(drawn(&empty, None, false).contains("no models"));
}

#[test]
fn the_gateway_is_where_the_config_says_or_the_option() {
    for (listen, url) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("[::]:99", "http://[::1]:99"),
        ("10.0.0.5:80", "http://10.0.0.5:80"),
    ] {
        let listen = [Listen::Unix("/run/gateway.sock".into()), Listen::Tcp(listen.parse().unwrap())];
        assert_eq!(GatewayAddress::listening(&listen, false).unwrap().url, url);
        assert!(GatewayAddress::listening(&listen[..1], false).unwrap_err().to_string().contains("--url"));
        assert!(
            GatewayAddress::listening(&listen, true).unwrap_err().to_string().contains("https://gateway.example.com")
        );
    }
    let error =
        GatewayAddress::listening(&[Listen::Tcp("127.0.0.1:0".parse().unwrap())], false).unwrap_err().to_string();
    assert!(error.contains("--url"), "{error}");
    for url in ["http://gateway:8080/", "https://gateway.example/llm"] {
        let line = Line::try_parse_from(["routing", "--url", url, "--token", "planted"]).unwrap();
        assert_eq!(line.options.url.as_ref().unwrap().url, url.trim_end_matches('/'));
        assert_eq!(line.options.token.as_ref().unwrap().expose_secret(), "planted");
        assert!(!format!("{:?}", line.options).contains("planted"));
    }
    let error = Line::try_parse_from(["routing", "--url", "gateway:8080"]).err().unwrap().to_string();
    assert!(error.contains("http://127.0.0.1:8080"), "{error}");
}
