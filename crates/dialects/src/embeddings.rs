//! Embeddings over a dialect other than the caller's: one form between the requests of OpenAI, Ollama and Gemini and those of
//! every dialect that has embeddings, and the answer back; and whether an answer has the vectors that were asked for. A request in
//! the caller's own dialect is not read, but for the model that Gemini's name again.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::gemini;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::Losses;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::json::{InvalidJson, Json, unescape};

/// Maximum inputs of a translated request; the same as OpenAI's.
const INPUTS_MAX: usize = 2_048;

/// A request for embeddings in no dialect.
#[derive(Debug, Default)]
pub struct EmbeddingRequest {
    inputs: Vec<String>,
    dimensions: Option<u64>,
    /// A text that is too long is cut instead of refused.
    truncate: bool,
    base64: bool,
    losses: Losses,
}

/// How the answer to one translated request is written for the caller.
#[derive(Clone, Debug)]
pub struct EmbeddingForm {
    surface: Surface,
    dialect: Dialect,
    asked: AskedVectors,
}

/// The vectors that a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedVectors {
    /// None: it is not known how many.
    inputs: Option<usize>,
    dimensions: Option<u64>,
    /// As text instead of numbers.
    base64: bool,
    /// In a form of the vendor's own, which is not looked at.
    is_own: bool,
}

