//! Streams with lost, doubled, swapped, cut or damaged events. The client gets a well-formed whole answer or an error
//! event, and every row is valid.

use fastrand::Rng;

use crate::dialects::tool_calls::calling;
use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::Setup;
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Script, Step};

rules! { everywhere: a_garbled_stream_comes_down_well_formed }

const STREAMS: u64 = 60;

/// Applies one to three damages.
fn garble(script: Script, rng: &mut Rng) -> Script {
    let mut chunks = script.chunks();
    for _ in 0..rng.usize(1..=3) {
        let (at, other) = (rng.usize(..chunks.len()), rng.usize(..chunks.len()));
        match rng.u8(..6) {
            0 if chunks.len() > 1 => drop(chunks.remove(at)),
            1 => chunks.insert(other, chunks[at].clone()),
            2 => chunks.swap(at, other),
            3 => chunks.truncate(at + 1),
            4 => chunks[at] = chunks[at].slice(..rng.usize(..=chunks[at].len())),
            _ => {
                let mut bytes = chunks[at].to_vec();
                let place = rng.usize(..bytes.len().max(1));
                bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = rng.u8(b' '..127));
                chunks[at] = bytes.into();
            }
        }
    }
    // An empty chunk would end the body.
    let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty());
    chunks.fold(script.head_only(), |script, chunk| script.step(Step::Chunk(chunk))).end()
}

fn assert_well_formed(surface: Surface, response: &Response) {
    if response.status != 200 {
        assert!([400, 404, 429, 502].contains(&response.status), "{response:#?}");
        surface.error(response);
        return;
    }
    // Only the end of the stream was left.
    if response.body == "data: [DONE]\n\n" {
        return;
    }
    let ends = [
        "data: [DONE]",
        "event: message_stop",
        "event: response.completed",
        "event: response.incomplete",
        "\"done\":true",
        "\"finishReason\":",
    ];
    if ends.iter().any(|end| response.body.contains(end)) {
        surface.assert_complete(response);
    } else {
        surface.assert_broken(response);
    }
}

async fn a_garbled_stream_comes_down_well_formed(pair: Pair) {
    let fake = FakeProvider::answering(move |request| {
        // The same damage for streaming and whole answers.
        let mut rng = Rng::with_seed(request.number as u64 / 2);
        let script = if rng.bool() { calling(pair.dialect) } else { pair.stream(&["a", "é", "c"]) };
        garble(script, &mut rng)
    })
    .await;
    let gateway = pair.over(&[&fake]).race("breaker = { failures = 1000 }").start().await;
    for seed in 0..STREAMS {
        let streamed = read_response(&mut pair.streaming(&gateway).await).await;
        let whole = read_response(&mut pair.whole(&gateway).await).await;
        assert_eq!(fake.requests().len() as u64, 2 * seed + 2, "{streamed:#?} {whole:#?}");
        // An untranslated answer is passed on with its damage.
        if pair.surface.dialect() != pair.dialect {
            assert_well_formed(pair.surface, &streamed);
        }
        if whole.status == 200 {
            assert!(whole.json().is_object(), "seed {seed}: {}", whole.body);
        } else {
            assert!([400, 404, 429, 502].contains(&whole.status), "seed {seed}: {whole:#?}");
            pair.surface.error(&whole);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_whose_only_content_cannot_be_read_is_none() {
    let fake = FakeProvider::answering(|_| {
        let event =
            "data: {\n \"choices\": [\n  {\n   \"index\": 0,\n   \"delta\": {\"content\": \"hi\"}\n  }\n ]\n}\n\n";
        Script::sse().role().chunk(event).finish("stop").done()
    })
    .await;
    let gateway = Setup::over(&[&fake]).race("retries = 0").start().await;
    for stream in [true, false] {
        for surface in [Surface::Chat, Surface::Messages] {
            let path = surface.path_for("m", stream);
            let response = read_response(&mut gateway.post(&path, &surface.body("m", stream)).await).await;
            assert_eq!(response.status, 502, "{surface:?}: {}", response.body);
            assert!(response.body.contains("malformed"), "{}", response.body);
        }
    }
    gateway.stop().await;
}
