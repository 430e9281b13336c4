//! `photofinish race` as a program: standard output and standard error, exit codes, and the rows it leaves.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{FakeProvider, Gate, Script, soon};

/// Far longer than a failure takes: the order of events on two connections is undefined.
const LATE: Duration = Duration::from_millis(150);

/// `quick` answers after `broken` has failed, and `slow` only connects.
async fn field() -> (Setup, [FakeProvider; 3]) {
    field_with(|| Script::sse().role().delay(LATE).tokens(&["Hello", " there"]).finish("stop").usage(9, 2).done().end())
        .await
}

/// `quick` answers with this.
async fn field_with(answer: fn() -> Script) -> (Setup, [FakeProvider; 3]) {
    let quick = FakeProvider::answering(move |_| answer());
    let slow = FakeProvider::answering(|_| Script::new().until_closed());
    let broken = FakeProvider::answering(|_| Script::status(500, &[], "{}"));
    let fakes = [quick.await, slow.await, broken.await];
    let mut config = String::new();
    for (name, fake) in ["quick", "slow", "broken"].iter().zip(&fakes) {
        config += &provider(name, fake);
    }
    config += "\n[models.all]\nupstreams = [\"broken/m\", \"slow/m\", \
               { upstream = \"quick/m\", input_price = 1.0, output_price = 10.0 }]\naliases = [\"both\"]\n";
    config += "[models.none]\nupstreams = [\"broken/m\"]\n[models.hangs]\nupstreams = [\"slow/m\"]\n";
    (Setup::new(&config), fakes)
}

