//! What packages and containers need: a first token without a configuration, credentials and notices to the service manager, a check of
//! health, completions and pages.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use crate::harness::process::{Process, RunningGateway, Setup};

const HASH: &str = "home/.local/state/photofinish/photofinish.db.token";

/// In a directory without a configuration, at an address that others can reach.
fn open_without_file() -> Setup {
    let setup = Setup::new("");
    std::fs::remove_file(setup.path("config.toml")).unwrap();
    let home = setup.path("home").display().to_string();
    setup.env("HOME", &home).env("PHOTOFINISH_LISTEN", "0.0.0.0:0")
}

/// Starts it, and returns what it printed.
async fn started(setup: &Setup) -> (Process, String) {
    let process = setup.spawn_into(&["serve"], Stdio::from(File::create(setup.path("out")).unwrap()));
    process.logged("listening on http://").await;
    (process, std::fs::read_to_string(setup.path("out")).unwrap())
}

async fn stopped(process: Process) {
    process.signal("TERM");
    assert_eq!(process.ended().await, Some(0), "{}", process.log());
}

#[tokio::test]
async fn a_token_is_made_and_shown_once_and_only_its_hash_is_kept() {
    let setup = open_without_file();
    let keyless = setup.run(&["serve"]).await;
    assert!(
        keyless.code == Some(2) && keyless.out.is_empty() && keyless.err.contains("GROQ_API_KEY"),
        "{}",
        keyless.err
    );
    assert!(!setup.path(HASH).exists(), "a token that serves nothing is not made");

    let setup = setup.env("GROQ_API_KEY", "planted");
    let (process, out) = started(&setup).await;
    let token = out.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert!(token.len() == 64 && !process.log().contains(&token), "{out}");
    let kept = std::fs::read_to_string(setup.path(HASH)).unwrap();
    assert!(kept.trim().len() == 64 && kept.trim() != token);
    let mut addr = process.address("listening on http://").await;
    addr.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    let served = RunningGateway { setup, process, addr };
    let bearer = format!("Bearer {token}");
    for (path, headers, status) in [
        ("/v1/models", &[][..], 401),
        ("/api/routing", &[], 401),
        ("/metrics", &[], 401),
        ("/v1/models", &[("authorization", "Bearer planted-wrong")], 401),
        ("/v1/models", &[("authorization", bearer.as_str())], 200),
        ("/api/routing", &[("authorization", bearer.as_str())], 200),
    ] {
        assert_eq!(served.get(path, headers).await.status, status, "{path} {headers:?}");
    }
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert_eq!(served.get("/v1/models", &[("authorization", bearer.as_str())]).await.status, 200);
    let setup = served.stop().await;

    let (process, out) = started(&setup).await;
    assert!(out.is_empty() && process.log().contains("the first start showed"), "{out}{}", process.log());
    stopped(process).await;
    assert_eq!(std::fs::read_to_string(setup.path(HASH)).unwrap(), kept);

    setup.write(HASH, "no hash");
    let broken = setup.run(&["serve"]).await;
    assert!(broken.code == Some(1) && broken.err.contains("does not hold the SHA-256"), "{}", broken.err);
    assert_eq!(setup.run(&["check"]).await.code, Some(2), "it could not be used");
}

#[tokio::test]
async fn a_token_of_ones_own_makes_no_file() {
    let setup = open_without_file().env("GROQ_API_KEY", "planted").env("PHOTOFINISH_TOKEN", "planted-token-of-my-own");
    let (process, out) = started(&setup).await;
    assert!(out.is_empty() && !setup.path(HASH).exists() && process.log().contains("must send a token"), "{out}");
    stopped(process).await;
    // On loopback the variable is what clients send, and no other client comes.
    let (process, _) = started(&setup.env("PHOTOFINISH_LISTEN", "127.0.0.1:0")).await;
    assert!(!process.log().contains("must send a token"), "{}", process.log());
    stopped(process).await;
}

