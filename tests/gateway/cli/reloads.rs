//! Reloads that fail closed: files that are cut off, emptied, away or that hang, and what accepts what they drop.

use std::process::Command;

use serde_json::Value;

use crate::harness::answer::read_response;
use crate::harness::process::{RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Identity, RawClient, Script};

const USERS: &str = "[users.ann]\ntoken = \"planted-ann\"\nrole = \"admin\"\n[users.bob]\ntoken = \"planted-bob\"\n";
const ANN: (&str, &str) = ("authorization", "Bearer planted-ann");
const MODELS: &str = "[models.m]\nupstreams = [\"one/x\"]\n[models.n]\nupstreams = [\"one/y\"]\n";

async fn fake() -> FakeProvider {
    FakeProvider::answering(|_| Script::stream(&["a"])).await
}

async fn status(served: &RunningGateway, path: &str, headers: &[(&str, &str)]) -> u16 {
    served.get(path, headers).await.status
}

/// What `/readyz`, `/api/config` and `/metrics` show an admin of a configuration that is not in force.
async fn found(served: &RunningGateway, headers: &[(&str, &str)]) -> (Value, Value, bool) {
    let ready = served.get("/readyz", headers).await.json();
    let config = served.get("/api/config", headers).await.json();
    assert_eq!((&ready["configuration_refused"], &ready["accept"]), (&config["problems"], &config["accept"]));
    let metrics = served.get("/metrics", headers).await.body;
    (config["problems"].clone(), config["accept"].clone(), metrics.contains("\nphotofinish_config_refused 1\n"))
}

/// Waits until nothing is reported any more.
async fn back_in_force(served: &RunningGateway, times: usize) {
    served.process.logged_times("the files of the configuration are again those in force", times).await;
    assert_eq!(found(served, &[ANN]).await, (Value::Null, Value::Null, false));
}

#[tokio::test]
async fn a_file_cut_before_its_users_lets_nobody_in_until_an_admin_accepts_it() {
    let fake = fake().await;
    let open = format!("{}{MODELS}", provider("one", &fake));
    let whole = format!("{open}{USERS}");
    let served = Setup::new(&whole).serve().await;
    served.setup.configure(&open);
    let line = served.process.logged("2 of 2 users are gone (ann, bob): whoever reaches 127.0.0.1:").await;
    assert!(line.contains("config.toml: "), "{line}");
    assert_eq!(status(&served, "/v1/models", &[]).await, 401);
    let (problems, accept, is_counted) = found(&served, &[ANN]).await;
    let (problems, accept) = (problems.as_str().unwrap(), accept.as_str().unwrap());
    assert!(problems.contains("users are gone") && problems.contains(accept) && is_counted, "{problems}");
    assert!(!problems.contains("planted"), "{problems}");
    let others = served.get("/readyz", &[("x-api-key", "planted-bob")]).await;
    assert!(others.status == 200 && !others.body.contains("users"), "{}", others.body);

    let path = accept.strip_prefix("POST ").unwrap();
    let post = async |path: &str, headers: &[(&str, &str)]| served.send("POST", path, headers, "").await;
    for (headers, expected) in
        [(vec![], 401), (vec![("x-api-key", "planted-bob")], 403), (vec![ANN, ("origin", "https://evil.example")], 403)]
    {
        assert_eq!(post(path, &headers).await.status, expected, "{headers:?}");
    }
    let (code, kind, message) = post("/api/reload", &[ANN]).await.error();
    assert!(code == 422 && kind == "photofinish_not_reloaded" && message.ends_with(problems), "{message}");
    let (code, _, message) = post("/api/reload?accept=123456789abc", &[ANN]).await.error();
    let now = path.split_once('=').unwrap().1;
    assert!(code == 422 && message.contains("\"123456789abc\"") && message.contains(now), "{message}");
    assert_eq!(post("/api/reload?acept=1", &[ANN]).await.status, 400);
    assert_eq!(status(&served, "/v1/models", &[]).await, 401);
    assert_eq!(post(path, &[ANN]).await.json()["reloaded"], true);
    assert_eq!(status(&served, "/v1/models", &[]).await, 200);
    assert_eq!(found(&served, &[]).await, (Value::Null, Value::Null, false));

    served.setup.configure(&whole);
    served.process.logged_times("the new configuration is in force", 2).await;
    assert_eq!(status(&served, "/v1/models", &[]).await, 401, "users may come back at any time");
}

