//! Finds providers at an address that the gateway itself listens on: each request would come back and race again.
//!
//! Not for loops that the file does not show, such as a host name of this machine or a proxy that leads back.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;

use super::problem::LocatedProblem;
use super::raw::RawModel;
use super::reader::ReaderScope;
use super::{Listen, Provider};

impl Provider {
    /// One of its addresses is an address that the gateway listens on.
    pub fn is_at(&self, listen: &[Listen]) -> bool {
        let addresses: Vec<SocketAddr> = listen.iter().filter_map(Listen::address).collect();
        self.own_address(&addresses).is_some()
    }

    /// The first of these addresses that leads to the provider.
    fn own_address(&self, listen: &[SocketAddr]) -> Option<SocketAddr> {
        let leads_to = |listen: SocketAddr| self.dialects.iter().any(|spoken| leads_to(&spoken.base_url, listen));
        listen.iter().copied().find(|listen| leads_to(*listen))
    }
}

/// A provider that a model uses is one problem; an unused one is a warning.
pub(super) fn check(
    scope: &ReaderScope<'_>,
    listen: &[Listen],
    providers: &BTreeMap<String, Option<Arc<Provider>>>,
    models: &[RawModel],
) {
    let addresses: Vec<SocketAddr> = listen.iter().filter_map(Listen::address).collect();
    let mut own: BTreeMap<&str, SocketAddr> = BTreeMap::new();
    for provider in providers.values().flatten() {
        own.extend(provider.own_address(&addresses).map(|address| (provider.name.as_str(), address)));
    }
    for upstream in models.iter().flat_map(|model| &model.upstreams) {
        if let Some((name, address)) = own.remove_entry(upstream.provider.as_str()) {
            let message = format!("provider {name} is at {address}, where the gateway itself listens");
            let expected = format!("another port in base_url of [providers.{name}], or in \"listen\" in [server]");
            scope.report(LocatedProblem::at(upstream.offset, message).expected(expected));
        }
    }
    for (name, address) in own {
        scope.warn(format!(
            "provider {name} is at {address}, where the gateway itself listens: give one of them another port"
        ));
    }
}

/// The base URL is an address that the gateway listens on, judged by the URL alone.
fn leads_to(base_url: &str, listen: SocketAddr) -> bool {
    let Ok(uri) = base_url.parse::<Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    if uri.port_u16().unwrap_or(default) != listen.port() {
        return false;
    }
    let listens = listen.ip().to_canonical();
    if host.eq_ignore_ascii_case("localhost") {
        return listens.is_loopback() || listens.is_unspecified();
    }
    let Ok(host) = host.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    let host = host.to_canonical();
    // A connection to the unspecified address reaches this machine.
    let here = host.is_loopback() || host.is_unspecified();
    host == listens || (here && listens.is_unspecified()) || (host.is_unspecified() && listens.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, Problems, parse};

    fn read(listen: &str, base_url: &str, rest: &str) -> Result<Config, Problems> {
        let text = format!("server.listen = \"{listen}\"\nproviders.p.base_url = \"{base_url}\"\n{rest}");
        parse(&format!("{text}\n[users.a]\ntoken = \"t\""), Path::new("x"), &|_| None)
    }

    #[test]
    fn an_upstream_at_the_own_address_is_a_problem() {
        for (listen, base_url, own) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/v1", true),
            ("127.0.0.1:8080", "http://LocalHost:8080/v1", true),
            ("127.0.0.1:80", "http://127.0.0.1/v1", true),
            ("127.0.0.1:8080", "http://0.0.0.0:8080/v1", true),
            ("[::1]:8080", "http://[::1]:8080/v1", true),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1", true),
            ("[::]:8080", "http://localhost:8080/v1", true),
            ("10.0.0.7:8080", "http://10.0.0.7:8080/v1", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081/v1", false),
            ("127.0.0.1:8080", "http://127.0.0.2:8080/v1", false),
            ("127.0.0.1:8080", "http://10.0.0.7:8080/v1", false),
            ("127.0.0.1:8080", "http://my-vllm:8080/v1", false),
            ("127.0.0.1:0", "http://127.0.0.1:8080/v1", false),
        ] {
            let problems = read(listen, base_url, "models.m.upstreams = [\"p/x\", \"p/y\"]").err();
            assert_eq!(problems.is_some(), own, "{listen} {base_url}");
            let Some(problems) = problems.map(|problems| problems.to_string()) else { continue };
            let start =
                format!("x:3:23: provider p is at {listen}, where the gateway itself listens; expected another");
            assert!(problems.starts_with(&start) && problems.ends_with("\n1 problem"), "{problems}");
        }
    }

    #[test]
    fn one_that_no_model_uses_is_a_warning() {
        let config = read("127.0.0.1:8080", "http://127.0.0.1:8080/v1", "[providers.llamacpp]").unwrap();
        let own = |name| config.warnings.iter().any(|warning| warning.starts_with(&format!("provider {name} is at")));
        assert!(own("p") && own("llamacpp"), "{:?}", config.warnings);
        let problems = parse("models.m.upstreams = [\"llamacpp/x\"]", Path::new("x"), &|_| None).unwrap_err();
        assert!(problems.to_string().contains("provider llamacpp is at 127.0.0.1:8080"), "{problems}");
    }
}
