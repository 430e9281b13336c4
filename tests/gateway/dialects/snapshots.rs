//! Each surface over upstreams of each dialect, as reviewed snapshots: what the client sends, what the provider gets
//! and sends, and what the client gets, as a stream and whole. A change of a translation appears there as a change of
//! text.
//!
//! After a change: `INSTA_UPDATE=always cargo test --test gateway snapshots`, and review the difference before you
//! commit it. Not for single rules, such as refusals by name: those tests are in this folder and in `crates/wire`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::dialects::tool_calls::calling;
use crate::harness::answer::read_response;
use crate::harness::matrix::{Pair, rules};
use crate::harness::samples::conversation;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Request, Script, Step, event_and_payload};

rules! { everywhere: the_translation_is_as_reviewed }

async fn the_translation_is_as_reviewed(pair: Pair) {
    let Pair { surface, dialect } = pair;
    let fake = FakeProvider::start(vec![calling(dialect), calling(dialect)]).await;
    let gateway = pair.over(&[&fake]).race("lossy = \"drop\"").start().await;
    let mut sent = conversation(surface);
    let whole = read_response(&mut gateway.post(surface.path(), &sent).await).await;
    let request = pretty(&sent);
    if surface != Surface::Gemini {
        sent["stream"] = true.into();
    }
    let streamed = read_response(&mut gateway.post(&surface.path_for("m", true), &sent).await).await;
    gateway.stop().await;

    let mut text = format!("# The client asks: POST {}\n{request}", surface.path());
    writeln!(text, "\n# Left out: {}", streamed.header("x-photofinish-dropped")).unwrap();
    write!(text, "\n# The provider gets: {}", received(&fake.request(1).await)).unwrap();
    write!(text, "\n# The provider streams\n{}", spoken(dialect, &calling(dialect))).unwrap();
    write!(text, "\n# The client gets a stream\n{}", stable(&timeless(surface, &streamed.body))).unwrap();
    write!(text, "\n# The client gets a whole answer\n{}", stable(&pretty(&timeless_answer(surface, whole.json()))))
        .unwrap();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("{surface:?}_over_{}", dialect.name()).to_lowercase(), text);
    });
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Ollama's lines contain times.
fn timeless(surface: Surface, body: &str) -> String {
    if surface != Surface::Ollama {
        return body.to_owned();
    }
    let line = |line: &str| format!("{}\n", timeless_answer(surface, serde_json::from_str(line).unwrap()));
    body.lines().map(line).collect()
}

fn timeless_answer(surface: Surface, mut answer: Value) -> Value {
    let times = answer.as_object_mut().filter(|_| surface == Surface::Ollama).into_iter().flatten();
    for (_, value) in times.filter(|(name, _)| *name == "created_at" || name.ends_with("_duration")) {
        *value = "TIME".into();
    }
    answer
}

fn received(request: &Request) -> String {
    format!("{} {}\n{}", request.method, request.path, pretty(&request.json()))
}

/// The body that the script writes; binary frames are shown as their events.
fn spoken(dialect: Dialect, script: &Script) -> String {
    let chunks = script.steps.iter().filter_map(|step| match step {
        Step::Chunk(bytes) => Some(bytes),
        _ => None,
    });
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match dialect {
        Dialect::Bedrock => chunks
            .map(|frame| event_and_payload(frame))
            .map(|(event, payload)| format!("{event}: {payload}\n"))
            .collect(),
        _ => chunks.map(|bytes| text(bytes)).collect(),
    }
}

/// The body without parts that differ between runs: ids, numbered in their order, and the time of day.
fn stable(body: &str) -> String {
    let mut text = String::new();
    let mut ids: Vec<&str> = Vec::new();
    for word in body.split_inclusive(|next: char| !next.is_ascii_alphanumeric()) {
        let (word, mark) = word.split_at(word.trim_end_matches(|last: char| !last.is_ascii_alphanumeric()).len());
        let is_id = [32, 36].contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id {
            // The number of an item may follow.
            let (id, item) = word.split_at(32);
            let number = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            write!(text, "ID{}{item}{mark}", number + 1).unwrap();
        } else if word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_digit()) {
            write!(text, "TIME{mark}").unwrap();
        } else {
            write!(text, "{word}{mark}").unwrap();
        }
    }
    text
}