impl EmbeddingRequest {
    /// # Errors
    /// Its input is no text, or too many texts.
    pub fn read(surface: Surface, body: &[u8]) -> Result<EmbeddingRequest, Invalid> {
        let members: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|_| invalid("We could not parse the JSON body of your request.", None))?;
        let mut request = EmbeddingRequest::default();
        match surface {
            Surface::GeminiEmbed => request.read_content(members)?,
            Surface::GeminiEmbedBatch => request.read_batch(members)?,
            _ => request.read_inputs(members)?,
        }
        Ok(request)
    }

    fn read_inputs(&mut self, members: Map<String, Value>) -> Result<(), Invalid> {
        let request = self;
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_str(), &value) {
                ("model", _) => {}
                ("input" | "prompt", Value::String(text)) => request.inputs.push(text.clone()),
                ("input", Value::Array(items)) => request.inputs = texts(items)?,
                ("dimensions", Value::Number(number)) if number.is_u64() => request.dimensions = number.as_u64(),
                ("truncate", Value::Bool(truncate)) => request.truncate = *truncate,
                ("encoding_format", Value::String(format)) if format == "float" => {}
                ("encoding_format", Value::String(format)) if format == "base64" => request.base64 = true,
                _ => request.losses.lose(&name),
            }
        }
        Ok(())
    }

    fn read_batch(&mut self, mut members: Map<String, Value>) -> Result<(), Invalid> {
        let Some(Value::Array(requests)) = members.remove("requests") else {
            return Err(invalid("'requests' has to be a list.", Some("requests")));
        };
        if requests.len() > INPUTS_MAX {
            return Err(invalid(&format!("'requests' has more than {INPUTS_MAX} items."), Some("requests")));
        }
        members.keys().filter(|name| *name != "model").for_each(|name| self.losses.lose(name));
        for (place, request) in requests.into_iter().enumerate() {
            let Value::Object(request) = request else {
                return Err(invalid("'requests' has an item that is no object.", Some("requests")));
            };
            let before = self.dimensions;
            self.read_content(request)?;
            if place > 0 && self.dimensions != before {
                return Err(invalid("All of 'requests' need the same 'outputDimensionality'.", Some("requests")));
            }
        }
        Ok(())
    }

    /// One content of Gemini's, with its settings.
    fn read_content(&mut self, members: Map<String, Value>) -> Result<(), Invalid> {
        self.dimensions = None;
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_str(), &value) {
                ("model", _) => {}
                ("content", content) => {
                    let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let texts: Option<String> = parts.iter().map(|part| part["text"].as_str()).collect();
                    let message =
                        "'content' has a part that is no text, which only upstreams of the dialect gemini take.";
                    let text = texts.filter(|_| !parts.is_empty());
                    self.inputs.push(text.ok_or_else(|| invalid(message, Some("content")))?);
                }
                ("outputDimensionality" | "output_dimensionality", Value::Number(number)) if number.is_u64() => {
                    self.dimensions = number.as_u64();
                }
                _ => self.losses.lose(&name),
            }
        }
        Ok(())
    }

    /// The request in a dialect; `model` is set later where the body has it at its top level. Adds what cannot be
    /// written to the losses.
    ///
    /// # Errors
    /// The model does not take these inputs.
    pub fn write(&self, dialect: Dialect, model: &str, losses: &mut Losses) -> Result<Value, Invalid> {
        losses.extend(&self.losses);
        let lose_truncate = |losses: &mut Losses| losses.lose_if(self.truncate, "truncate");
        match dialect {
            Dialect::Ollama => {
                let mut body = json!({ "input": self.inputs, "truncate": self.truncate });
                body.put("dimensions", self.dimensions);
                Ok(body)
            }
            Dialect::Gemini => {
                lose_truncate(losses);
                let name = gemini::model_name(model);
                let request = |text: &String| {
                    let mut request = json!({ "model": name, "content": { "parts": [{ "text": text }] } });
                    request.put("outputDimensionality", self.dimensions);
                    request
                };
                Ok(json!({ "requests": self.inputs.iter().map(request).collect::<Vec<_>>() }))
            }
            Dialect::Bedrock => self.write_bedrock(model, losses),
            // The form of OpenAI, which most servers have.
            _ => {
                lose_truncate(losses);
                let mut body = json!({ "input": self.inputs });
                body.put("dimensions", self.dimensions);
                Ok(body)
            }
        }
    }

    /// Each family of models on Bedrock has a format of its own.
    fn write_bedrock(&self, model: &str, losses: &mut Losses) -> Result<Value, Invalid> {
        if model.contains("cohere.embed") {
            let truncate = if self.truncate { "END" } else { "NONE" };
            // The format demands a purpose, which no other dialect names.
            let mut body = json!({ "texts": self.inputs, "input_type": "search_document", "truncate": truncate });
            let has_dimensions = model.contains("embed-v4");
            body.put("output_dimension", self.dimensions.filter(|_| has_dimensions));
            losses.lose_if(self.dimensions.is_some() && !has_dimensions, "dimensions");
            return Ok(body);
        }
        if !model.contains("titan-embed") {
            let message = "On Bedrock only the models titan-embed and cohere.embed are asked for embeddings.";
            return Err(invalid(message, Some("model")));
        }
        let [text] = self.inputs.as_slice() else {
            return Err(invalid("Titan on Bedrock embeds one text per request.", Some("input")));
        };
        losses.lose_if(self.truncate, "truncate");
        let mut body = json!({ "inputText": text });
        let has_dimensions = model.contains("text-v2");
        body.put("dimensions", self.dimensions.filter(|_| has_dimensions));
        losses.lose_if(self.dimensions.is_some() && !has_dimensions, "dimensions");
        Ok(body)
    }

    /// How its answer is written for a caller of `surface`.
    pub fn form(&self, surface: Surface, dialect: Dialect, lost: &Losses) -> EmbeddingForm {
        let dimensions = self.dimensions.filter(|_| lost.deciding().all(|name| name != "dimensions"));
        let asked = AskedVectors { inputs: Some(self.inputs.len()), dimensions, base64: self.base64, is_own: false };
        EmbeddingForm { surface, dialect, asked }
    }
}

