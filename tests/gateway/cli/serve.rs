//! `photofinish serve`: startup, refusals to start, and reloads of the config.

use std::net::TcpListener;

use crate::harness::process::{RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Gate, Script};

fn model(name: &str) -> String {
    format!("\n[models.{name}]\nupstreams = [\"one/m\"]\n")
}

async fn has(served: &RunningGateway, model: &str) -> bool {
    served.get(&format!("/v1/models/{model}"), &[]).await.status == 200
}

#[tokio::test]
async fn absurdly_many_passed_sockets_are_an_error_at_once() {
    let fake = FakeProvider::start(vec![]).await;
    let ran = Setup::new(&provider("one", &fake)).env("LISTEN_FDS", "99999999").run(&["serve"]).await;
    assert!(ran.code != Some(0) && ran.err.contains("LISTEN_FDS=99999999"), "{:?} {}", ran.code, ran.err);
}

#[tokio::test]
async fn the_startup_log_names_listener_and_database() {
    let fake = FakeProvider::start(vec![]).await;
    let config = format!(
        "{}[providers.groq]\napi_key = \"${{NOT_SET}}\"\n[providers.sim]\nsimulate = {{}}\n{}",
        provider("one", &fake),
        model("m")
    );
    let served = Setup::new(&config).serve().await;
    let log = served.process.log();
    for words in [
        "config.toml",
        "photofinish.db",
        "on: one",
        "off: groq (NOT_SET is not set)",
        "simulated: sim",
        "model m: race, 1 of 1 upstreams on",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let database = log.lines().find(|line| line.contains("photofinish.db")).unwrap();
    assert!(database.contains("=/") || database.contains(" /"), "an absolute path: {database}");
}

#[tokio::test]
async fn a_signal_reloads_the_config_and_running_streams_continue() {
    let gate = Gate::new();
    let script = Script::sse().role().token("a").wait(&gate).token("b").finish("stop").done().end();
    let fake = FakeProvider::answering(move |_| script.clone()).await;
    let before = format!("{}{}", provider("one", &fake), model("old"));
    let served = Setup::new(&before).serve().await;
    let mut client = served.asking("old").await;
    client.head().await;
    while !client.event().await.unwrap().unwrap().contains("\"a\"") {}

    served.setup.configure(&format!("{}{}", provider("one", &fake), model("new")));
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert!(has(&served, "new").await && !has(&served, "old").await);

    gate.open();
    let mut events = Vec::new();
    while let Some(event) = client.event().await.unwrap() {
        events.push(event);
    }
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["ok 1 200"]);
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let fake = FakeProvider::start(vec![]).await;
    let served = Setup::new(&format!("{}{}", provider("one", &fake), model("old"))).serve().await;
    served.setup.configure(&format!("{}{}{}", provider("one", &fake), model("old"), model("added")));
    served.process.logged("the new configuration is in force").await;
    assert!(has(&served, "added").await && has(&served, "old").await);
}

#[tokio::test]
async fn a_bad_file_is_reported_and_the_old_one_stays() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let served = Setup::new(&format!("{}{}", provider("one", &fake), model("m"))).serve().await;
    served.setup.configure("[models.m]\nupstreams = [\"one/m\"]\npolcy = \"race\"\n");
    served.process.signal("HUP");
    served.process.logged("the old one stays in force").await;
    let line = served.process.logged("did you mean \"policy\"").await;
    assert!(line.contains("config.toml:9:1"), "{line}");
    assert_eq!(served.ask("m").await.status, 200);

    std::fs::remove_file(served.setup.path("config.toml")).unwrap();
    served.process.signal("HUP");
    served.process.logged("cannot read").await;
    assert_eq!(served.ask("m").await.status, 200);

    // A valid config is loaded again.
    served.setup.configure(&format!("{}{}", provider("one", &fake), model("mended")));
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert!(has(&served, "mended").await);
}

#[tokio::test]
async fn a_change_that_needs_a_restart_is_logged() {
    let served = Setup::new("[providers.sim]\nsimulate = {}\n").serve().await;
    served.setup.configure("store.url = \"sqlite:other.db\"\n[providers.sim2]\nsimulate = {}\n");
    served.process.signal("HUP");
    served.process.logged("a new `store.url` takes effect only after a restart").await;
    served.process.logged("the new configuration is in force").await;
    assert!(served.process.log().contains("simulated: sim2"));
    assert_eq!(served.ask("sim2/x").await.status, 200);
    assert_eq!(served.ask("sim/x").await.status, 404);
    assert!(!served.setup.path("other.db").exists());
}

