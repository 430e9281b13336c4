//! Every command that the documents and the help show, run over a small history: no line is wider than 80 columns.
//!
//! Not for what the commands say: see their own tests.

use std::collections::BTreeSet;
use std::path::Path;

use crate::harness::process::Setup;

/// Providers of the examples, with names of usual lengths.
const CONFIG: &str = r#"
[providers]
groq.simulate = { ttft = "2ms", tokens_per_second = 2000, tokens = 8 }
cerebras.simulate = { ttft = "4ms", tokens_per_second = 2000, tokens = 8 }
openrouter.simulate = { ttft = "8ms", tokens_per_second = 2000, tokens = 8 }
my-vllm.simulate = { ttft = "8ms", tokens_per_second = 2000, tokens = 8 }
[models.demo]
upstreams = [
  { upstream = "groq/llama-3.3-70b-versatile", input_price = 0.59, output_price = 0.79 },
  "cerebras/llama3.3",
  { upstream = "openrouter/meta-llama/llama-4-maverick-17b-128e-instruct", input_price = 0.15, output_price = 0.6 },
]
aliases = ["gpt-4o-mini", "a-longer-name-that-an-app-cannot-change", "gpt-5.4-mini", "claude-sonnet-5", "gemini-flash"]
[models.one]
upstreams = ["my-vllm/m"]
[probes]
max_cost = 0.5
"#;

/// Commands of the documents that this test does not run, by their first words, and why.
const NOT_RUN: [(&str, &str); 3] = [
    ("serve", "serves until a signal"),
    ("simulate", "serves until a signal"),
    ("bench", "sends load for minutes; short runs are in `MORE`"),
];

/// What the documents describe without an example. `probe` comes first: `report` shows what it measured.
const MORE: [&str; 41] = [
    "probe --upstreams groq/llama-3.3-70b-versatile --workload 1k",
    "probe --plan",
    "probe --plan --json",
    "bench my-vllm/m --requests 4 --concurrency 1,2",
    "bench groq/llama-3.3-70b-versatile openrouter/meta-llama/llama-4-maverick-17b-128e-instruct --requests 4 --concurrency 1",
    "bench --model demo --policy race --policy adaptive --requests 4 --request-rate 40",
    "bench --list",
    "check --live --all --yes",
    "models --provider openrouter",
    "models demo",
    "models gpt-oss-120b",
    "models --json",
    "providers openrouter",
    "providers azure",
    "stats --wide",
    "stats --explain",
    "stats --compare --explain",
    "stats --by model",
    "stats --by upstream,user",
    "stats --by hour,input --wide",
    "history --explain",
    "history --metric cost --by model",
    "history --metric tok_s --by concurrency",
    "incidents",
    "replay --model demo",
    "replay --model demo --wide --explain",
    "race Hello --model demo",
    "race Hello --model demo --upstreams groq/fail-500,openrouter/meta-llama/fail-500",
    "routing --wide --explain",
    "verify demo --max-tokens 1000000 --max-cost 5",
    "verify demo --json --max-tokens 1000000 --max-cost 5",
    "models demo",
    "env",
    "env claude --model demo",
    "report",
    "report --json",
    "models nobody",
    "bench nobody/m",
    "replay --model nobody",
    "stats --since yesterday",
    "init --config new.toml",
];

#[tokio::test]
async fn every_documented_command_fits_80_columns() {
    let served = Setup::new(CONFIG).serve().await;
    for model in ["demo", "one", "groq/fail-500"].repeat(3) {
        served.ask(model).await;
    }
    let url = format!("http://{}", served.addr);
    let more = MORE.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let documented: BTreeSet<Vec<String>> = documented().into_iter().collect();
    for (command, _) in NOT_RUN {
        assert!(documented.iter().any(|words| words[0] == command), "no document has `photofinish {command}` any more");
    }
    assert!(documented.len() > 40, "the documents have lost their commands: {documented:#?}");
    let is_run = |words: &Vec<String>| NOT_RUN.iter().all(|(command, _)| words[0] != *command);
    for mut words in more.into_iter().chain(documented.into_iter().filter(is_run)) {
        if ["env", "routing"].contains(&words[0].as_str()) {
            match words.iter().position(|word| word == "--url") {
                Some(at) => words[at + 1].clone_from(&url),
                None => words.extend(["--url".to_owned(), url.clone()]),
            }
        }
        let ran = served.setup.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        // 3: hosts differ.
        assert!(matches!(ran.code, Some(0..=3)), "{words:?}: {:?}\n{}", ran.code, ran.err);
        // For programs, for the web, and for files.
        let formats = ["--json", "--csv", "--html", "--md", "--schema", "export"];
        let out = if words.iter().any(|word| formats.contains(&word.as_str())) { "" } else { &ran.out };
        // A longer word, such as a path, has a line of its own.
        let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        let log = |line: &&str| !line.contains(" INFO ") && !line.contains(" WARN ");
        let wide: Vec<&str> = out.lines().chain(ran.err.lines().filter(log)).filter(wide).collect();
        assert!(wide.is_empty(), "photofinish {}: {wide:#?}", words.join(" "));
        assert!(!out.contains('…'), "a name is cut in a pipe: photofinish {}: {out}", words.join(" "));
    }
}

/// Commands in code of the documents and in the examples of the help.
fn documented() -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["docs", "src/cli/help"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let pages = pages.into_iter().flatten().map(|entry| entry.unwrap().path()).chain([root.join("README.md")]);
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let pages: Vec<String> = pages.filter(|path| path.is_file()).map(|path| text(&path)).collect();
    let lines = pages.iter().flat_map(|page| page.lines());
    lines.flat_map(|line| line.match_indices("photofinish ").filter_map(|(at, _)| command(&line[at..]))).collect()
}

/// The words of a command up to its comment, its redirection, or the end of the code. None: it is no command.
fn command(text: &str) -> Option<Vec<String>> {
    const COMMANDS: [&str; 17] = [
        "bench",
        "check",
        "env",
        "healthcheck",
        "help",
        "history",
        "incidents",
        "init",
        "models",
        "probe",
        "providers",
        "race",
        "replay",
        "report",
        "routing",
        "simulate",
        "stats",
    ];
    let text = text.strip_prefix("photofinish ")?;
    let ends = ["  ", " #", " >", " <", " |", "`", ")"].map(|end| text.find(end).unwrap_or(text.len()));
    let text = &text[..ends.into_iter().min()?];
    let mut words: Vec<String> = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == ' ' => words.push(String::new()),
            _ => words.last_mut()?.push(c),
        }
    }
    let of = if words[0] == "help" { "stats" } else { "groq" };
    let filled = |word: String| match word.as_str() {
        "NAME" | "COMMAND" => of.to_owned(),
        _ => word,
    };
    let is_command = COMMANDS.contains(&words[0].as_str()) || words[0] == "serve";
    is_command.then(|| words.into_iter().map(filled).collect())
}