#[tokio::test]
async fn a_socket_file_stays_closed_until_a_request_accepts_the_file_whatever_is_signalled() {
    let setup = Setup::new("");
    let listen = "server.listen = [\"127.0.0.1:0\", \"unix:gateway.sock\"]\nproviders.sim.simulate = {}\n";
    setup.write("config.toml", format!("{listen}{USERS}"));
    let served = setup.serve().await;
    served.process.logged("listening on unix:/").await;
    served.setup.write("config.toml", listen);
    let line = served.process.logged("2 of 2 users are gone").await;
    assert!(line.contains("127.0.0.1:") && line.contains("gateway.sock would need no token"), "{line}");
    let mut client = RawClient::connect_file(&served.setup.path("gateway.sock")).await.unwrap();
    served.process.signal("HUP");
    served.process.logged_times("2 of 2 users are gone", 2).await;
    let accept = found(&served, &[ANN]).await.1.as_str().unwrap().to_owned();
    for (accepted, expected) in [(false, 401), (true, 200)] {
        if accepted {
            let path = accept.strip_prefix("POST ").unwrap();
            assert_eq!(served.send("POST", path, &[ANN], "").await.status, 200);
        }
        client.request("GET", "/v1/models", &[], "").await;
        assert_eq!(read_response(&mut client).await.status, expected);
        assert_eq!(status(&served, "/v1/models", &[]).await, expected);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_told_until_it_is_back() {
    let fake = fake().await;
    let whole = format!("{}{MODELS}{USERS}", provider("one", &fake));
    let served = Setup::new(&whole).serve().await;
    served.setup.write("kept.toml", std::fs::read(served.setup.path("config.toml")).unwrap());
    let put_back = || std::fs::copy(served.setup.path("kept.toml"), served.setup.path("config.toml")).unwrap();
    let few = format!("{}[models.o]\nupstreams = [\"one/x\"]\n{USERS}", provider("one", &fake));
    for (times, (text, why, may_be_accepted)) in (1..).zip([
        ("", "the file is empty", true),
        (few.as_str(), "config.toml: 2 of 2 models are gone (m, n)", true),
        ("[", "not TOML", false),
    ]) {
        served.setup.write("config.toml", text);
        served.process.logged(why).await;
        let (problems, accept, is_counted) = found(&served, &[ANN]).await;
        assert!(problems.as_str().unwrap().contains(why) && is_counted, "{problems}");
        assert_eq!(accept.is_string(), may_be_accepted, "{why}");
        assert_eq!(served.chat(&[ANN], &crate::harness::process::asking("n")).await.status, 200);
        put_back();
        back_in_force(&served, times).await;
    }
    std::fs::remove_file(served.setup.path("config.toml")).unwrap();
    served.process.logged("cannot read ").await;
    let (problems, accept, is_counted) = found(&served, &[ANN]).await;
    assert!(problems.as_str().unwrap().contains("No such file") && accept.is_null() && is_counted, "{problems}");
    put_back();
    back_in_force(&served, 4).await;
}

#[tokio::test]
async fn a_file_that_is_a_pipe_stops_no_request_and_no_end() {
    let setup = Setup::new("");
    setup.write("ca.pem", Identity::new().ca);
    let fake = fake().await;
    let far = "[providers.far]\nbase_url = \"https://far.test/v1\"\nca_file = \"ca.pem\"\n";
    let config = format!("{}{far}{MODELS}{USERS}", provider("one", &fake));
    setup.configure(&config);
    let served = setup.serve().await;
    let path = |name: &str| served.setup.path(name);
    for (times, name) in (1..).zip(["ca.pem", "config.toml"]) {
        std::fs::rename(path(name), path("kept")).unwrap();
        assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        served.process.logged_times("it is no file: a pipe", times).await;
        let (problems, ..) = found(&served, &[ANN]).await;
        assert!(problems.as_str().unwrap().contains(name), "{problems}");
        assert_eq!(status(&served, "/v1/models", &[ANN]).await, 200);
        std::fs::rename(path("kept"), path(name)).unwrap();
        back_in_force(&served, times).await;
    }
    std::fs::remove_file(path("ca.pem")).unwrap();
    assert!(Command::new("mkfifo").arg(path("ca.pem")).status().unwrap().success());
    served.process.signal("HUP");
    served.process.logged_times("it is no file: a pipe", 3).await;
    served.stop().await;
}
