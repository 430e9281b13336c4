//! Fuzzes the targets of `fuzz/` with stable Rust instead of cargo-fuzz. It mutates small valid inputs from a seed, and
//! stops at the first input that panics or takes longer than its length allows.
//!
//! `cargo run --release --example fuzz -- [--seconds N] [--seed N] [--input FILE] [target…]`: by default ten seconds, a
//! seed from the clock and all targets. A failing input is written to a file, whose name is printed; `--input` runs
//! that file once more, with one target.

#[path = "../../fuzz/src/targets.rs"]
mod targets;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use fastrand::Rng;
use targets::Target;

/// Maximum bytes of a generated input.
const INPUT_MAX: usize = 64 << 10;
/// Maximum time for an input: a quadratic reader takes seconds for the longest.
const FOR_ANY: Duration = Duration::from_millis(50);
const FOR_A_BYTE: Duration = Duration::from_micros(10);
/// Number of repeated runs for an input that took too long; the shortest counts.
const ROUNDS: usize = 5;
/// Inputs kept per target for further mutation.
const KEPT: usize = 64;
/// Time per turn of one target.
const TURN: Duration = Duration::from_millis(200);

struct Asked {
    seconds: u64,
    seed: u64,
    input: Option<String>,
    targets: Vec<&'static Target>,
}

fn main() -> io::Result<ExitCode> {
    let asked = asked().map_err(io::Error::other)?;
    let mut out = io::stdout();
    if let Some(path) = &asked.input {
        let input = std::fs::read(path)?;
        for target in &asked.targets {
            writeln!(out, "{}: {}", target.name, wrong(target, &input).unwrap_or_else(|| "well".to_owned()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "seed {}, {} s, {} targets", asked.seed, asked.seconds, asked.targets.len())?;
    let mut rng = Rng::with_seed(asked.seed);
    let mut pools: Vec<Vec<Vec<u8>>> = asked.targets.iter().map(|target| seeds(target)).collect();
    let until = Instant::now() + Duration::from_secs(asked.seconds);
    let mut runs = vec![0_u64; pools.len()];
    while Instant::now() < until {
        for (at, target) in asked.targets.iter().enumerate() {
            let turn = Instant::now() + TURN;
            while Instant::now() < turn {
                let input = mutated(&pools[at], &mut rng);
                if let Some(wrong) = wrong(target, &input) {
                    return failed(target, &input, &wrong, asked.seed);
                }
                runs[at] += 1;
                keep(&mut pools[at], input, &mut rng);
            }
        }
    }
    for (target, runs) in asked.targets.iter().zip(runs) {
        writeln!(out, "{:>18}: {runs} inputs", target.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn asked() -> Result<Asked, String> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut asked = Asked { seconds: 10, seed: clock.as_secs(), input: None, targets: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match word.as_str() {
            "--seconds" => asked.seconds = value()?.parse().map_err(|_| "--seconds wants a number")?,
            "--seed" => asked.seed = value()?.parse().map_err(|_| "--seed wants a number")?,
            "--input" => asked.input = Some(value()?),
            name => {
                let names = || targets::ALL.iter().map(|target| target.name).collect::<Vec<_>>().join(" ");
                let found = targets::ALL.iter().find(|target| target.name == name);
                asked.targets.push(found.ok_or_else(|| format!("no target {name}; there are: {}", names()))?);
            }
        }
    }
    if asked.targets.is_empty() {
        asked.targets = targets::ALL.iter().collect();
    }
    Ok(asked)
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let plain = target.seeds.iter().map(|seed| seed.as_bytes().to_vec());
    // A whole answer is also a seed for its frames, which are mutated too.
    plain.clone().chain(plain.map(|seed| targets::binary(&seed).to_vec())).collect()
}

/// What is wrong with the result of a target for an input. None: nothing.
fn wrong(target: &Target, input: &[u8]) -> Option<String> {
    let allowed = FOR_ANY + FOR_A_BYTE * u32::try_from(input.len()).unwrap_or(u32::MAX);
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = ThreadTime::now();
        if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
            return Some("it panics".to_owned());
        }
        least = least.min(start.elapsed());
        if least <= allowed {
            return None;
        }
    }
    Some(format!("{} bytes take {least:?}, at most {allowed:?} are allowed", input.len()))
}

fn failed(target: &Target, input: &[u8], wrong: &str, seed: u64) -> io::Result<ExitCode> {
    let path = std::env::temp_dir().join(format!("fuzz-{}-{seed}", target.name));
    std::fs::write(&path, input)?;
    let path: &Path = &path;
    let shown = String::from_utf8_lossy(&input[..input.len().min(1_000)]);
    let (name, path) = (target.name, path.display());
    writeln!(io::stdout(), "{name}: {wrong}\nseed {seed}, input in {path}:\n{shown:?}")?;
    writeln!(io::stdout(), "again: cargo run --release --example fuzz -- --input {path} {name}")?;
    Ok(ExitCode::FAILURE)
}

/// Keeps some generated inputs, so that changes accumulate; the valid inputs stay in front.
fn keep(pool: &mut Vec<Vec<u8>>, input: Vec<u8>, rng: &mut Rng) {
    if pool.len() < KEPT {
        pool.push(input);
    } else if rng.u8(..16) == 0 {
        let at = rng.usize(KEPT / 4..KEPT);
        pool[at] = input;
    }
}

/// Characters and words that have a meaning in one of the formats.
const WORDS: &[&str] = &[
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "data:",
    "event: ",
    ":",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\u0000",
    "\\ud83d",
    "null",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "true",
    "\"index\":",
    "\"type\":",
    "[DONE]",
    "\u{feff}",
    "\u{1f600}",
    "\0",
    "\"\"",
    "{}",
    "[]",
    "photofinish.",
    "\"error\":{}",
    ",",
];

fn mutated(pool: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = pool[rng.usize(..pool.len())].clone();
    for _ in 0..rng.usize(1..6) {
        mutate(&mut input, pool, rng);
    }
    input.truncate(INPUT_MAX);
    input
}

fn mutate(input: &mut Vec<u8>, pool: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.usize(..=input.len());
    let end = (at + rng.usize(..64)).min(input.len());
    match rng.u8(..9) {
        0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.u8(..8)),
        1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = rng.u8(..)),
        2 => drop(input.drain(at..end)),
        3 => drop(input.splice(at..at, WORDS[rng.usize(..WORDS.len())].bytes())),
        4 => drop(input.splice(at..end, WORDS[rng.usize(..WORDS.len())].bytes())),
        5 => {
            let part = input[at..end].to_vec();
            let to = rng.usize(..=input.len());
            input.splice(to..to, part);
        }
        6 => {
            // Repeats a part: this reveals quadratic readers.
            let part = input[at..end].repeat(rng.usize(1..256));
            input.splice(at..at, part);
        }
        7 => {
            let other = &pool[rng.usize(..pool.len())];
            let from = rng.usize(..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        // Replaces a number.
        _ => {
            if let Some(digit) = input.iter_mut().skip(at).find(|byte| byte.is_ascii_digit()) {
                *digit = rng.u8(b'0'..=b'9');
            }
        }
    }
}
