//! `proxy`, `ca_file` and the proxy variables: what each provider's connections are made through.

use super::*;

/// What each dialect of the provider `p` goes through.
fn through(provider: &str, variables: &[(&str, &str)]) -> Vec<Option<String>> {
    let env = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let text = format!("[providers.p]\n{provider}");
    let config =
        parse(&text, Path::new("config.toml"), &env).unwrap_or_else(|problems| panic!("{problems}\nin {text}"));
    let proxies =
        config.providers["p"].dialects.iter().map(|spoken| spoken.transport.proxy.as_ref().map(ToString::to_string));
    proxies.collect()
}

#[test]
fn the_environment_names_proxies_and_who_is_spared() {
    let https = "base_url = \"https://api.example.com/v1\"";
    let http = "base_url = \"http://vllm.internal:8000/v1\"";
    for (provider, variables, expected) in [
        (https, &[][..], None),
        (https, &[("HTTPS_PROXY", "http://proxy:3128")], Some("proxy:3128")),
        (https, &[("https_proxy", "proxy:3128")], Some("proxy:3128")),
        (https, &[("ALL_PROXY", "http://user:pass@[::1]:3128/")], Some("[::1]:3128")),
        (https, &[("HTTP_PROXY", "http://proxy:3128")], None),
        (https, &[("HTTPS_PROXY", "http://one"), ("ALL_PROXY", "http://two")], Some("one:80")),
        (https, &[("HTTPS_PROXY", ""), ("all_proxy", "http://two")], Some("two:80")),
        (http, &[("HTTP_PROXY", "http://proxy:3128")], Some("proxy:3128")),
        (http, &[("HTTPS_PROXY", "http://proxy:3128")], None),
        (https, &[("ALL_PROXY", "p:1"), ("NO_PROXY", "example.com")], None),
        (https, &[("ALL_PROXY", "p:1"), ("no_proxy", " x.test , .example.com")], None),
        (https, &[("ALL_PROXY", "p:1"), ("NO_PROXY", "*")], None),
        (https, &[("ALL_PROXY", "p:1"), ("NO_PROXY", "le.com,10.0.0.0/8")], Some("p:1")),
        ("base_url = \"http://10.1.2.3/v1\"", &[("ALL_PROXY", "p:1"), ("NO_PROXY", "10.0.0.0/8")], None),
        // This machine is never asked through a proxy.
        ("base_url = \"http://127.0.0.1:1/v1\"", &[("ALL_PROXY", "p:1")], None),
        ("base_url = \"http://[::1]:1/v1\"", &[("ALL_PROXY", "p:1")], None),
        ("base_url = \"http://LocalHost:1/v1\"", &[("ALL_PROXY", "p:1")], None),
        ("simulate = {}", &[("ALL_PROXY", "p:1")], None),
        // What the provider says goes first.
        ("base_url = \"https://a.test\"\nproxy = \"none\"", &[("ALL_PROXY", "p:1")], None),
        (
            "base_url = \"https://a.test\"\nproxy = \"http://own:1\"",
            &[("ALL_PROXY", "p:1"), ("NO_PROXY", "*")],
            Some("own:1"),
        ),
        ("base_url = \"https://a.test\"\nproxy = \"${OWN:-none}\"", &[("OWN", "http://own:1")], Some("own:1")),
    ] {
        assert_eq!(through(provider, variables), [expected.map(str::to_owned)], "{provider} {variables:?}");
    }
}

#[test]
fn a_provider_of_the_catalogue_without_a_table_goes_through_it_too() {
    let env = |name: &str| matches!(name, "HTTPS_PROXY" | "GROQ_API_KEY").then(|| "proxy:3128".to_owned());
    let config = parse("models.m.upstreams = [\"groq/x\"]", Path::new("config.toml"), &env).unwrap();
    assert!(config.providers["groq"].dialects.iter().all(|spoken| spoken.transport.proxy.is_some()));
}

#[test]
fn a_variable_that_is_no_proxy_is_a_warning_without_its_value() {
    for url in ["socks5h://user:planted@proxy:1080", "https://planted:443", "http://user:planted@:1", "http://"] {
        let env = |name: &str| (name == "HTTPS_PROXY").then(|| url.to_owned());
        let config = parse("[providers.p]\nbase_url = \"https://a.test\"", Path::new("x"), &env).unwrap();
        let warned = config.warnings.iter().any(|warning| warning.starts_with("the variable HTTPS_PROXY "));
        assert!(warned && !format!("{config:?}").contains("planted"), "{url}: {:?}", config.warnings);
    }
}

#[test]
fn a_proxy_s_password_is_sent_and_never_shown() {
    let config = good("[providers.p]\nbase_url = \"https://a.test\"\nproxy = \"http://us%65r:pl%40nted@proxy:3128\"");
    let proxy = config.providers["p"].preferred().transport.proxy.as_ref().unwrap();
    // user:pl@nted
    assert_eq!(proxy.authorization(), Some("Basic dXNlcjpwbEBudGVk"));
    let shown = format!("{config:?} {proxy}");
    assert!(
        !shown.contains("@nted")
            && !shown.contains("40nted")
            && !shown.contains("dXNlcjpw")
            && shown.contains("proxy:3128"),
        "{shown}"
    );
}

#[test]
fn authorities_are_told_apart_by_what_they_are() {
    let (one, two) = (certificates::folder(), certificates::folder());
    let own = |folder: &tempfile::TempDir, name: &str| {
        let path = folder.path().join(name);
        let config = good(&format!("[providers.p]\nbase_url = \"https://a.test\"\nca_file = \"{}\"", path.display()));
        assert_eq!(config.watched.keys().collect::<Vec<_>>(), [&path]);
        config.providers["p"].preferred().transport.clone()
    };
    assert_eq!(own(&one, "ca.pem"), own(&one, "cert.pem"), "the same certificate in two files");
    assert_ne!(own(&one, "ca.pem"), own(&two, "ca.pem"));
    for name in ["missing.pem", "empty.pem", "key.pem", "broken.pem"] {
        let path = one.path().join(name);
        let problems =
            bad(&format!("[providers.p]\nbase_url = \"https://a.test\"\nca_file = \"{}\"", path.display())).to_string();
        assert!(problems.starts_with("config.toml:3:11: \"ca_file\" in [providers.p] "), "{problems}");
    }
}
