//! The official Python SDKs parse the answers that clients get.

use std::path::Path;
use std::process::Command;

/// Parses every answer in a folder with OpenAI's and Anthropic's SDKs. `PHOTOFINISH_PYTHON` names the interpreter; if
/// it lacks the SDKs, the test prints that and passes.
pub fn parse(answers: &Path) {
    let python = std::env::var("PHOTOFINISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import openai, anthropic"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no openai and anthropic to parse the answers with");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/parse_with_sdks.py");
    let output = Command::new(&python).arg(script).arg(answers).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the SDKs cannot parse:\n{said}\n{complained}");
    println!("{}", said.trim());
}