/// Gemini's request with this model in place of the one that its body names in addition to the path.
pub fn renamed(body: &Bytes, model: &str) -> Bytes {
    let name = Value::from(gemini::model_name(model));
    let rename = |request: &mut Map<String, Value>| {
        // Some readers ignore the case of names.
        if request.keys().any(|key| key.eq_ignore_ascii_case("model")) {
            request.retain(|key, _| !key.eq_ignore_ascii_case("model"));
            request.insert("model".to_owned(), name.clone());
        }
    };
    let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(body) else { return body.clone() };
    rename(&mut members);
    let requests = members.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten();
    requests.filter_map(Value::as_object_mut).for_each(rename);
    serde_json::to_vec(&members).map_or_else(|_| body.clone(), Bytes::from)
}

fn invalid(message: &str, param: Option<&str>) -> Invalid {
    Invalid { message: message.to_owned(), param: param.map(str::to_owned) }
}

fn texts(items: &[Value]) -> Result<Vec<String>, Invalid> {
    if items.len() > INPUTS_MAX {
        return Err(invalid(&format!("'input' has more than {INPUTS_MAX} items."), Some("input")));
    }
    let text = |item: &Value| item.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = items.iter().map(text).collect();
    let message = "'input' has tokens, which only upstreams of the dialect openai take: send text instead.";
    texts.ok_or_else(|| invalid(message, Some("input")))
}

/// An answer in no dialect.
struct EmbeddingAnswer {
    vectors: Vec<Vec<f32>>,
    model: String,
    /// Tokens of the input, if counted.
    tokens: Option<u64>,
}

impl EmbeddingForm {
    /// The upstream's answer in the caller's form. `model` is used unless the upstream names its own.
    ///
    /// # Errors
    /// Why the body is not the answer to this request.
    pub fn answer(&self, body: &[u8], model: &str) -> Result<Bytes, String> {
        let text = std::str::from_utf8(body).map_err(|_| NOT_READ)?;
        let vectors = self.asked.checked(vectors_of(self.dialect, text).map_err(|InvalidJson| NOT_READ)?)?;
        let vectors = vectors.iter().map(|vector| vector.numbers()).collect::<Option<Vec<_>>>().ok_or(NO_VECTORS)?;
        let wire: WireEmbeddings = serde_json::from_str(text).map_err(|_| NOT_READ)?;
        let tokens = wire.usage.and_then(|usage| usage.prompt_tokens);
        let tokens = tokens.or(wire.prompt_eval_count).or(wire.input_text_token_count);
        let answer = EmbeddingAnswer { vectors, model: wire.model.unwrap_or_else(|| model.to_owned()), tokens };
        self.written(&answer).ok_or_else(|| NO_VECTORS.to_owned())
    }

    fn written(&self, answer: &EmbeddingAnswer) -> Option<Bytes> {
        let (model, vectors) = (Value::from(answer.model.as_str()), &answer.vectors);
        match self.surface {
            Surface::OllamaEmbed => {
                let count = answer.tokens.map(|tokens| format!(",\"prompt_eval_count\":{tokens}")).unwrap_or_default();
                let vectors = serde_json::to_string(vectors).ok()?;
                return Some(format!("{{\"model\":{model},\"embeddings\":{vectors}{count}}}").into());
            }
            Surface::OllamaEmbeddings => {
                return Some(format!("{{\"embedding\":{}}}", serde_json::to_string(vectors.first()?).ok()?).into());
            }
            Surface::GeminiEmbed | Surface::GeminiEmbedBatch => return self.answer_gemini(answer),
            _ => {}
        }
        let data = vectors.iter().enumerate().map(|(index, vector)| {
            let embedding = written(vector, self.asked.base64)?;
            Some(format!("{{\"object\":\"embedding\",\"index\":{index},\"embedding\":{embedding}}}"))
        });
        let data = data.collect::<Option<Vec<String>>>()?.join(",");
        // Clients require the member. The gateway does not record a count of zero.
        let tokens = answer.tokens.unwrap_or(0);
        let usage = format!("{{\"prompt_tokens\":{tokens},\"total_tokens\":{tokens}}}");
        Some(format!("{{\"object\":\"list\",\"data\":[{data}],\"model\":{model},\"usage\":{usage}}}").into())
    }

