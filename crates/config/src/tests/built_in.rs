//! The configuration of a directory without a file: which variables switch a provider on.

use std::path::PathBuf;

use super::*;
use crate::load::{built_in, load_without_file};
use photofinish_base::files::FileLimits;

fn of(variables: &[(&str, &str)]) -> Config {
    let env = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
    built_in("", PathBuf::from("/state/photofinish.db"), None, &env).unwrap()
}

fn on(variables: &[(&str, &str)]) -> Vec<String> {
    of(variables).providers.into_keys().collect()
}

#[test]
fn a_key_under_any_of_its_usual_names_switches_its_provider_on() {
    for (variable, provider) in [
        ("OPENAI_API_KEY", "openai"),
        ("GEMINI_API_KEY", "gemini"),
        ("GOOGLE_API_KEY", "gemini"),
        ("GOOGLE_GENERATIVE_AI_API_KEY", "gemini"),
        ("CO_API_KEY", "cohere"),
        ("ZHIPU_API_KEY", "zai"),
    ] {
        let config = of(&[(variable, "planted")]);
        assert_eq!(config.providers.keys().collect::<Vec<_>>(), [provider], "{variable}");
        assert_eq!(keys(&config.providers[provider]), ["planted"], "{variable}");
        assert_eq!(config.providers[provider].key_sources, [variable]);
    }
    let config = of(&[("GROQ_API_KEY", "planted")]);
    assert_eq!(config.source, ConfigSource::BuiltIn(String::new()));
    assert_eq!(config.store.address, Path::new("/state/photofinish.db").into());
    assert_eq!(config.server.listen.len(), 1);
    assert!(config.server.listen[0].is_local() && !config.is_without_keys());
}

#[test]
fn what_is_no_key_for_the_gateway_switches_nothing_on() {
    for variables in [
        &[][..],
        &[("HF_TOKEN", "planted")],
        &[("AWS_ACCESS_KEY_ID", "planted"), ("AWS_SECRET_ACCESS_KEY", "planted")],
        &[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080")],
        &[("OPENAI_API_KEY", "")],
        &[("OPENAI_API_KEY", " \n")],
        &[("AZURE_OPENAI_API_KEY", "planted")],
        &[("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")],
    ] {
        let config = of(variables);
        assert!(config.is_without_keys(), "{variables:?}");
        assert!(config.warnings.iter().all(|warning| !warning.contains("planted")), "{:?}", config.warnings);
    }
    for placeholder in ["unused", "dummy", "none", "None", " UNUSED\n", "\"dummy\""] {
        let config = of(&[("OPENAI_API_KEY", placeholder)]);
        assert!(config.is_without_keys(), "{placeholder:?}");
        assert!(
            config.warnings.contains(&"OPENAI_API_KEY holds a placeholder and no key: openai is off".to_owned()),
            "{:?}",
            config.warnings
        );
    }
    let quoted = of(&[("GROQ_API_KEY", "\"planted\"")]);
    let warned: Vec<_> = quoted.warnings.iter().filter(|warning| warning.contains("quotes around it")).collect();
    assert!(
        matches!(&warned[..], [warned] if warned.starts_with("GROQ_API_KEY: ") && !warned.contains("planted")),
        "{warned:?}"
    );
    let broken = of(&[("OPENAI_API_KEY", "planted\nkey"), ("GROQ_API_KEY", "planted")]);
    assert_eq!(broken.providers.keys().collect::<Vec<_>>(), ["groq"]);
    assert!(broken.warnings.iter().any(|warning| warning.contains("OPENAI_API_KEY is set and cannot be used")));
}

#[test]
fn azure_is_where_its_endpoint_says() {
    let config = of(&[
        ("AZURE_API_KEY", "planted"),
        ("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"),
    ]);
    assert_eq!(config.providers["azure"].base_url, "https://mine.openai.azure.com/openai/v1");
    assert_eq!(on(&[("AZURE_API_KEY", "planted"), ("AZURE_OPENAI_ENDPOINT", "not a URL")]), [""; 0]);
}

#[test]
fn one_key_under_two_names_is_the_usual_one() {
    let config = of(&[("GOOGLE_API_KEY", "planted-other"), ("GEMINI_API_KEY", "planted-usual")]);
    assert_eq!(keys(&config.providers["gemini"]), ["planted-usual"]);
    let warned = "GEMINI_API_KEY and GOOGLE_API_KEY hold different keys: gemini uses that of GEMINI_API_KEY";
    assert!(config.warnings.contains(&warned.to_owned()), "{:?}", config.warnings);
    let same = of(&[("GOOGLE_API_KEY", "planted"), ("GEMINI_API_KEY", "planted")]);
    assert!(same.warnings.iter().all(|warning| !warning.contains("different")), "{:?}", same.warnings);
    let placeholder = of(&[("GOOGLE_API_KEY", "planted"), ("GEMINI_API_KEY", "dummy")]);
    assert_eq!(keys(&placeholder.providers["gemini"]), ["planted"]);
}

#[test]
fn a_provider_that_is_on_only_if_named_lights_up_when_a_model_names_it() {
    let env = |name: &str| (name == "HF_TOKEN").then(|| "planted".to_owned());
    let config = parse("models.m.upstreams = [\"huggingface/x\"]", Path::new("config.toml"), &env).unwrap();
    assert!(config.providers["huggingface"].is_on());
}

#[test]
fn a_reload_reads_what_the_start_proposed() {
    let text = "[providers]\na.simulate = {}\n[models.demo]\nupstreams = [\"a/x\"]";
    let (started, limits) = (load_without_file(text, None).unwrap(), FileLimits::once());
    let again = load_text(&ConfigText::read(&started.source, limits).unwrap(), None, limits).unwrap();
    assert_eq!(again.providers.keys().collect::<Vec<_>>(), started.providers.keys().collect::<Vec<_>>());
    assert!(again.models.contains_key("demo") && again.source == started.source);
}
