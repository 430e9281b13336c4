//! What a provider of the config speaks, where, and how it takes a key.

use super::*;
use crate::{CredentialSource, ProviderDialect};
use photofinish_wire::{Dialect, Surface};

/// The dialects of a provider with their addresses.
fn spoken(text: &str, provider: &str) -> Vec<(Dialect, String)> {
    let config = good(text);
    let dialects = &config.providers[provider].dialects;
    assert_eq!(config.providers[provider].base_url, dialects[0].base_url);
    dialects.iter().map(|spoken| (spoken.dialect, spoken.base_url.clone())).collect()
}

fn named(text: &str, provider: &str) -> String {
    let show = |(dialect, url): (Dialect, String)| format!("{} {url}", dialect.as_str());
    spoken(text, provider).into_iter().map(show).collect::<Vec<_>>().join(", ")
}

#[test]
fn dialects_are_those_of_the_catalogue_or_those_that_are_named() {
    for (text, provider, expected) in [
        (
            "[providers.gemini]",
            "gemini",
            "gemini https://generativelanguage.googleapis.com/v1beta, \
             openai https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        (
            "[providers.gemini]\ndialect = \"openai\"",
            "gemini",
            "openai https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        (
            "[providers.groq]\ndialect = [\"responses\", \"openai\"]",
            "groq",
            "responses https://api.groq.com/openai/v1, openai https://api.groq.com/openai/v1",
        ),
        (
            "[providers.deepseek]",
            "deepseek",
            "openai https://api.deepseek.com, anthropic https://api.deepseek.com/anthropic/v1",
        ),
        ("[providers.anthropic]", "anthropic", "anthropic https://api.anthropic.com/v1"),
        ("[providers.anthropic]\ndialect = \"openai\"", "anthropic", "openai https://api.anthropic.com/v1"),
        ("[providers.own]\nbase_url = \"http://h/v1/\"", "own", "openai http://h/v1"),
        (
            "[providers.own]\nbase_url = \"http://h/v1\"\ndialect = [\"anthropic\", \"gemini\"]",
            "own",
            "anthropic http://h/v1, gemini http://h/v1",
        ),
        // What is at another path in the catalogue is not believed to be at this one.
        ("[providers.gemini]\nbase_url = \"http://h/x\"", "gemini", "openai http://h/x"),
        (
            "[providers.ollama]\nbase_url = \"http://h/v1\"",
            "ollama",
            "openai http://h/v1, responses http://h/v1, anthropic http://h/v1",
        ),
        ("[providers.ollama]\nbase_url = \"http://h\"\ndialect = \"ollama\"", "ollama", "ollama http://h"),
        (
            "[providers.vertex]\nproject = \"p\"",
            "vertex",
            "gemini https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
        ),
        (
            "[providers.vertex]\nproject = \"p\"\nlocation = \"europe-west4\"\ndialect = \"openai\"",
            "vertex",
            "openai https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/endpoints/openapi",
        ),
        ("[providers.bedrock]", "bedrock", "bedrock https://bedrock-runtime.us-east-1.amazonaws.com"),
        (
            "[providers.bedrock]\nregion = \"eu-central-1\"",
            "bedrock",
            "bedrock https://bedrock-runtime.eu-central-1.amazonaws.com",
        ),
        ("[providers.sim]\nsimulate = {}", "sim", "openai "),
        ("models.m.upstreams = [\"bedrock/x\"]", "bedrock", "bedrock https://bedrock-runtime.us-east-1.amazonaws.com"),
    ] {
        assert_eq!(named(text, provider), expected, "{text}");
    }
}

