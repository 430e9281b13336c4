//! What a request asks of an answer that comes whole, and whether a body is that answer: vectors, rankings, verdicts, images, texts,
//! sounds, counts. Not for conversations, and not for what an error means: see `photofinish_wire::answer::error`.

use std::borrow::Cow;

use bytes::Bytes;

use photofinish_dialects::embeddings::{AskedVectors, NOT_READ, inputs_in};
use photofinish_wire::answer::whole::is_stream;
use photofinish_wire::conversation::members::is_empty_list;
use photofinish_wire::dialect::{PassedCall, Surface};
use photofinish_wire::json::values::says_error;
use photofinish_wire::json::{InvalidJson, Json};
use photofinish_wire::stream::event_reader::{is_bare_error, is_sentence};

/// Why a body is not the answer. None: it says so itself.
pub type NoAnswer = Option<String>;

/// The answer that a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedAnswer {
    kind: AskedKind,
    /// It may come as events, which are looked at elsewhere.
    streams: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AskedKind {
    /// Anything: it is not looked at.
    #[default]
    Any,
    Vectors(AskedVectors),
    /// At most this number of the documents.
    Ranking {
        documents: usize,
        most: usize,
    },
    /// A verdict for each input. `joined`: several inputs may have one.
    Verdicts {
        inputs: usize,
        joined: bool,
    },
    /// At most this number of images, each in this member.
    Images {
        most: usize,
        member: Option<&'static str>,
    },
    /// JSON with a text, or the text alone.
    Text {
        is_json: bool,
    },
    Sound,
    /// A number in this member.
    Count(&'static str),
    /// A list in this member.
    Items(&'static str),
}

impl AskedAnswer {
    /// `members`: those of the request, as JSON texts; of a form, its short fields.
    pub(crate) fn of(surface: Surface, members: &[(Cow<'_, str>, &str)]) -> AskedAnswer {
        if surface.streams() {
            return AskedAnswer::default();
        }
        let member = |wanted: &str| {
            let value = members.iter().rev().find(|(name, _)| name == wanted)?.1;
            (value != "null").then_some(value)
        };
        let word = |name| member(name).unwrap_or_default().trim_matches('"');
        let number = |name: &str| member(name)?.parse::<usize>().ok();
        let kind = match surface {
            Surface::CountTokens | Surface::Passed(PassedCall::InputTokens) => AskedKind::Count("input_tokens"),
            Surface::GeminiCount => AskedKind::Count("totalTokens"),
            Surface::Passed(PassedCall::Transcription | PassedCall::Translation) => {
                let is_json = matches!(word("response_format"), "" | "json" | "verbose_json" | "diarized_json");
                AskedKind::Text { is_json }
            }
            Surface::Passed(PassedCall::Speech) => AskedKind::Sound,
            Surface::Passed(PassedCall::Image | PassedCall::ImageEdit) => AskedKind::Images {
                most: number("n").unwrap_or(1).max(1),
                member: ["b64_json", "url"].into_iter().find(|name| *name == word("response_format")),
            },
            Surface::Passed(PassedCall::Moderation) => {
                let input = member("input").unwrap_or_default();
                AskedKind::Verdicts { inputs: inputs_in(input).unwrap_or(1), joined: input.contains('{') }
            }
            Surface::Passed(PassedCall::Rerank) if member("documents").is_some_and(is_empty_list) => {
                AskedKind::Items("results")
            }
            Surface::Passed(PassedCall::Rerank) => {
                let documents = member("documents").and_then(inputs_in).unwrap_or(usize::MAX);
                AskedKind::Ranking { documents, most: number("top_n").or(number("top_k")).unwrap_or(usize::MAX) }
            }
            Surface::Passed(PassedCall::Compaction) => AskedKind::Items("output"),
            Surface::Passed(PassedCall::Background | PassedCall::Stored) => AskedKind::Any,
            _ => AskedKind::Vectors(AskedVectors::of(surface, &member)),
        };
        AskedAnswer { kind, streams: word("stream") == "true" || word("stream_format") == "sse" }
    }

    /// The answer for the client: the body as it is, unless its vectors have another encoding than asked for.
    ///
    /// # Errors
    /// It is not the answer.
    pub fn answer(&self, surface: Surface, body: &Bytes, content_type: &str) -> Result<Bytes, NoAnswer> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let text = std::str::from_utf8(body).ok();
        let is_json = media_type == "application/json";
        let is_read = || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        if surface.is_passed() && media_type == "text/html" {
            return Err(None);
        }
        if surface.is_passed() && is_json && !is_read() {
            return Err(Some(NOT_READ.to_owned()));
        }
        if self.kind == AskedKind::Any || (self.streams && text.is_some_and(is_stream)) {
            return Ok(body.clone());
        }
        let of_object = || text.filter(|text| text.trim_start().starts_with('{') && is_read());
        let kept = |()| body.clone();
        let looked_at = match self.kind {
            AskedKind::Vectors(asked) => asked.own(surface, body),
            // An empty one is known elsewhere.
            AskedKind::Text { is_json: false } => of_object().map_or(Ok(()), |text| says(text, "text", b'"')).map(kept),
            AskedKind::Sound => match of_object() {
                Some(text) if !is_error(body) && has_some(text) => Ok(body.clone()),
                Some(_) => Err("JSON without a sound".to_owned()),
                None if media_type.starts_with("text/") && text.is_some_and(is_sentence) => return Err(None),
                None => Ok(body.clone()),
            },
            _ => of_object().ok_or_else(|| NOT_READ.to_owned()).and_then(|text| self.look_at(text)).map(kept),
        };
        looked_at.map_err(|why| Some(why).filter(|_| !is_error(body)))
    }

    fn look_at(&self, text: &str) -> Result<(), String> {
        match self.kind {
            AskedKind::Ranking { documents, most } => ranking(text, documents, most),
            AskedKind::Verdicts { inputs, joined } => {
                let verdicts = objects_in(text, "results").iter().filter(|verdict| !verdict.is_empty()).count();
                let is_enough = verdicts == inputs || (joined && verdicts > 0 && verdicts < inputs);
                if is_enough { Ok(()) } else { Err(format!("{verdicts} results for {inputs} inputs")) }
            }
            AskedKind::Images { most, member } => images(text, most, member),
            AskedKind::Text { .. } => says(text, "text", b'"'),
            AskedKind::Count(name) => says(text, name, b'0'),
            AskedKind::Items(name) => says(text, name, b'['),
            AskedKind::Any | AskedKind::Vectors(_) | AskedKind::Sound => Ok(()),
        }
    }
}

/// Whether an object says that it is an error.
pub(crate) fn is_error(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default().trim_start();
    let says = |error| matches!(error, Ok(Some(error)) if says_error(error));
    text.starts_with('{') && (says(Json::new(text).member("error", Json::some)) || is_bare_error(text))
}

/// Whether an object has a member that is not empty.
fn has_some(text: &str) -> bool {
    let mut has_some = false;
    let walked = Json::new(text).object(|_, json| {
        has_some |= !matches!(json.skip()?, "null" | "false" | "\"\"" | "[]" | "{}");
        Ok(())
    });
    walked.is_ok() && has_some
}

/// Whether a member has a value of the kind that begins like this; 0: a number.
fn says(text: &str, wanted: &str, first: u8) -> Result<(), String> {
    let found = Json::new(text).member(wanted, |json| {
        let kind = json.peek().map(|first| if first.is_ascii_digit() { b'0' } else { first });
        json.skip()?;
        Ok(kind)
    });
    if found == Ok(Some(first)) { Ok(()) } else { Err(format!("an answer without `{wanted}`")) }
}

/// The members of one object as JSON texts.
type ObjectTexts<'a> = Vec<(&'a str, &'a str)>;

/// The objects of a list that is a member.
fn objects_in<'a>(text: &'a str, wanted: &str) -> Vec<ObjectTexts<'a>> {
    let mut objects = Vec::new();
    let item = |json: &mut Json<'a>| {
        let mut members = ObjectTexts::new();
        json.object(|name, json| {
            members.push((name, json.skip()?));
            Ok(())
        })?;
        objects.push(members);
        Ok(())
    };
    let walked = list_of(text, wanted, item);
    walked.map(|()| objects).unwrap_or_default()
}

