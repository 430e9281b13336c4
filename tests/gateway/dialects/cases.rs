//! Small inputs from public bug reports, where the directory with them is next to the repository or in `PHOTOFINISH_CASES`: each is
//! played by its own script against the program. Each kind has tests of its own, which need no such directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A case, what clients and providers then see, and what they do not.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const CASES: &[Row] = &[
    ("big-int-args", &["25000000000000000000001", "1e3"], &["e+22"]),
    ("billing-line", &["200 OK", "You are an agent."], &["x-anthropic-billing-header"]),
    ("byok-cost", &["'cost_usd_min': 0.0360795"], &[]),
    ("cache-write-one-hour", &["'cost_usd_min': 0.019712"], &[]),
    ("call-id-repeated-no-index", &[r#""arguments":"{\"path\":\"a.txt\"}""#, r#""input":{"path":"a.txt"}"#], &[]),
    ("claude-tool-reference", &["200 OK", "TaskList can be called now"], &[" 400 "]),
    ("codex-additional-tools", &["functions__read_file", "functions__exec", r#""namespace":"functions""#], &[" 400 "]),
    ("compaction-trigger", &[r#""type":"compaction""#, r#""object":"response.compaction""#], &[" 400 ", " 404 "]),
    ("context-413", &["prompt is too long", r#""code":"context_length_exceeded""#], &["too_large"]),
    ("context-management-refused", &["200 OK", "asked 1 times"], &[]),
    (
        "damaged-event-in-call",
        &["photofinish_stream_broken", "502"],
        &[r#""finish_reason": "tool_calls""#, "'outcome': 'won'"],
    ),
    ("dashboard-sub-path", &[r#"href="dashboard/assets/style.css""#], &[r#"href="/"#, r#"src="/"#]),
    ("deepseek-history", &["'outcome': 'won'", "asked 1 times"], &["'failed'"]),
    ("deepseek-history-responses", &["'outcome': 'won'", "asked 1 times"], &["'failed'"]),
    ("embeddings-base64-floats", &[r#""embedding": "zczMPc3MTD6amZk+zczMPg==""#], &[]),
    ("embeddings-error-wins", &["x-photofinish-upstream: b/x", "'in_stream_error'"], &["upstream: a/x"]),
    ("error-shapes", &["Requests rate limit exceeded", "'rate_limited'"], &["'closed'"]),
    ("finish-network-error", &["photofinish_stream_broken", "upstream: b/x", "'failed_mid'"], &["response.completed"]),
    ("gzip-answer", &["200 OK", "[DONE]"], &["malformed"]),
    ("image-12mib", &["'outcome': 'won'"], &["malformed"]),
    ("json-as-event-stream", &["the whole answer"], &[r#""choices":[]"#]),
    ("kimi-history", &["200 OK", "asked 2 times"], &["'failed'"]),
    ("malformed-only", &["502", "malformed"], &["200 OK"]),
    ("many-headers", &["200 OK", "[DONE]"], &["502"]),
    ("mistral-ids", &["'outcome': 'won'", "asked 2 times"], &["'failed'"]),
    ("mistral-user-after-tool", &["'outcome': 'won'", "asked 2 times"], &["'failed'"]),
    ("no-money-429", &["'forbidden'", "asked 11 times"], &["'rate_limited'"]),
    ("no-proxy-forms", &["'dns'", "asked 0 times"], &[]),
    ("no-usage-in-stream", &[r#""total_tokens": 37"#, r#""output_tokens":30"#], &[]),
    ("reasoning-not-issued", &["fine", "'outcome': 'won'", "asked 2 times"], &[]),
    ("reset-in-body", &["'retry_after_ms': 41000", "asked 41 times"], &[]),
    ("same-index-calls", &["call_a", "call_b"], &[r#"a.txt\"}{"#]),
    ("service-tier-cost", &["'cost_usd_min': 0.63"], &[]),
    (
        "setting-refused-in-own-words",
        &[
            "x-photofinish-learnt: without reasoning_effort",
            "x-photofinish-learnt: without temperature",
            "asked 6 times",
        ],
        &["400 Bad Request"],
    ),
    ("split-emoji", &["hi 😀!"], &["\u{fffd}"]),
    ("stream-refused", &["the whole answer"], &["400 Bad Request"]),
    ("system-in-the-middle", &["200 OK", "'outcome': 'won'"], &["400 Bad Request"]),
    ("tool-name-66", &["200 OK", "asked 1 times"], &["'failed'"]),
    ("tools-need-responses", &["POST /v1/responses", "asked 3 times"], &["'failed'", r#""effort":"none""#]),
    ("usage-estimate-then-truth", &[r#""prompt_tokens":14900"#, "'cost_usd_min': 0.00765"], &[]),
    ("websocket-upgrade", &["101 Switching Protocols"], &["405"]),
    ("whole-as-one-event", &["upstream: a/x", "the whole answer"], &["upstream: b/x"]),
    ("xai-usage", &[r#""output_tokens":850"#, "'cost_usd_min': 0.012861"], &[]),
    ("zstd-request", &["response.completed", "asked 2 times"], &[" 400 "]),
];

/// It waits for half a minute: `race::timeouts` plays it with the clock of the test.
const SLOW: [&str; 1] = ["idle-before-call"];

fn directory() -> Option<PathBuf> {
    let named = std::env::var_os("PHOTOFINISH_CASES").map(PathBuf::from);
    let directory = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases"));
    let can_play = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    (can_play && directory.join("replay.py").is_file()).then_some(directory)
}

/// What a case showed.
fn played(directory: &Path, name: &str) -> String {
    let run = |args: &[&str]| {
        let output = Command::new("python3").args(args).current_dir(directory).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let makes = format!("{name}/make_answer.py");
    if directory.join(&makes).is_file() {
        run(&[&makes]);
    }
    run(&["replay.py", name, env!("CARGO_BIN_EXE_photofinish")])
}

#[test]
fn cases_of_public_reports_are_right() {
    let Some(directory) = directory() else {
        eprintln!("the cases are not here, or python3 is not: nothing was played");
        return;
    };
    // Some make their answers.
    let copy = tempfile::tempdir().unwrap();
    assert!(Command::new("cp").arg("-r").args([&directory.join("."), copy.path()]).status().unwrap().success());
    // It asks for columns that are no more.
    let player = copy.path().join("replay.py");
    let text = std::fs::read_to_string(&player).unwrap().replace("cost_usd, cost_basis", "cost_usd_min, cost_usd_max");
    std::fs::write(&player, text).unwrap();
    let folders = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = folders
        .filter(|folder| folder.join("case.json").is_file())
        .map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    found.retain(|name| !SLOW.contains(&name.as_str()));
    found.sort();
    let known: Vec<&str> = CASES.iter().map(|case| case.0).collect();
    assert_eq!(found, known, "each case has a row");
    let mut wrong = Vec::new();
    for (name, wants, lacks) in CASES {
        let seen = played(copy.path(), name);
        let missing = wants.iter().filter(|text| !seen.contains(**text)).map(|text| format!("lacks {text}"));
        let unwanted = lacks.iter().filter(|text| seen.contains(**text)).map(|text| format!("has {text}"));
        let faults: Vec<String> = missing.chain(unwanted).collect();
        eprintln!("{name}: {}", if faults.is_empty() { "right" } else { "wrong" });
        if !faults.is_empty() {
            wrong.push(format!("{name} {faults:?}:\n{seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}
