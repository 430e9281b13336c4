//! `photofinish incidents`: when upstreams failed or were slow. Reads the database only. Not for the rules: `docs/measurement.md`.

use std::io;

use photofinish_base::clock::wall_micros;
use photofinish_config::StoreAddress;
use photofinish_history::report::incidents::{Incidents, IncidentsQuestion, ask, is_part, name, words};
use photofinish_history::store::StoreReader;

use super::text::{counted, write_paragraph};

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct IncidentsOptions {
    #[command(flatten)]
    pub question: IncidentsQuestion,
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Reads the database and writes text or JSON to `out`. `width`: of the terminal.
pub fn run(
    store: &StoreAddress,
    options: &IncidentsOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let reader = StoreReader::open(store)?;
    let answer = ask(&reader, &options.question, wall_micros())?;
    if options.json {
        return Ok(writeln!(out, "{}", answer.json())?);
    }
    Ok(write(&answer, width, out)?)
}

/// A paragraph for each incident, newest first; below one of the gateway its parts.
pub(super) fn write(answer: &Incidents, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let mut any = false;
    for incident in answer.whole() {
        any = true;
        write_paragraph(&format!("{}: {}", name(incident), words(incident, answer.now_us)), width, out)?;
        for part in answer.incidents.iter().filter(|part| is_part(part, incident)) {
            write_paragraph(&format!("- {}: {}", name(part), words(part, answer.now_us)), width, out)?;
        }
    }
    if !any {
        writeln!(out, "No incidents.")?;
    }
    if !answer.not_watched.is_empty() {
        let few = answer
            .not_watched
            .iter()
            .map(|(upstream, attempts)| format!("{upstream} ({})", counted(*attempts, "attempt")));
        let few = few.collect::<Vec<_>>().join(", ");
        let text =
            format!("Not watched for slowness now, for want of 20 first tokens or cuts in the last hour: {few}.");
        write_paragraph(&text, width, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser as _;
    use serde_json::Value;

    use super::*;
    use photofinish_facts::record::{IncidentRecord, Record, sample};
    use photofinish_history::store::Store;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: IncidentsOptions,
    }

    fn output(path: &Path, line: &str) -> String {
        let words = ["incidents"].into_iter().chain(line.split_whitespace());
        let mut out = Vec::new();
        run(&path.into(), &Line::try_parse_from(words).unwrap().options, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn incidents_and_those_of_the_gateway_with_their_parts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let store = Store::open(&path).unwrap();
        assert_eq!(output(&path, ""), "No incidents.\n");
        let gateway = sample::bare_incident(2);
        let part = IncidentRecord {
            part_of: Some(gateway.incident_id.clone()),
            upstream: Some("a/m\u{1b}".into()),
            traffic: None,
            ..sample::incident(2)
        };
        let alone = IncidentRecord { part_of: None, traffic: None, ..sample::incident(0) };
        store.write(&[gateway, part, alone].map(|incident| Record::Incident(Box::new(incident)))).unwrap();
        assert_eq!(
            output(&path, "--since 2026-01-01"),
            "gateway: 3 upstreams at once: 900 of 1500 attempts failed (60 %, 1 by a content\n\
             policy) from 2026-01-02 05:04 UTC; not watched since 2026-01-02 06:34 UTC: end\nunknown\n\
             - a/m\\u{1b}: first tokens took 2.2 times as long from 2026-01-02 05:04 to 06:19\nUTC; 2 requests broke, 4 were saved\n\
             groq/llama-70b: first tokens took 2.2 times as long from 2026-01-02 03:04 to\n04:19 UTC; 2 requests broke, 4 were saved\n"
        );
        let json: Value =
            serde_json::from_str(&output(&path, "--since 2026-01-01 --until 2026-01-02T04:00:00Z --json")).unwrap();
        assert_eq!(
            json["incidents"][0]["words"],
            "first tokens took 2.2 times as long from 2026-01-02 03:04 to 04:19 UTC; 2 requests broke, 4 were saved"
        );
        assert_eq!((json["incidents"].as_array().unwrap().len(), &json["not_watched"]), (1, &serde_json::json!([])));
    }

    #[test]
    fn those_with_few_attempts_are_named() {
        let answer =
            Incidents { incidents: Vec::new(), not_watched: vec![("a/m".into(), 1), ("b/m".into(), 19)], now_us: 0 };
        let mut out = Vec::new();
        write(&answer, None, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "No incidents.\nNot watched for slowness now, for want of 20 first tokens or cuts in the last\nhour: a/m (1 attempt), \
             b/m (19 attempts).\n"
        );
    }
}