#[test]
fn a_catalogue_provider_needs_no_table() {
    let env = |name: &str| match name {
        "GROQ_API_KEY" => Some("planted".to_owned()),
        "AZURE_OPENAI_API_KEY" => Some("no address".to_owned()),
        "OPENAI_API_KEY" => Some("two words".to_owned()),
        "XAI_API_KEY" | "MISTRAL_API_KEY" => Some(" ".to_owned()),
        _ => None,
    };
    let config = parse("users.a = { token = \"t\", keys = { cerebras = \"own\" } }", Path::new("x"), &env).unwrap();
    let names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    assert_eq!(names, ["cerebras", "groq"], "a user has a key, the variable is set");
    assert_eq!(keys(&config.providers["groq"]), ["planted"]);
    assert!(!config.providers["cerebras"].is_on() && config.provider_is_on(&config.providers["cerebras"]));
    let bad: Vec<&String> = config.warnings.iter().filter(|warning| warning.contains("_KEY")).collect();
    assert_eq!(bad, ["OPENAI_API_KEY is set and cannot be used as a key: requests cannot name openai"]);
    let listed = parse("[providers.groq]\napi_key = \"${UNSET}\"", Path::new("x"), &env).unwrap();
    assert!(!listed.providers["groq"].is_on(), "the table counts, not the variable");
}

#[test]
fn the_region_may_be_in_the_usual_variable() {
    let env = |name: &str| (name == "AWS_REGION").then(|| "eu-west-3".to_owned());
    let config = parse("[providers.bedrock]\napi_key = \"k\"", Path::new("x"), &env).unwrap();
    let bedrock = config.providers["bedrock"].preferred();
    assert_eq!(bedrock.base_url, "https://bedrock-runtime.eu-west-3.amazonaws.com");
    assert_eq!(bedrock.auth, Auth::SigV4 { region: "eu-west-3".to_owned() });
}

#[test]
fn a_key_goes_where_the_dialect_takes_it() {
    let auth = |text: &str, provider: &str, dialect: Dialect| -> ProviderDialect {
        let config = good(text);
        config.providers[provider].dialects.iter().find(|spoken| spoken.dialect == dialect).unwrap().clone()
    };
    let header = |name: &str| Auth::Header(name.to_owned());
    for (text, provider, dialect, expected) in [
        ("[providers.gemini]", "gemini", Dialect::Gemini, header("x-goog-api-key")),
        ("[providers.gemini]", "gemini", Dialect::OpenAi, Auth::Bearer),
        ("[providers.vertex]\nproject = \"p\"", "vertex", Dialect::Gemini, Auth::Bearer),
        ("[providers.openrouter]", "openrouter", Dialect::Anthropic, Auth::Bearer),
        ("[providers.deepseek]", "deepseek", Dialect::Anthropic, header("x-api-key")),
        (
            "[providers.own]\nbase_url = \"http://h\"\ndialect = \"anthropic\"",
            "own",
            Dialect::Anthropic,
            header("x-api-key"),
        ),
    ] {
        let spoken = auth(text, provider, dialect);
        assert_eq!(spoken.auth, expected, "{text}");
        assert_eq!(spoken.headers.contains_key("anthropic-version"), dialect == Dialect::Anthropic, "{text}");
    }
}

#[test]
fn a_surface_is_asked_in_its_own_dialect_or_translated() {
    let config = good("[providers.gemini]\n[providers.anthropic]\n[providers.groq]");
    let asked =
        |provider: &str, surface: Surface| config.providers[provider].spoken_for(surface).map(|spoken| spoken.dialect);
    assert_eq!(asked("gemini", Surface::Chat), Some(Dialect::OpenAi));
    assert_eq!(asked("gemini", Surface::Messages), Some(Dialect::Gemini));
    assert_eq!(asked("gemini", Surface::CountTokens), None);
    assert_eq!(asked("gemini", Surface::Embeddings), Some(Dialect::OpenAi));
    assert_eq!(asked("anthropic", Surface::Embeddings), None);
    assert_eq!(asked("anthropic", Surface::CountTokens), Some(Dialect::Anthropic));
    assert_eq!(asked("groq", Surface::Responses), Some(Dialect::Responses));
}

