//! `check`, `stats`, `simulate` and help, and what each command prints for wrong arguments.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::harness::answer::read_response;
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Script};

#[tokio::test]
async fn every_problem_of_a_config_is_reported() {
    let setup = Setup::new("");
    setup.write(
        "bad.toml",
        "[server]\nlisten = \"nowhere\"\nbody_max = 1.5\n\n[race]\npolcy = \"race\"\nhedge_after = \"p9x\"\n\n\
         [providers.grok]\napi_key = \"k\"\n\n[models.m]\nupstreams = [\"grq/x\"]\n[users.ann]\n",
    );
    for command in ["serve", "check", "stats"] {
        let ran = setup.run(&[command, "--config", "bad.toml"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{command}");
        for place in ["2:10", "3:12", "6:1", "7:15", "9:12", "13:14", "14:"] {
            assert!(ran.err.contains(&format!("bad.toml:{place}")), "{place}: {}", ran.err);
        }
        assert!(ran.said().contains("did you mean \"policy\"") && ran.err.contains("7 problems"), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_missing_config_says_what_to_do() {
    let setup = Setup::new("").env("PHOTOFINISH_CONFIG", "by-variable.toml");
    let ran = setup.run(&["serve"]).await;
    assert_eq!(ran.code, Some(2));
    for words in ["by-variable.toml", "--config PATH", "PHOTOFINISH_CONFIG", "`photofinish init`"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    // The option takes precedence over the variable.
    assert_eq!(setup.run(&["check", "--config", "config.toml"]).await.code, Some(0));
}

#[tokio::test]
async fn init_writes_what_check_accepts() {
    let setup = Setup::new("").env("GROQ_API_KEY", "planted-key").env("CEREBRAS_API_KEY", "planted-other");
    // Without a terminal nothing is asked.
    let ran = setup.run(&["init", "--config", "first.toml"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(ran.out.contains("\"gpt-oss-120b\": groq/openai/gpt-oss-120b, cerebras/gpt-oss-120b"), "{}", ran.out);
    assert!(ran.out.contains("photofinish check --live --config first.toml"), "{}", ran.out);
    let written = std::fs::read_to_string(setup.path("first.toml")).unwrap();
    assert!(written.lines().count() <= 40 && !written.contains("planted"), "{written}");
    let check = setup.run(&["check", "--config", "first.toml"]).await;
    assert!(check.code == Some(0) && check.out.contains(" by name, 2 of them raced."), "{}", check.out);
    assert!(!check.out.contains("Warnings"), "{}", check.out);

    let again = setup.run(&["init", "--yes", "--config", "first.toml"]).await;
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("first.toml is there already and stays unchanged"), "{}", again.err);
    let printed = setup.run(&["init", "--stdout", "--config", "first.toml"]).await;
    assert_eq!((printed.code, printed.out), (Some(0), written));
    let nowhere = setup.run(&["init", "--config", "/proc/first.toml"]).await;
    assert!(nowhere.code == Some(1) && nowhere.err.contains("cannot write /proc/first.toml"), "{}", nowhere.err);
}

#[tokio::test]
async fn init_without_any_key_races_something() {
    let setup = Setup::new("");
    let ran = setup.run(&["init", "--config", "first.toml"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // A developer's machine may have a model server.
    if ran.out.contains("No key of a provider is set, and no model server was found") {
        let raced = setup.run(&["race", "Hello", "--model", "demo", "--config", "first.toml", "--no-store"]).await;
        assert!(raced.code == Some(0) && raced.out.contains("simulated"), "{}{}", raced.out, raced.err);
    }
    assert_eq!(setup.run(&["check", "--config", "first.toml"]).await.code, Some(0));
}

#[tokio::test]
async fn check_shows_the_shipped_config() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    let setup = Setup::new("").env("GROQ_API_KEY", "planted-key");
    let ran = setup.run(&["check", "--config", shipped]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let line = |name: &str| {
        let found = ran.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        found.unwrap_or_else(|| panic!("no {name}: {}", ran.out)).to_owned()
    };
    assert!(line("sim-quick").contains("simulated") && line("demo:").contains("3 of 3 upstreams on"));
    assert!(line("groq").contains(" on ") && line("gpt-oss-120b:").contains("1 of 4 upstreams on"));
    assert!(line("openai").contains(" off ") && line("openai").contains("OPENAI_API_KEY is not set"));
    assert!(!ran.out.contains("planted"), "{}", ran.out);
}

#[tokio::test]
async fn check_fails_where_the_database_cannot_be_used() {
    let setup = Setup::new("");
    assert_eq!(setup.run(&["check"]).await.code, Some(0));
    let fails = async |words: &str| {
        let ran = setup.run(&["check"]).await;
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), "photofinish: the database cannot be used: see above\n"));
        assert!(ran.out.contains("WARNING") && ran.out.contains(words), "{}", ran.out);
    };
    let path = setup.database();
    std::fs::create_dir(&path).unwrap();
    fails("photofinish.db").await;
    std::fs::remove_dir(&path).unwrap();
    setup.write("photofinish.db", "this is no database".repeat(100));
    fails("not an SQLite database").await;
    std::fs::remove_file(&path).unwrap();
    setup.write("photofinish.db", "");
    sqlx::query("CREATE TABLE theirs (a)").execute(&mut setup.connect().await).await.unwrap();
    fails("of another program").await;
    std::fs::remove_file(&path).unwrap();

    let setup = setup.serve().await.stop().await;
    let ran = setup.run(&["check"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    let mut held = setup.connect().await;
    for statement in ["PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"] {
        sqlx::query(statement).execute(&mut held).await.unwrap();
    }
    let ran = setup.run(&["check"]).await;
    assert!(ran.code == Some(0) && ran.out.contains("is locked"), "{}", ran.out);
    let older = "UPDATE _sqlx_migrations SET checksum = x'00'";
    for statement in [older, "COMMIT"] {
        sqlx::query(statement).execute(&mut held).await.unwrap();
    }
    held.close().await.unwrap();
    let ran = setup.run(&["check"]).await;
    assert!(ran.code == Some(1) && ran.out.contains("before 0.1.0"), "{}", ran.out);
    let whole = std::fs::read(setup.database()).unwrap();
    std::fs::write(setup.database(), &whole[..whole.len() / 2]).unwrap();
    let ran = setup.run(&["check"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.out);
}

async fn sim() -> RunningGateway {
    let config = "[providers.sim]\nsimulate = { ttft = \"1ms\", jitter = 0, tokens_per_second = 100, tokens = 10 }\n";
    Setup::new(config).serve().await
}

#[tokio::test]
async fn stats_without_a_database_or_without_rows_is_helpful() {
    let setup = Setup::new("");
    let ran = setup.run(&["stats"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("there is no database at") && ran.err.contains("photofinish serve"), "{}", ran.err);
    assert!(!setup.database().exists());

    let served = sim().await;
    let ran = served.setup.run(&["stats"]).await;
    assert!(ran.code == Some(0) && ran.out.contains("No attempts in"), "{}", ran.out);
    let ran = served.setup.run(&["stats", "--json"]).await;
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "[]"));
}

#[tokio::test]
async fn stats_counts_what_happened() {
    let served = sim().await;
    for _ in 0..3 {
        assert_eq!(served.ask("sim/x").await.status, 200);
    }
    assert_eq!(served.ask("sim/fail-500").await.status, 502);
    let setup = served.stop().await;
    let ran = setup.run(&["stats", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let rows: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let row = |upstream: &str| rows.iter().find(|row| row["upstream"] == upstream).unwrap();
    let counts = |row: &Value| ["attempts", "wins", "failures", "empty", "censored"].map(|name| row[name].clone());
    assert_eq!(counts(row("sim/x")), [3, 3, 0, 0, 0].map(|count| json!(count)));
    assert_eq!(counts(row("sim/fail-500")), [1, 0, 1, 0, 0].map(|count| json!(count)));
    let x = row("sim/x");
    for name in ["ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tok_s_p50", "tok_s_p5", "tpot_p95_ms"] {
        assert!(x[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {x}");
    }
    assert_eq!(x["ttft_samples"], 3);
    // A slow machine may deliver the whole answer in one read, which then has no speed.
    assert!((1..=3).contains(&x["tok_s_samples"].as_i64().unwrap()), "{x}");
    assert!(row("sim/fail-500")["ttft_p50_ms"].is_null());

    let ran = setup.run(&["stats"]).await;
    assert!(ran.out.contains("sim/fail-500") && ran.out.contains("4 attempts"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'), "plain when piped");
    let ran = setup.run(&["stats", "--model", "sim/x", "--provider", "sim", "--since", "1h", "--json"]).await;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&ran.out).unwrap().len(), 1);
    let ran = setup.run(&["stats", "--by", "model,hour", "--slo", "ttft=1s", "--until", "0s", "--csv"]).await;
    assert!(ran.out.starts_with("model,hour,attempts,") && ran.out.contains("\r\nsim/x,"), "{}", ran.out);
    assert_eq!(setup.run(&["stats", "--provider", "nobody", "--json"]).await.out.trim(), "[]");
    assert_eq!(setup.run(&["stats", "--since", "soon"]).await.code, Some(2));
}

#[tokio::test]
async fn stats_into_a_closed_pipe_is_no_error() {
    let served = sim().await;
    assert_eq!(served.ask("sim/x").await.status, 200);
    let setup = served.stop().await;
    for args in [&["stats"][..], &["stats", "--json"], &["check"], &["--help"]] {
        // The reading end is closed before a line is written.
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let mut command = setup.command(args);
        let output = tokio::task::spawn_blocking(move || command.stdout(pipe).output().unwrap()).await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(0) && err.is_empty(), "{args:?}: {:?} {err}", output.status);
    }
}

#[tokio::test]
async fn simulate_serves_until_a_signal() {
    let setup = Setup::new("");
    let process =
        setup.spawn(&["simulate", "--listen", "127.0.0.1:0", "--ttft", "1ms", "--tokens", "3", "--name", "toy"]);
    let addr = process.address("base_url=http://").await;
    let mut client = RawClient::connect(addr).await;
    client.post(CHAT, &asking("anything")).await;
    let answer = read_response(&mut client).await;
    assert_eq!((answer.status, answer.header("x-simulated")), (200, "true"));
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    let signalled = Instant::now();
    process.signal("TERM");
    assert_eq!(process.ended().await, Some(0), "{}", process.log());
    assert!(signalled.elapsed() < Duration::from_secs(5), "an idle connection is not waited for: {}", process.log());
    assert!(!setup.database().exists());

    let ran = setup.run(&["simulate", "--listen", "127.0.0.1:0", "--failure", "fire"]).await;
    assert!(ran.code == Some(2) && ran.err.contains("error-frame"), "{}", ran.err);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ran = setup.run(&["simulate", "--listen", &busy.local_addr().unwrap().to_string()]).await;
    assert!(ran.code == Some(1) && ran.err.contains("--listen"), "{}", ran.err);
}

#[tokio::test]
async fn help_lists_commands_and_options() {
    let setup = Setup::new("");
    for (args, words) in [
        (
            &["--help"][..],
            &["serve", "check", "stats", "simulate", "--config", "PHOTOFINISH_CONFIG", "PHOTOFINISH_LOG"][..],
        ),
        (&["serve", "--help"], &["SIGHUP", "SIGTERM", "drain", "--config"]),
        (
            &["stats", "--help"],
            &[
                "--since",
                "--until",
                "--model",
                "--provider",
                "--user",
                "--by",
                "--slo",
                "--json",
                "--csv",
                "--wide",
                "--explain",
                "Kaplan",
                "concurrency",
                "UTC",
            ],
        ),
        (&["simulate", "--help"], &["--listen", "--ttft", "--failure", "error-frame", "fail-NAME"]),
        (&["check", "--help"], &["--config"]),
    ] {
        let ran = setup.run(args).await;
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        for word in words {
            assert!(ran.out.contains(word), "{args:?}, {word}: {}", ran.out);
        }
    }
    let ran = setup.run(&["--version"]).await;
    assert!(ran.code == Some(0) && ran.out.contains(env!("CARGO_PKG_VERSION")), "{}", ran.out);
}

#[tokio::test]
async fn help_fits_80_columns() {
    let setup = Setup::new("");
    let commands =
        ["serve", "check", "models", "providers", "stats", "history", "race", "replay", "routing", "simulate"];
    let lines = commands.map(|command| vec![command, "--help"]).into_iter();
    for args in lines.chain([vec!["--help"], vec!["history", "export", "--help"]]) {
        let ran = setup.run(&args).await;
        let wide: Vec<&str> = ran.out.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(ran.code == Some(0) && wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

#[tokio::test]
async fn wrong_use_is_exit_code_2() {
    let setup = Setup::new("");
    for args in
        [&["serve", "--wat"][..], &["srve"], &["stats", "--json", "x"], &["--config"], &["simulate", "--jitter", "9"]]
    {
        let ran = setup.run(args).await;
        assert!(ran.code == Some(2) && ran.out.is_empty() && !ran.err.is_empty(), "{args:?}: {:?}", ran.code);
    }
    for (args, words) in [
        (&["stats", "--by", "moon"][..], &["moon", "upstream", "weekday", "concurrency"][..]),
        (&["stats", "--since", "soon"], &["soon", "24h", "2026-01-31"]),
        (&["stats", "--slo", "ttft=soon"], &["ttft=soon", "250ms"]),
        (&["stats", "--since", "1h", "--until", "2h"], &["--since must be before --until", "Usage: photofinish stats"]),
        (&["stats", "--by", "hour,hour"], &["--by has hour twice"]),
        (
            &["history", "--metric", "cost", "--slo", "ttft=1s"],
            &["--slo does not go with cost", "Usage: photofinish history"],
        ),
        (&["stats", "--since", "-1h"], &["--since", "at most 365d"]),
        (&["stats", "--json", "--csv"], &["--csv"]),
    ] {
        let ran = setup.run(args).await;
        assert!(ran.code == Some(2) && ran.out.is_empty(), "{args:?}: {:?}", ran.code);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}, {word}: {}", ran.err);
        }
    }
    let ran = setup.run(&["srve"]).await;
    assert!(ran.err.contains("serve"), "the nearest command is named: {}", ran.err);
}

#[tokio::test]
async fn stats_reads_the_database_of_a_running_gateway() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let served = Setup::new(&provider("one", &fake)).serve().await;
    assert_eq!(served.ask("one/m").await.status, 200);
    let there = async { while !served.setup.run(&["stats", "--json"]).await.out.contains("one/m") {} };
    crate::support::soon("the row is seen", there).await;
}

#[tokio::test]
async fn names_from_callers_are_escaped_in_the_terminal() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let served = Setup::new(&provider("one", &fake)).serve().await;
    let name = "one/\u{202e}evil\u{61c}\u{200b}";
    assert_eq!(served.ask(name).await.status, 200);
    assert_eq!(served.ask("=cmd|'/c calc'!A0").await.status, 404);
    let at = format!("http://{}", served.addr);
    let routing = served.setup.run(&["routing", "--url", &at]).await;
    let setup = served.stop().await;
    let by_model = setup.run(&["stats", "--by", "model"]).await;
    let by_upstream = setup.run(&["stats"]).await;
    let drawn = setup.run(&["history"]).await;
    for ran in [&by_model, &by_upstream, &routing, &drawn] {
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let harmful = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{61c}' | '\u{200b}');
        assert!(!ran.out.contains(harmful), "{:?}", ran.out);
        assert!(ran.out.contains("\\u{202e}evil\\u{61c}\\u{200b}"), "{}", ran.out);
    }
    let csv = setup.run(&["stats", "--by", "model", "--csv"]).await;
    assert!(csv.out.lines().all(|line| !line.starts_with('=')), "{}", csv.out);
}

#[cfg(unix)]
#[tokio::test]
async fn serve_and_check_warn_of_world_readable_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let setup = Setup::new("[providers.openai]\napi_key = \"planted\"\n");
    let served = setup.serve().await;
    served.process.logged("config.toml has keys or tokens in it").await;
    assert!(!served.process.log().contains("planted"));
    let setup = served.stop().await;
    let open = |name: &str, mode| {
        std::fs::set_permissions(setup.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open("photofinish.db", 0o644);
    let shown = setup.run(&["check"]).await;
    for words in ["mode 644 lets other users", "photofinish.db has the mode 644", "chmod 600"] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    open("photofinish.db", 0o600);
    open("config.toml", 0o600);
    let quiet = setup.run(&["check"]).await;
    assert!(!quiet.out.contains("chmod"), "{}", quiet.out);
}