#[tokio::test]
async fn credentials_are_variables_and_the_manager_is_told() {
    let setup = open_without_file().env("PHOTOFINISH_LISTEN", "127.0.0.1:0");
    setup.write("keys_GROQ_API_KEY", "planted\n");
    let socket = setup.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let (folder, socket) = (setup.path("").display().to_string(), socket.display().to_string());
    let setup = setup.env("CREDENTIALS_DIRECTORY", &folder).env("NOTIFY_SOCKET", &socket);
    let (process, _) = started(&setup).await;
    assert!(process.log().contains("providers on: groq"), "{}", process.log());
    let mut text = [0; 32];
    let mut found = || {
        let bytes = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..bytes].to_vec()).unwrap()
    };
    assert_eq!(found(), "READY=1");
    process.signal("TERM");
    assert_eq!(found(), "STOPPING=1");
    assert_eq!(process.ended().await, Some(0), "{}", process.log());
}

#[tokio::test]
async fn health_completions_pages_and_the_version() {
    let served = Setup::new("providers.sim.simulate = {}\nmodels.m.upstreams = [\"sim/m\"]").serve().await;
    let url = format!("http://{}", served.addr);
    let well = served.setup.run(&["healthcheck", "--url", &url]).await;
    assert_eq!((well.code, well.out.as_str(), well.err.as_str()), (Some(0), "", ""));
    let setup = served.stop().await;
    let gone = setup.run(&["healthcheck", "--url", &url]).await;
    assert!(gone.code == Some(1) && gone.err.contains("no gateway answers"), "{}", gone.err);

    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = setup.run(&["completions", shell]).await;
        assert!(script.code == Some(0) && script.out.contains("healthcheck"), "{shell}: {}", script.err);
    }
    assert_eq!(setup.run(&["completions", "tcsh"]).await.code, Some(2));
    let folder = setup.path("").display().to_string();
    assert_eq!(setup.run(&["man", &folder]).await.code, Some(0));
    let page = std::fs::read_to_string(setup.path("photofinish-serve.1")).unwrap();
    assert!(page.contains("take\\-over"), "{page}");
    assert_eq!(setup.run(&["man", &format!("{folder}/made/too")]).await.code, Some(0));
    assert!(setup.path("made/too/photofinish.1").exists());
    assert_eq!(setup.run(&["man", &format!("{folder}/photofinish-serve.1/x")]).await.code, Some(1));

    let version = setup.run(&["--version"]).await;
    assert_eq!(version.out, format!("photofinish {}\n", env!("CARGO_PKG_VERSION")));
    let more = setup.run(&["--version", "--verbose"]).await;
    assert!(["commit: ", "date: ", "target: "].iter().all(|words| more.out.contains(words)), "{}", more.out);
    assert_eq!(setup.run(&["--verbose"]).await.code, Some(2));
}

#[tokio::test]
async fn a_token_that_nobody_could_read_is_made_again() {
    let setup = open_without_file().env("GROQ_API_KEY", "planted");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let process = setup.spawn_into(&["serve"], Stdio::from(full));
    assert_eq!(process.ended().await, Some(1), "{}", process.log());
    assert!(!setup.path(HASH).exists());
    let (process, out) = started(&setup).await;
    assert!(out.starts_with("The token of this gateway"), "{out}");
    stopped(process).await;
}

#[tokio::test]
async fn a_well_gateway_stays_well_while_its_configuration_is_wrong() {
    let served = Setup::new("providers.sim.simulate = {}\n").serve().await;
    let listen = served.addr.to_string();
    let mut setup = served.setup;
    setup.write("config.toml", "[server]\nbody_mx = 1\n");
    let unsaid = setup.run(&["healthcheck"]).await;
    assert!(unsaid.code == Some(1) && unsaid.err.contains("--url"), "{}", unsaid.err);
    setup = setup.env("PHOTOFINISH_LISTEN", &listen);
    let well = setup.run(&["healthcheck"]).await;
    assert_eq!((well.code, well.err.as_str()), (Some(0), ""));
}