#[test]
fn a_dated_azure_names_the_deployment_in_the_path() {
    let azure = |lines: &str| good(&format!("[providers.azure]\nbase_url = \"https://r.example/openai\"\n{lines}"));
    let path = |config: &Config, dialect: Dialect, surface: Surface| {
        let provider = &config.providers["azure"];
        let spoken = provider.dialects.iter().find(|spoken| spoken.dialect == dialect).unwrap();
        provider.path(spoken, surface, "gpt 4o/mini", photofinish_wire::AnswerForm::Streamed).into_owned()
    };
    let (dated, plain) = (azure("api_version = \"2024-10-21\""), azure(""));
    for (surface, expected) in [
        (Surface::Chat, "/deployments/gpt%204o%2Fmini/chat/completions?api-version=2024-10-21"),
        (Surface::Embeddings, "/deployments/gpt%204o%2Fmini/embeddings?api-version=2024-10-21"),
        (Surface::Completions, "/deployments/gpt%204o%2Fmini/completions?api-version=2024-10-21"),
    ] {
        assert_eq!(path(&dated, Dialect::OpenAi, surface), expected);
    }
    assert_eq!(path(&dated, Dialect::Responses, Surface::Responses), "/responses?api-version=2024-10-21");
    assert_eq!(path(&plain, Dialect::OpenAi, Surface::Chat), "/chat/completions");
}

#[test]
fn aws_credentials_are_one_key_and_a_token_is_none_yet() {
    let env = |name: &str| match name {
        "ID" => Some("AKID".to_owned()),
        "SECRET" => Some("planted/secret".to_owned()),
        "SESSION" => Some("session".to_owned()),
        _ => None,
    };
    let read = |text: &str| parse(&format!("[providers.bedrock]\n{text}"), Path::new("x"), &env).unwrap();
    let config = read("aws = { access_key_id = \"${ID}\", secret_access_key = \"${SECRET}\" }");
    assert_eq!(keys(&config.providers["bedrock"]), ["AKID:planted/secret"]);
    let config =
        read("aws = { access_key_id = \"${ID}\", secret_access_key = \"${SECRET}\", session_token = \"${SESSION}\" }");
    assert_eq!(keys(&config.providers["bedrock"]), ["AKID:planted/secret:session"]);
    let lent = "aws = { access_key_id = \"${ID}\", secret_access_key = \"${NONE}\", session_token = \"${NONE2}\" }";
    let off = read(lent);
    assert_eq!(off.providers["bedrock"].why_off().unwrap(), "NONE is not set");

    let config = good("[providers.x]\nbase_url = \"http://h\"\ntoken = { command = [\"mint\", \"-v\"] }");
    let provider = &config.providers["x"];
    let Keys::Token(token) = &provider.keys else { panic!("{provider:?}") };
    assert_eq!(token.source, CredentialSource::Command(vec!["mint".to_owned(), "-v".to_owned()]));
    assert_eq!(token.refresh, Duration::from_secs(45 * 60));
    assert!(!provider.is_on() && provider.why_off().unwrap().contains("the command mint"));
    token.put("planted").unwrap();
    assert!(provider.is_on() && provider.why_off().is_none());
    assert!(!format!("{config:?}").contains("planted"));
}

#[test]
fn origins_are_read() {
    assert_eq!(good("").server.cors, Cors::None);
    assert_eq!(good("server.cors = []").server.cors, Cors::None);
    assert_eq!(good("server.cors = [\"*\"]").server.cors, Cors::Any);
    assert_eq!(good("server.cors = \"*\"").server.cors, Cors::Any);
    let some = good("server.cors = [\"https://App.example.com\", \"http://[::1]:5173\", \"app://obsidian.md\"]");
    let expected = ["https://app.example.com", "http://[::1]:5173", "app://obsidian.md"].map(str::to_owned);
    assert_eq!(some.server.cors, Cors::Only(expected.to_vec()));
}

#[test]
fn names_of_the_gateway_are_read() {
    assert!(good("").server.hosts.is_empty());
    let hosts = good("server.hosts = [\"Gateway.internal.\", \"my_box-2\"]").server.hosts;
    assert_eq!(hosts, ["gateway.internal", "my_box-2"]);
}