#[tokio::test]
async fn only_the_answer_goes_to_standard_output() {
    let (setup, fakes) = field().await;
    let ran = setup.run(&["race", "planted-prompt", "--model", "both", "--system", "brief"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Hello there\n"), "{}", ran.err);
    assert!(!ran.err.contains(['\x1b', '\r']) && !ran.err.contains("planted"), "{}", ran.err);
    assert!(!ran.err.contains("waiting for losers"), "none runs on: {}", ran.err);
    for words in [
        "broken/m  failed: server_error (500)",
        "slow/m    lost: cancelled",
        "quick/m   first token",
        "quick/m   won",
        "$0.000029\n",
        "client: first token after",
        "cost: $0.000029 or more in all; of it racing: unknown",
        "all, policy race",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    fakes[1].closed(0).await;
    let body: Value = serde_json::from_slice(&fakes[0].request(0).await.body).unwrap();
    assert_eq!(
        (&body["messages"][0]["content"], &body["messages"][1]["content"]),
        (&"brief".into(), &"planted-prompt".into())
    );
    assert_eq!(setup.attempts().await, ["broken failed server_error", "slow lost", "quick won"]);
    assert_eq!(setup.races().await, ["ok 3 200"]);
}

#[tokio::test]
async fn a_race_without_a_winner_is_exit_code_1_with_the_reasons() {
    let (setup, _fakes) = field().await;
    let ran = setup.run(&["race", "hi", "--model", "none"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("photofinish: no upstream answered") && ran.err.contains("broken/m: server_error (500)"));
    assert_eq!(setup.races().await.len(), 1);
}

#[tokio::test]
async fn an_answer_without_end_is_cut_and_told() {
    let piece = "word ".repeat(20_000);
    let script = (0..90).fold(Script::sse().role(), |script, _| script.token(&piece)).until_closed();
    let endless = FakeProvider::answering(move |_| script.clone()).await;
    let setup = Setup::new(&provider("one", &endless));
    let ran = setup.run(&["race", "hi", "--model", "one/m"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("more than 8 MiB: it was cut"), "{:?} {}", ran.code, ran.err);
    assert!((7 << 20..9 << 20).contains(&ran.out.len()), "{}", ran.out.len());
    endless.closed(0).await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_exit_code_1() {
    let broken = FakeProvider::answering(|_| Script::sse().token("Hel").close()).await;
    let setup = Setup::new(&provider("one", &broken));
    let ran = setup.run(&["race", "hi", "--model", "one/m"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "Hel\n"));
    assert!(ran.err.contains("photofinish: the answer broke off"), "{}", ran.err);
    assert!(ran.err.contains("client: broke off after"), "{}", ran.err);
}

#[tokio::test]
async fn the_object_has_the_rows_of_the_race() {
    let (setup, _fakes) = field().await;
    let ran = setup.run(&["race", "hi", "--model", "all", "--json", "--no-store"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&object["answer"], &object["race"]["outcome"]), (&"Hello there".into(), &"ok".into()));
    let attempts = object["attempts"].as_array().unwrap();
    let outcomes: Vec<&str> = attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "lost", "won"]);
    assert_eq!(attempts[2]["output_tokens"], 2);
    assert!(!setup.database().exists());
}

#[tokio::test]
async fn a_signal_cancels_every_attempt() {
    let (setup, fakes) = field().await;
    for (model, out) in [("hangs", ""), ("streams/m", "Hel\n")] {
        let gate = Gate::new();
        let reached = gate.clone();
        let streams =
            FakeProvider::answering(move |_| Script::sse().token("Hel").reached(&reached).until_closed()).await;
        let setup = if model == "hangs" { &setup } else { &Setup::new(&provider("streams", &streams)) };
        let mut command = setup.command(&["race", "hi", "--model", model]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        match model {
            "hangs" => drop(fakes[1].request(0).await),
            _ => soon("its first token is sent", gate.passed()).await,
        }
        kill(child.id());
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let ran = CommandOutput::new(&soon("it ends", output).await.unwrap());
        assert_eq!(ran.code, Some(130), "{}", ran.err);
        // The token may not have been read yet when the signal came.
        assert!([out, ""].contains(&ran.out.as_str()), "{}", ran.out);
        if model == "hangs" {
            fakes[1].closed(0).await;
            assert!(
                ran.err.contains("slow/m  cancelled") && ran.err.contains("client: cancelled after"),
                "{}",
                ran.err
            );
        } else {
            streams.closed(0).await;
        }
        let outcomes = setup.texts("SELECT outcome FROM race UNION ALL SELECT outcome FROM attempt").await;
        assert_eq!(outcomes, ["client_gone", "client_gone"], "{}", ran.err);
    }
}

#[tokio::test]
async fn race_waits_for_a_loser_that_is_billed_in_full() {
    let quick = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let open = Gate::new();
    let gate = open.clone();
    let late = FakeProvider::answering(move |_| {
        Script::sse().role().wait(&gate).token("b").finish("stop").usage(9, 1).done().end()
    });
    let late = late.await;
    let config = provider("quick", &quick) + &provider("late", &late) + "cancel_billing = \"bills_full\"\n";
    let setup = Setup::new(&config);
    let process = setup.spawn(&["race", "hi", "--model", "quick/m,late/m"]);
    process.logged("waiting for losers that run on").await;
    open.open();
    assert_eq!(process.ended().await, Some(0), "{}", process.log());
    assert!(process.log().contains("lost: read to its end"), "{}", process.log());
    assert_eq!(setup.attempts().await, ["quick won", "late drained"]);
}

#[tokio::test]
async fn a_prompt_may_come_from_standard_input() {
    let (setup, fakes) = field().await;
    let mut command = setup.command(&["race", "-", "--upstreams", "quick/m", "--max-tokens", "5", "--no-store"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("two\nlines".as_bytes()).unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let ran = CommandOutput::new(&soon("it ends", output).await.unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Hello there\n"), "{}", ran.err);
    let body: Value = serde_json::from_slice(&fakes[0].request(0).await.body).unwrap();
    assert_eq!((&body["messages"][0]["content"], &body["max_tokens"]), (&"two\nlines".into(), &5.into()));
}

#[tokio::test]
async fn wrong_arguments_are_exit_code_2_and_list_the_choices() {
    let (setup, fakes) = field().await;
    for (args, words) in [
        (&["race", "hi", "--model", "al"][..], &["there is no model", "did you mean all"][..]),
        (&["race", "hi", "--model", "nobody/x"], &["nobody", "the models of the configuration"]),
        (&["race", "hi", "--model", "all", "--policy", "luck"], &["--policy: \"luck\" is none of race", "Usage:"]),
        (&["race", "hi", "--model", "all", "--hedge-after", "soon"], &["--hedge-after: \"soon\""]),
        (&["race", "hi", "--model", "all", "--max-attempts", "0"], &["--max-attempts: \"0\""]),
        (&["race", "hi", "--model", "all", "--user", "bob"], &["there is no user", "none"]),
        (&["race", " ", "--model", "all"], &["the prompt is empty"]),
    ] {
        let ran = setup.run(args).await;
        assert!(ran.code == Some(2) && ran.out.is_empty(), "{args:?}: {:?} {}", ran.code, ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}, {word}: {}", ran.err);
        }
    }
    assert!(fakes.iter().all(|fake| fake.connections() == 0), "nothing was asked");
}

#[tokio::test]
async fn the_operator_needs_no_token_and_may_be_a_user() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = provider("one", &fake) + "[users.ann]\ntoken = \"planted-token\"\nkeys = { one = \"planted-key\" }\n";
    let served = Setup::new(&config).serve().await;
    let ran = served.setup.run(&["race", "hi", "--model", "one/m", "--user", "ann"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("planted"), "{}", ran.err);
    assert_eq!(fake.request(0).await.header("authorization"), Some("Bearer planted-key"));
    assert_eq!(served.ask("one/m").await.status, 401, "a client still needs one");
    let setup = served.stop().await;
    assert_eq!(setup.texts("SELECT caller FROM race").await, ["ann"]);
}

#[tokio::test]
async fn a_closed_pipe_is_no_error_and_loses_no_row() {
    // An answer of one frame is won before anything is printed; this one stays open.
    let open = || Script::sse().role().delay(LATE).tokens(&["Hello", " there"]).until_closed();
    let (setup, _fakes) = field_with(open).await;
    let mut reader = std::process::Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    let mut command = setup.command(&["race", "hi", "--model", "all"]);
    let output = tokio::task::spawn_blocking(move || command.stdout(pipe).stderr(Stdio::null()).output().unwrap());
    assert_eq!(soon("it ends", output).await.unwrap().status.code(), Some(0));
    assert_eq!(setup.texts("SELECT outcome FROM attempt ORDER BY ordinal").await, ["failed", "lost", "client_gone"]);
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}