    fn answer_gemini(&self, answer: &EmbeddingAnswer) -> Option<Bytes> {
        let vectors =
            answer.vectors.iter().map(|vector| Some(format!("{{\"values\":{}}}", serde_json::to_string(vector).ok()?)));
        let vectors = vectors.collect::<Option<Vec<String>>>()?;
        let count = |tokens| format!(",\"usageMetadata\":{{\"promptTokenCount\":{tokens}}}");
        let usage = answer.tokens.map(count).unwrap_or_default();
        Some(Bytes::from(match self.surface {
            Surface::GeminiEmbed => format!("{{\"embedding\":{}{usage}}}", vectors.first()?),
            _ => format!("{{\"embeddings\":[{}]{usage}}}", vectors.join(",")),
        }))
    }
}

/// The JSON text of a vector. In base64 it is little-endian floats.
fn written(vector: &[f32], base64: bool) -> Option<String> {
    if !base64 {
        return serde_json::to_string(vector).ok();
    }
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    Some(format!("\"{}\"", STANDARD.encode(bytes)))
}

pub const NOT_READ: &str = "an answer that is no JSON";
const NO_VECTORS: &str = "an answer with something else than vectors";

impl AskedVectors {
    /// What a request in its own words asks for. `member` returns the JSON text of a member.
    pub fn of<'a>(surface: Surface, member: &impl Fn(&str) -> Option<&'a str>) -> AskedVectors {
        let number = |name| member(name)?.parse().ok();
        match surface {
            Surface::GeminiEmbed => AskedVectors {
                inputs: Some(1),
                dimensions: number("outputDimensionality").or(number("output_dimensionality")),
                ..AskedVectors::default()
            },
            Surface::GeminiEmbedBatch => AskedVectors::of_batch(member("requests").unwrap_or_default()),
            Surface::OllamaEmbeddings => AskedVectors { inputs: Some(1), ..AskedVectors::default() },
            _ => {
                let encoding = member("encoding_format").unwrap_or("\"float\"");
                let of_vendors = ["output_dtype", "embedding_type", "embedding_types", "return_multivector"];
                let is_known = matches!(encoding, "\"float\"" | "\"base64\"");
                AskedVectors {
                    inputs: inputs_in(member("input").unwrap_or_default()),
                    dimensions: number("dimensions"),
                    base64: encoding == "\"base64\"",
                    is_own: !is_known || of_vendors.iter().any(|name| member(name).is_some()),
                }
            }
        }
    }

    fn of_batch(requests: &str) -> AskedVectors {
        let mut asked = Vec::new();
        let walked = Json::new(requests).list(|json| {
            let mut dimensions = None;
            json.object(|name, json| {
                let value = json.skip()?;
                if matches!(name, "outputDimensionality" | "output_dimensionality") {
                    dimensions = value.parse().ok();
                }
                Ok(())
            })?;
            asked.push(dimensions);
            Ok(())
        });
        let dimensions = asked.first().copied().flatten();
        // Vectors of several lengths are not looked at.
        let is_own = asked.iter().any(|of_one| *of_one != dimensions);
        AskedVectors { inputs: walked.ok().map(|()| asked.len()), dimensions, base64: false, is_own }
    }

    /// An answer in the caller's own dialect. Only vectors in another encoding than asked for are written anew.
    ///
    /// # Errors
    /// Why the body is not the answer to this request.
    pub fn own(&self, surface: Surface, body: &Bytes) -> Result<Bytes, String> {
        let text = std::str::from_utf8(body).map_err(|_| NOT_READ)?;
        let (list, member) = match surface {
            Surface::OllamaEmbed => ("embeddings", ""),
            Surface::OllamaEmbeddings => ("embedding", ""),
            Surface::GeminiEmbed => ("embedding", "values"),
            Surface::GeminiEmbedBatch => ("embeddings", "values"),
            _ => ("data", "embedding"),
        };
        let found = vectors_in(text, list, member).map_err(|InvalidJson| NOT_READ)?;
        let mut vectors = self.checked(found)?;
        vectors.retain(|vector| !self.is_own && vector.is_base64() != self.base64);
        if vectors.is_empty() {
            return Ok(body.clone());
        }
        vectors.sort_by_key(|vector| vector.0.as_ptr());
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for vector in vectors {
            let start = vector.0.as_ptr() as usize - text.as_ptr() as usize;
            out.push_str(&text[at..start]);
            out.push_str(&vector.numbers().and_then(|numbers| written(&numbers, self.base64)).ok_or(NO_VECTORS)?);
            at = start + vector.0.len();
        }
        out.push_str(&text[at..]);
        Ok(out.into())
    }

    /// The vectors in the order of their inputs, if they are those that were asked for.
    fn checked<'a>(&self, found: Vec<FoundVector<'a>>) -> Result<Vec<WireVector<'a>>, String> {
        let inputs = self.inputs.unwrap_or(found.len().max(1));
        if found.len() != inputs {
            return Err(format!("{} vectors for {inputs} inputs", found.len()));
        }
        let mut ordered = vec![None; inputs];
        // Some servers number every vector 0: then their order counts.
        let is_numbered = found.iter().any(|(index, _)| index.is_some_and(|index| index > 0));
        for (place, (index, vector)) in found.into_iter().enumerate() {
            match ordered.get_mut(index.filter(|_| is_numbered).unwrap_or(place)) {
                Some(empty @ None) => *empty = Some(vector),
                _ => return Err("vectors whose `index` members are not those of the inputs".to_owned()),
            }
        }
        let vectors: Vec<WireVector<'_>> = ordered.into_iter().flatten().collect();
        if self.is_own {
            return Ok(vectors);
        }
        let mut wanted = self.dimensions;
        for vector in &vectors {
            let length = vector.length().filter(|length| *length > 0).ok_or(NO_VECTORS)?;
            if *wanted.get_or_insert(length) != length {
                return Err(match self.dimensions {
                    Some(asked) => format!("a vector of {length} dimensions instead of {asked}"),
                    None => "vectors of different lengths".to_owned(),
                });
            }
        }
        Ok(vectors)
    }
}