#[tokio::test]
async fn a_busy_port_is_reported() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = busy.local_addr().unwrap();
    let setup = Setup::new("");
    setup.write("busy.toml", format!("[server]\nlisten = \"{addr}\"\n"));
    let ran = setup.run(&["serve", "--config", "busy.toml"]).await;
    assert_eq!(ran.code, Some(1));
    let expected = format!("photofinish: cannot listen on {addr}: Address already in use");
    let owner = format!("(process {}) has it. End that, or", std::process::id());
    let other = format!("`photofinish serve --listen 127.0.0.1:{}`", addr.port() + 1);
    assert!(
        ran.err.starts_with(&expected) && ran.said().contains(&owner) && ran.said().contains(&other),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn another_address_may_be_given_at_the_start() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let setup = Setup::new("").env("PHOTOFINISH_LISTEN", "127.0.0.2:0");
    setup.write(
        "config.toml",
        format!("server.listen = \"{}\"\nproviders.sim.simulate = {{}}\n", busy.local_addr().unwrap()),
    );
    setup.spawn(&["serve"]).logged("listening on http://127.0.0.2:").await;
    let process = setup.spawn(&["serve", "--listen", "127.0.0.3:0"]);
    process.logged("listening on http://127.0.0.3:").await;
    setup.configure("[providers.sim]\nsimulate = {}\n");
    process.signal("HUP");
    process.logged("the new configuration is in force").await;
    assert!(!process.log().contains("`server.listen` takes effect"), "{}", process.log());

    let ran = setup.run(&["serve", "--listen", "8081"]).await;
    assert!(ran.code == Some(2) && ran.said().contains("expected an IP address and a port"), "{}", ran.err);
    let ran = setup.run(&["serve", "--listen", "0.0.0.0:0"]).await;
    assert!(ran.code == Some(2) && ran.said().contains("0.0.0.0:0, which others can reach"), "{}", ran.err);
    let ran = Setup::new("").env("PHOTOFINISH_LISTEN", "here").run(&["check"]).await;
    let expected = "bad value \"here\" for the variable PHOTOFINISH_LISTEN; expected an IP address";
    assert!(ran.code == Some(2) && ran.said().contains(expected), "{}", ran.err);
}

#[tokio::test]
async fn a_public_listener_needs_users() {
    let setup = Setup::new("");
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        setup.write("open.toml", format!("[server]\nlisten = \"{listen}\"\n"));
        let ran = setup.run(&["serve", "--config", "open.toml"]).await;
        assert_eq!(ran.code, Some(2), "{listen}");
        assert!(ran.err.contains("open.toml:2:10") && ran.err.contains("[users"), "{}", ran.err);
    }
    setup.write("users.toml", "[server]\nlisten = \"0.0.0.0:0\"\n[users.ann]\ntoken = \"ann-token\"\n");
    let process = setup.spawn(&["serve", "--config", "users.toml"]);
    process.logged("listening on http://0.0.0.0:").await;
}

#[tokio::test]
async fn a_reload_never_opens_a_public_listener() {
    let setup = Setup::new("");
    setup.write("config.toml", "server.listen = \"0.0.0.0:0\"\n[users.ann]\ntoken = \"ann-token\"\n");
    let served = setup.serve().await;
    // Valid by itself, but it would listen on loopback only after a restart. It cannot be accepted.
    served.setup.configure("");
    let error = served.process.logged("the old one stays in force").await;
    assert!(error.contains("ERROR"), "{error}");
    served.process.signal("HUP");
    served.process.logged_times("which others can reach, and the new configuration has no [users]", 2).await;
    assert!(!served.process.log().contains("accept"), "{}", served.process.log());
    assert_eq!(served.get("/v1/models", &[]).await.status, 401);
    assert_eq!(served.get("/v1/models", &[("x-api-key", "ann-token")]).await.status, 200);

    served.setup.configure("[users.bob]\ntoken = \"bob-token\"\n");
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert_eq!(served.get("/v1/models", &[("x-api-key", "bob-token")]).await.status, 200);
}

#[tokio::test]
async fn an_invalid_log_filter_is_reported() {
    let setup = Setup::new("").env("PHOTOFINISH_LOG", "%%%=%%%");
    let ran = setup.run(&["check"]).await;
    assert_eq!(ran.code, Some(0));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("PHOTOFINISH_LOG") && lines[0].contains("debug"), "{}", ran.err);
}
