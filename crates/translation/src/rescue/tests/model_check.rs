//! Random answers that break off anywhere, and random upstreams that continue them, for many seeds. `PHOTOFINISH_SEEDS`
//! sets their number. A violation prints its seed.

use fastrand::Rng;

use super::*;

/// Words without blanks. Another table tests blanks after a prefix.
const WORDS: [&str; 6] = ["first", "naïve", "…", "token", "日本", "a"];

/// A text of a few words.
fn text(random: &mut Rng) -> String {
    (0..random.usize(2..12)).map(|_| WORDS[random.usize(..WORDS.len())]).collect()
}

/// The text in random pieces of whole characters.
fn tokens(random: &mut Rng, text: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    for character in text.chars() {
        if random.u8(..3) == 0 {
            tokens.push(String::new());
        }
        if let Some(token) = tokens.last_mut() {
            token.push(character);
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

fn sent(surface: Surface, id: &str, tokens: &[String]) -> String {
    begun(surface, id, &tokens.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The answer as the client received it.
struct Client {
    surface: Surface,
    delivered: DeliveredAnswer,
    bytes: String,
}

impl Client {
    fn get(&mut self, bytes: &str) {
        self.delivered.add(&Bytes::copy_from_slice(bytes.as_bytes()));
        self.delivered.read_up();
        self.bytes += bytes;
    }

    fn text(&self) -> String {
        said(self.surface, &self.bytes)
    }
}

/// One upstream continues the answer. True if it reached the end.
fn go_on(random: &mut Rng, client: &mut Client, whole: &str, number: usize) -> bool {
    let before = client.text();
    let id = format!("other-{number}");
    let replays = random.bool();
    // The same answer, or one with a difference.
    let said = if random.u8(..3) > 0 { whole.to_owned() } else { text(random) };
    let way = if replays { JoinMethod::Replay } else { JoinMethod::Prefix(before.len()) };
    let all = tokens(random, &said);
    let breaks = random.u8(..3) == 0;
    let few = if breaks { random.usize(..=all.len()) } else { all.len() };
    let mut events = sent(client.surface, &id, &all[..few]);
    if !breaks {
        events += &finished(client.surface, &id);
    }
    let (mut joining, mut out) = (JoinedAnswer::new(&client.delivered, way, true), BytesMut::new());
    let mut joined = joining.add(&Bytes::from(events), &mut out);
    if joined.is_ok() && !breaks {
        joined = joining.end(&mut out);
    }
    let out = String::from_utf8(out.to_vec()).unwrap();
    if joined.is_err() {
        let same = said.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
        let may = if replays { !said.starts_with(&before) } else { same >= 16 || before.contains(&said) };
        assert!(may, "{before:?} goes on with {said:?}");
        assert!(out.is_empty(), "nothing of what differs is given out: {out}");
        return false;
    }
    client.get(&out);
    let after = client.text();
    let new = after.strip_prefix(&before).unwrap();
    if breaks {
        assert!(said.contains(new), "{new:?} is no part of {said:?}");
        return false;
    }
    // What is left out repeats the end of what was delivered.
    let cut = said.strip_suffix(new).unwrap();
    assert!(before.ends_with(cut) && (!replays || cut == before), "{before:?}, {said:?}: {new:?}");
    true
}

fn play(seed: u64) {
    let random = &mut Rng::with_seed(seed);
    let surface = TEXTS[random.usize(..TEXTS.len())];
    let whole = text(random);
    let all = tokens(random, &whole);
    let mut client = Client { surface, delivered: DeliveredAnswer::new(surface, false), bytes: String::new() };
    client.get(&sent(surface, "one", &all[..random.usize(1..=all.len())]));
    let mut ended = false;
    for number in 0..6 {
        assert!(client.delivered.may_go_on());
        assert_eq!(client.delivered.text(), client.text());
        ended = go_on(random, &mut client, &whole, number);
        if ended {
            break;
        }
    }
    assert!(!client.bytes.contains("other-"), "the client sees one answer: {}", client.bytes);
    let ends = ["[DONE]", "event: message_stop", "event: response.completed"];
    let count: usize = ends.iter().map(|end| client.bytes.matches(end).count()).sum();
    assert_eq!(count, usize::from(ended), "one end, and only at the end: {}", client.bytes);
}

#[test]
fn what_goes_on_is_one_answer_whoever_says_it() {
    let seeds = std::env::var("PHOTOFINISH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1_000);
    for seed in 0..seeds {
        if let Err(violation) = std::panic::catch_unwind(|| play(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(violation);
        }
    }
}