/// How many inputs the member `input` has: a text, a list of texts, the tokens of one, or a list of those.
pub fn inputs_in(input: &str) -> Option<usize> {
    let (mut items, mut tokens) = (0, 0);
    Json::new(input)
        .list(|json| {
            items += 1;
            tokens += usize::from(json.peek().is_some_and(|first| first.is_ascii_digit()));
            json.skip().map(drop)
        })
        .ok()?;
    match items {
        0 => input.starts_with('"').then_some(1),
        _ if tokens > 0 => Some(1),
        _ => Some(items),
    }
}

/// A vector in an answer and its `index`, if it has one.
type FoundVector<'a> = (Option<usize>, WireVector<'a>);

/// A vector as it was written: a list of numbers, or little-endian floats in base64.
#[derive(Clone, Copy)]
struct WireVector<'a>(&'a str);

impl WireVector<'_> {
    fn is_base64(self) -> bool {
        self.0.starts_with('"')
    }

    fn bytes(self) -> Option<Vec<u8>> {
        let text: Cow<'_, str> = unescape(self.0.strip_prefix('"')?.strip_suffix('"')?)?;
        STANDARD.decode(text.as_bytes()).ok().filter(|bytes| bytes.len() % 4 == 0)
    }

    /// The numbers in it. None: it is no vector.
    fn length(self) -> Option<u64> {
        if self.is_base64() {
            return Some(self.bytes()?.len() as u64 / 4);
        }
        // It is JSON, so nothing but numbers has these signs alone.
        let inner = self.0.strip_prefix('[')?.strip_suffix(']')?.as_bytes();
        let is_of_numbers = inner.iter().all(|byte| {
            matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' | b',' | b' ' | b'\n' | b'\r' | b'\t')
        });
        let commas = inner.iter().filter(|byte| **byte == b',').count() as u64;
        is_of_numbers.then_some(if inner.trim_ascii().is_empty() { 0 } else { commas + 1 })
    }

    fn numbers(self) -> Option<Vec<f32>> {
        if !self.is_base64() {
            return serde_json::from_str(self.0).ok();
        }
        let bytes = self.bytes()?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Some(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }
}

