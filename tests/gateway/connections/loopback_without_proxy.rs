//! Loopback addresses bypass the proxy of the environment. Other addresses: `proxies_and_certificates`.

use crate::harness::process::{Setup, provider};
use crate::support::{FakeProvider, Script};

#[tokio::test]
async fn loopback_providers_bypass_the_proxy() {
    let fake = FakeProvider::answering(|_| Script::stream(&["direct"])).await;
    let proxy = FakeProvider::answering(|_| Script::status(502, &[], "{}")).await;
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake));
    let mut setup = Setup::new(&config).env("NO_PROXY", "example.com");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        let url = format!("http://{}", proxy.addr());
        setup = setup.env(name, &url).env(&name.to_lowercase(), &url);
    }
    let served = setup.serve().await;
    let answer = served.ask("m").await;
    assert!(answer.status == 200 && answer.body.contains("direct"), "{}", answer.body);
    assert_eq!((proxy.connections(), fake.requests()[0].path.as_str()), (0, "/v1/chat/completions"));
}