#[test]
fn what_is_wrong_with_a_provider_is_said_where_it_is() {
    for (text, expected) in [
        (
            "[providers.own]\nbase_url = \"http://h\"\ndialect = [\"openai\", \"antropic\"]",
            "x:3:22: bad value \"antropic\" for \"dialect\" in [providers.own]; expected one of openai, responses, ",
        ),
        (
            "[providers.own]\nbase_url = \"http://h\"\ndialect = [\"openai\", \"antropic\"]",
            "; did you mean \"anthropic\"?",
        ),
        ("[providers.own]\nbase_url = \"http://h\"\ndialect = []", "\"dialect\" in [providers.own] is an empty list"),
        ("[providers.own]\nbase_url = \"http://h\"\ndialect = [\"gemini\", \"gemini\"]", "has \"gemini\" twice"),
        (
            "[providers.groq]\ndialect = \"gemini\"",
            "x:2:11: [providers.groq] is not known to speak gemini; expected base_url, or one of openai, responses",
        ),
        ("[providers.vertex]", "[providers.vertex] has no address; expected project = \"…\", or base_url"),
        ("models.m.upstreams = [\"vertex/x\"]", "a table [providers.vertex] with project = \"…\", or base_url"),
        ("[providers.groq]\nregion = \"us-east-1\"", "\"region\" in [providers.groq] has no effect"),
        ("[providers.groq]\nproject = \"p\"", "\"project\" in [providers.groq] has no effect"),
        ("[providers.anthropic]\napi_version = \"1\"", "\"api_version\" in [providers.anthropic] has no effect"),
        ("[providers.groq]\naws = { access_key_id = \"a\", secret_access_key = \"b\" }", "\"aws\" in [providers.groq]"),
        (
            "[providers.bedrock]\naws = { access_key_id = \"a\" }",
            "aws of [providers.bedrock] has no \"secret_access_key\"",
        ),
        ("[providers.bedrock]\naws = { access_key_id = \"a:b\", secret_access_key = \"c\" }", "has a colon in it"),
        ("[providers.bedrock]\nregion = \"a/b\"", "bad value \"a/b\" for \"region\""),
        ("[providers.groq]\napi_key = \"k\"\ntoken = { file = \"/t\" }", "[providers.groq] has api_key and token"),
        ("[providers.groq]\ntoken = {}", "token of [providers.groq] has neither a command nor a file"),
        ("[providers.groq]\ntoken = { file = \"/t\", command = [\"c\"] }", "has both a command and a file"),
        ("[providers.groq]\ntoken = { command = [] }", "is no command"),
        ("[providers.groq]\ntoken = { file = \"/t\", refresh = \"0s\" }", "expected 1s to 365d"),
        ("[providers.s]\nsimulate = {}\ndialect = \"openai\"", "is simulated and has \"dialect\" too"),
        ("server.cors = [\"app.example.com\"]", "bad value \"app.example.com\" for \"cors\" in [server]"),
        ("server.cors = [\"https://h/path\"]", "bad value"),
        ("server.cors = [\"*\", \"https://h\"]", "has \"*\" and origins"),
        (
            "[server]\nhosts = [\"ok\", \"gw.internal:8080\"]",
            "x:2:16: bad value \"gw.internal:8080\" for \"hosts\" in [server]; expected a name without scheme and port, \
             such as \"gateway.internal\"; localhost and IP addresses always work",
        ),
        ("server.hosts = [\"http://gw\"]", "bad value"),
        ("server.hosts = [\"*\"]", "bad value"),
        ("server.hosts = [\"*.internal\"]", "bad value"),
        ("server.hosts = [\"\"]", "bad value"),
        ("server.hosts = [\".\"]", "bad value"),
        ("server.hosts = [\"a..b\"]", "bad value"),
        ("server.hosts = [\"gw.internal/\"]", "bad value"),
        ("server.hosts = [7]", "x:1:17:"),
        ("race.lossy = \"keep\"", "expected one of prefer, refuse, drop"),
    ] {
        let problems = parse(text, Path::new("x"), &|_| None).unwrap_err().to_string();
        assert!(problems.contains(expected), "{text}\n{problems}\n{expected}");
    }
}