/// The vectors in an answer of a dialect to a translated request.
fn vectors_of(dialect: Dialect, text: &str) -> Result<Vec<FoundVector<'_>>, InvalidJson> {
    match dialect {
        Dialect::Ollama => vectors_in(text, "embeddings", ""),
        Dialect::Gemini => vectors_in(text, "embeddings", "values"),
        Dialect::Bedrock => {
            let mut found = vectors_in(text, "embedding", "")?;
            if found.is_empty() {
                found = vectors_in(text, "embeddings", "")?;
            }
            if found.is_empty()
                && let Some(by_type) = Json::new(text).member("embeddings", Json::some)?
            {
                found = vectors_in(by_type, "float", "")?;
            }
            Ok(found)
        }
        _ => vectors_in(text, "data", "embedding"),
    }
}

/// The vectors in the member `list`, each itself an item or the `member` of one. Only `embedding` is one item without a list.
fn vectors_in<'a>(text: &'a str, list: &str, member: &str) -> Result<Vec<FoundVector<'a>>, InvalidJson> {
    let mut found = Vec::new();
    let mut take = |json: &mut Json<'a>| {
        let (mut index, mut vector) = (None, "null");
        if member.is_empty() {
            vector = json.skip()?;
        } else {
            json.object(|name, json| {
                let value = json.skip()?;
                match name {
                    "index" => index = value.parse().ok(),
                    name if name == member => vector = value,
                    _ => {}
                }
                Ok(())
            })?;
        }
        found.push((index, WireVector(vector)));
        Ok(())
    };
    Json::whole(text, |name, json| match name == list {
        true if list == "embedding" => take(json),
        true => json.list(&mut take),
        false => json.skip().map(drop),
    })?;
    Ok(found)
}

/// What an answer has in addition to its vectors. A member that a dialect does not use is absent.
#[derive(Deserialize)]
struct WireEmbeddings {
    model: Option<String>,
    #[serde(alias = "usageMetadata")]
    usage: Option<WireTokens>,
    prompt_eval_count: Option<u64>,
    #[serde(rename = "inputTextTokenCount")]
    input_text_token_count: Option<u64>,
}

#[derive(Deserialize)]
struct WireTokens {
    #[serde(alias = "promptTokenCount")]
    prompt_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(body: &str, dialect: Dialect, model: &str) -> Result<(Value, Vec<String>), String> {
        written_of(Surface::Embeddings, body, dialect, model)
    }

    fn written_of(surface: Surface, body: &str, dialect: Dialect, model: &str) -> Result<(Value, Vec<String>), String> {
        let request = EmbeddingRequest::read(surface, body.as_bytes()).map_err(|invalid| invalid.message)?;
        let mut losses = Losses::default();
        let written = request.write(dialect, model, &mut losses).map_err(|invalid| invalid.message)?;
        Ok((written, losses.deciding().map(str::to_owned).collect::<Vec<_>>()))
    }

