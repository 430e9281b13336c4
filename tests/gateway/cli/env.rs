//! `photofinish env`: lines that a shell takes, or an error and no line.

use crate::harness::process::{Setup, provider};
use crate::support::{FakeProvider, Script};

#[tokio::test]
async fn a_shell_gets_the_address_the_token_and_the_model() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let user = "[users.ann]\ntoken = \"planted-ann\"\n";
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n{user}", provider("one", &fake));
    let served = Setup::new(&config).env("PHOTOFINISH_TOKEN", "planted-ann").serve().await;
    let url = format!("http://{}", served.addr);
    let claude = served.setup.run(&["env", "claude", "--url", &url]).await;
    let expected = format!(
        "export ANTHROPIC_BASE_URL={url}\nexport ANTHROPIC_AUTH_TOKEN=planted-ann\nexport ANTHROPIC_MODEL=m\n\
         export ANTHROPIC_SMALL_FAST_MODEL=m\n"
    );
    assert_eq!((claude.code, claude.out), (Some(0), expected), "{}", claude.err);
    let sdks = served.setup.run(&["env", "--url", &url]).await;
    assert!(sdks.out.contains(&format!("export OPENAI_BASE_URL={url}/v1\n")), "{}", sdks.out);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{closed}");
    for (args, code, words) in [
        (&["env", "--url", &url, "--model", "nobody"][..], 2, "serves no model"),
        (&["env", "--url", &url, "--token", "planted-wrong"], 1, "token"),
        (&["env", "--url", &nobody], 1, "no gateway answers at http://127.0.0.1:"),
        (&["env", "vim", "--url", &url], 2, "possible values: openai"),
    ] {
        let ran = served.setup.run(args).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words) && !ran.err.contains("planted"), "{args:?}: {}", ran.err);
    }
}