fn list_of<'a>(
    text: &'a str,
    wanted: &str,
    mut item: impl FnMut(&mut Json<'a>) -> Result<(), InvalidJson>,
) -> Result<(), InvalidJson> {
    Json::new(text).object(|name, json| if name == wanted { json.list(&mut item) } else { json.skip().map(drop) })
}

fn value<'a>(members: &ObjectTexts<'a>, wanted: &str) -> Option<&'a str> {
    members.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
}

/// Cohere and Jina call the list `results`, Voyage `data`.
fn ranking(text: &str, documents: usize, most: usize) -> Result<(), String> {
    let mut lists = ["results", "data"].into_iter().map(|name| objects_in(text, name));
    let ranked = lists.find(|list| !list.is_empty()).unwrap_or_default();
    if ranked.is_empty() || ranked.len() > most.min(documents) {
        return Err(format!("{} ranked documents of {documents}", ranked.len()));
    }
    let mut seen = Vec::new();
    for one in &ranked {
        let score = ["relevance_score", "score"].into_iter().find_map(|name| value(one, name)?.parse::<f64>().ok());
        let index = value(one, "index").and_then(|index| index.parse::<usize>().ok());
        let (Some(index), Some(_)) = (index, score) else {
            return Err("a ranked document without `index` or score".to_owned());
        };
        seen.push(index);
    }
    seen.sort_unstable();
    seen.dedup();
    let is_of_these = seen.len() == ranked.len() && seen.last().is_some_and(|last| *last < documents);
    if is_of_these { Ok(()) } else { Err("ranked documents that were not sent".to_owned()) }
}

fn images(text: &str, most: usize, member: Option<&'static str>) -> Result<(), String> {
    let images = objects_in(text, "data");
    if images.is_empty() || images.len() > most {
        return Err(format!("{} images instead of {most}", images.len()));
    }
    let has = |image, name| value(image, name).is_some_and(|value| value.len() > 2 && value.starts_with('"'));
    let is_as_asked = |image| match member {
        Some(member) => has(image, member),
        None => has(image, "b64_json") || has(image, "url"),
    };
    match images.iter().all(is_as_asked) {
        true => Ok(()),
        false => Err(format!("an image without `{}`", member.unwrap_or("b64_json"))),
    }
}

#[cfg(test)]
mod tests;