    #[test]
    fn a_request_in_every_dialect() {
        let body =
            r#"{"model":"m","input":["a","b"],"dimensions":8,"user":"u","encoding_format":"base64","options":{}}"#;
        let two = json!(["a", "b"]);
        let gemini = |text: &str| json!({ "model": "models/g", "content": { "parts": [{ "text": text }] }, "outputDimensionality": 8 });
        let cohere = json!({ "texts": two, "input_type": "search_document", "truncate": "NONE" });
        let mut cohere4 = cohere.clone();
        cohere4["output_dimension"] = json!(8);
        for (dialect, model, expected, lost) in [
            (Dialect::OpenAi, "m", json!({ "input": two, "dimensions": 8 }), vec![]),
            (Dialect::Ollama, "m", json!({ "input": two, "truncate": false, "dimensions": 8 }), vec![]),
            (Dialect::Gemini, "g", json!({ "requests": [gemini("a"), gemini("b")] }), vec![]),
            (Dialect::Bedrock, "cohere.embed-v4:0", cohere4, vec![]),
            (Dialect::Bedrock, "eu.cohere.embed-english-v3", cohere, vec!["dimensions".to_owned()]),
        ] {
            assert_eq!(written(body, dialect, model), Ok((expected, lost)), "{model}");
        }
        let one = r#"{"input":"a","dimensions":8,"x_odd":1}"#;
        let odd = vec!["x_odd".to_owned()];
        let titan = |model| written(one, Dialect::Bedrock, model);
        assert_eq!(
            titan("amazon.titan-embed-text-v2:0"),
            Ok((json!({ "inputText": "a", "dimensions": 8 }), odd.clone()))
        );
        let lost = vec!["dimensions".to_owned(), "x_odd".to_owned()];
        assert_eq!(titan("amazon.titan-embed-text-v1"), Ok((json!({ "inputText": "a" }), lost)));
        assert!(titan("anthropic.claude").unwrap_err().contains("titan-embed and cohere.embed"));
        assert!(written(body, Dialect::Bedrock, "amazon.titan-embed-text-v2:0").unwrap_err().contains("one text"));
        assert!(written(r#"{"input":[1,2]}"#, Dialect::Gemini, "g").unwrap_err().contains("tokens"));
        assert_eq!(written(r#"{"input":"a","dimensions":-1}"#, Dialect::Gemini, "g").unwrap().1, ["dimensions"]);
        let many = json!({ "input": vec!["a"; INPUTS_MAX + 1] }).to_string();
        assert!(written(&many, Dialect::Gemini, "g").unwrap_err().contains("more than 2048"));
    }

    #[test]
    fn a_request_of_geminis_and_of_the_older_ollama_in_another_dialect() {
        let openai = |surface, body: &str| written_of(surface, body, Dialect::OpenAi, "m");
        let content =
            |text: &str| format!(r#""model":"models/x","content":{{"parts":[{{"text":"a"}},{{"text":"{text}"}}]}}"#);
        let one = format!("{{{},\"outputDimensionality\":8,\"taskType\":\"RETRIEVAL_QUERY\"}}", content("b"));
        let lost = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            openai(Surface::GeminiEmbed, &one),
            Ok((json!({ "input": ["ab"], "dimensions": 8 }), lost(&["taskType"])))
        );
        let batch = |items: &[String]| format!("{{\"requests\":[{}]}}", items.join(","));
        let two = batch(&[format!("{{{}}}", content("b")), format!("{{{}}}", content("c"))]);
        assert_eq!(openai(Surface::GeminiEmbedBatch, &two), Ok((json!({ "input": ["ab", "ac"] }), vec![])));
        assert_eq!(
            openai(Surface::OllamaEmbeddings, r#"{"model":"m","prompt":"a","keep_alive":1}"#),
            Ok((json!({ "input": ["a"] }), vec![]))
        );
        let unlike = batch(&[one, format!("{{{}}}", content("c"))]);
        for (body, why) in [
            (unlike.as_str(), "need the same"),
            (r#"{"requests":[{"content":{"parts":[{"inlineData":{}}]}}]}"#, "no text"),
            (r#"{"requests":[{"content":"a"}]}"#, "no text"),
            (r#"{"requests":[1]}"#, "no object"),
            (r#"{"requests":{}}"#, "a list"),
            (&batch(&vec!["{}".to_owned(); INPUTS_MAX + 1]), "more than 2048"),
        ] {
            let said = openai(Surface::GeminiEmbedBatch, body).unwrap_err();
            assert!(said.contains(why), "{body:.80}: {said}");
        }
        let named = r#"{"model":"models/x","requests":[{"model":"models/x","Model":"y","taskType":"T"},{"a":1},2]}"#;
        let expected = r#"{"requests":[{"taskType":"T","model":"models/g"},{"a":1},2],"model":"models/g"}"#;
        assert_eq!(renamed(&Bytes::from(named), "g"), expected);
        assert_eq!(renamed(&Bytes::from("{"), "g"), "{");
    }

    #[test]
    fn an_answer_of_every_dialect() {
        let answer = |dialect, surface, base64, inputs, body: &str| {
            let asked = AskedVectors { inputs: Some(inputs), base64, ..AskedVectors::default() };
            let answer = EmbeddingForm { surface, dialect, asked }.answer(body.as_bytes(), "m").ok();
            answer.map(|body| serde_json::from_slice::<Value>(&body).unwrap())
        };
        let openai = r#"{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1.5]}],"model":"e","usage":{"prompt_tokens":3}}"#;
        assert_eq!(
            answer(Dialect::OpenAi, Surface::OllamaEmbed, false, 2, openai),
            Some(json!({ "model": "e", "embeddings": [[1.5], [2.0]], "prompt_eval_count": 3 }))
        );
        for (dialect, body, tokens) in [
            (Dialect::Ollama, r#"{"embeddings":[[1.0,-2]],"prompt_eval_count":4}"#, 4),
            (Dialect::Gemini, r#"{"embeddings":[{"values":[1,-2]}]}"#, 0),
            (Dialect::Bedrock, r#"{"embedding":[1,-2],"inputTextTokenCount":5}"#, 5),
            (Dialect::Bedrock, r#"{"embeddings":[[1,-2]]}"#, 0),
            (Dialect::Bedrock, r#"{"embeddings":{"float":[[1,-2]]}}"#, 0),
        ] {
            for (base64, vector) in [(false, json!([1.0, -2.0])), (true, json!("AACAPwAAAMA="))] {
                let expected = json!({ "object": "list", "data": [{ "object": "embedding", "index": 0, "embedding": vector }],
                    "model": "m", "usage": { "prompt_tokens": tokens, "total_tokens": tokens } });
                assert_eq!(answer(dialect, Surface::Embeddings, base64, 1, body), Some(expected), "{body}");
            }
            assert_eq!(answer(dialect, Surface::Embeddings, false, 2, body), None, "a vector is missing");
        }
        assert_eq!(answer(Dialect::Ollama, Surface::Embeddings, false, 1, r#"{"error":"no"}"#), None);
        let usage = json!({ "promptTokenCount": 3 });
        for (surface, inputs, expected) in [
            (
                Surface::GeminiEmbedBatch,
                2,
                Some(json!({ "embeddings": [{ "values": [1.5] }, { "values": [2.0] }], "usageMetadata": usage })),
            ),
            (Surface::GeminiEmbed, 1, None),
        ] {
            assert_eq!(answer(Dialect::OpenAi, surface, false, inputs, openai), expected);
        }
        let of_one = r#"{"embeddings":[[1.0,-2]]}"#;
        let vector = json!([1.0, -2.0]);
        for (surface, expected) in [
            (Surface::GeminiEmbed, json!({ "embedding": { "values": vector } })),
            (Surface::OllamaEmbeddings, json!({ "embedding": vector })),
        ] {
            assert_eq!(answer(Dialect::Ollama, surface, false, 1, of_one), Some(expected));
        }
    }
}
