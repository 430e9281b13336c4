//! What is typed wrongly gives an error, and what is right becomes a request.

use std::path::Path;

use clap::Parser as _;
use serde_json::Value;

use super::*;
use photofinish_config::parse;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: RaceOptions,
}

const CONFIG: &str = r#"
    server.body_max = "1KiB"
    providers = { one = { simulate = {} }, two = { base_url = "http://127.0.0.2/v1", api_key = "${UNSET}" } }
    [models.both]
    upstreams = ["one/x", "two/y"]
    [models.none]
    upstreams = ["two/z"]
    [users.ann]
    token = "planted-token"
    keys = { two = "planted-key" }
"#;

fn asked(arguments: &[&str], input: &str) -> Result<RequestTemplate, String> {
    let options = Line::try_parse_from(["race"].iter().chain(arguments)).unwrap().options;
    let config = parse(CONFIG, Path::new("config.toml"), &|_| None).unwrap();
    RequestTemplate::new(&config, &options, input.as_bytes())
}

fn body(asked: &RequestTemplate) -> Value {
    serde_json::from_slice(&asked.body).unwrap()
}

#[test]
fn wrong_use_says_what_there_is() {
    for (arguments, input, words) in [
        (&["hi", "--model", "bot"][..], "", &["no model \"bot\"", "did you mean both?", "none"][..]),
        (&["hi", "--model", "both", "--user", "bob"], "", &["no user \"bob\"", "ann"]),
        (&["-", "--model", "both"], " \n", &["the prompt is empty"]),
        (&["-", "--model", "both"], &"x".repeat(1_025), &["larger than body_max"]),
        (&["hi", "--model", "both", "--policy", "a\nb"], "", &["--policy: expected visible characters"]),
    ] {
        let error = asked(arguments, input).map(drop).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
        assert!(!error.contains("planted"), "{error}");
    }
}

#[test]
fn the_model_may_be_left_out_where_it_is_obvious() {
    let model = |models: &str| {
        let options = Line::try_parse_from(["race", "hi"]).unwrap().options;
        let providers = "providers = { one = { simulate = {} }, two = { simulate = {} }, off.api_key = \"${UNSET}\", \
                         off.base_url = \"http://h/v1\" }\n";
        let config = parse(&format!("{providers}{models}"), Path::new("config.toml"), &|_| None).unwrap();
        RequestTemplate::new(&config, &options, "".as_bytes()).map(|asked| body(&asked)["model"].clone())
    };
    let (alone, races) =
        ("models.alone.upstreams = [\"one/x\"]\n", "models.races.upstreams = [\"one/x\", \"two/y\"]\n");
    let (off, again) = ("models.off.upstreams = [\"off/x\"]\n", "models.again.upstreams = [\"two/x\", \"one/y\"]\n");
    assert_eq!(model(&format!("{alone}{off}")), Ok("alone".into()));
    assert_eq!(model(&format!("{alone}{races}{off}")), Ok("races".into()));
    for unclear in [off.to_owned(), format!("{races}{again}")] {
        assert!(model(&unclear).is_err_and(|error| error.contains("--model is missing")), "{unclear}");
    }
}

#[test]
fn without_models_of_ones_own_the_widest_race_is_shown() {
    let options = Line::try_parse_from(["race", "hi"]).unwrap().options;
    let model = |keys: &'static [&'static str]| {
        let env = move |name: &str| keys.contains(&name).then(|| "planted".to_owned());
        let config = parse("", Path::new("config.toml"), &env).unwrap();
        RequestTemplate::new(&config, &options, "".as_bytes()).map(|asked| asked.upstreams.len())
    };
    assert_eq!(model(&["GROQ_API_KEY", "CEREBRAS_API_KEY"]), Ok(2));
    assert!(model(&["GROQ_API_KEY", "CEREBRAS_API_KEY", "TOGETHER_API_KEY"]).is_ok_and(|wide| wide > 2));
    assert!(model(&["GROQ_API_KEY"]).is_err_and(|error| error.contains("--model is missing")), "nothing races");
    // Dozens are counted.
    assert!(model(&["OPENAI_API_KEY"]).is_err_and(|error| error.len() < 120 && error.contains("`photofinish models`")));
}

#[test]
fn options_become_the_request_of_a_client() {
    let line = ["-", "--model", "both", "--system", "be brief", "--max-tokens", "7", "--policy", "hedge"];
    let line: Vec<&str> = line.into_iter().chain(["--hedge-after", "5ms", "--upstreams", "one/a, two/b"]).collect();
    let asked = asked(&line, "from a file").unwrap();
    let body = body(&asked);
    assert_eq!((&body["model"], &body["stream"], &body["max_tokens"]), (&"both".into(), &true.into(), &7.into()));
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0], json!({ "role": "system", "content": "be brief" }));
    assert_eq!(messages[1], json!({ "role": "user", "content": "from a file" }));
    let request = asked.request();
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!((header("x-photofinish-policy"), header("x-photofinish-hedge-after")), ("hedge", "5ms"));
    assert_eq!(header("x-photofinish-upstreams"), "one/a, two/b");
    assert_eq!(asked.upstreams, ["one/a", "two/b"]);
    let said = asked.in_words_of_options("header x-photofinish-policy: no. GET /v1/models lists what there is.");
    assert!(said.starts_with("--policy: no. the models of the configuration: both"), "{said}");
}

#[test]
fn the_lines_are_those_that_may_be_started() {
    assert_eq!(asked(&["hi", "--model", "both"], "").unwrap().upstreams, ["one/x"]);
    let of_ann = asked(&["hi", "--model", "both", "--user", "ann"], "").unwrap();
    assert_eq!(of_ann.upstreams, ["one/x", "two/y"]);
    assert_eq!(of_ann.user.as_ref().map(|user| user.name.as_str()), Some("ann"));
    let named = asked(&["hi", "--upstreams", "one/a,one/b"], "").unwrap();
    assert_eq!(named.upstreams, ["one/a", "one/b"]);
    assert_eq!(body(&named)["model"], "one/a,one/b");
    assert!(named.request().headers().get("x-photofinish-upstreams").is_none());
}

#[test]
fn a_prompt_is_not_shown_by_debug() {
    let options = Line::try_parse_from(["race", "planted-prompt", "--system", "planted-too"]).unwrap().options;
    assert!(!format!("{options:?}").contains("planted"));
}
