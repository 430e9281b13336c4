//! Members that make an upstream use another model than `model`: those that name further models, and those that some
//! servers take for another member. The gateway passes members on unread, so a caller who may not use every model must
//! not send these.
//!
//! Names are compared as the most lenient servers do: Go's JSON reader and .NET's ignore the case, and some ignore
//! underscores and hyphens. Not for who may send them: see the gateway.

use std::borrow::Cow;
use std::fmt;

use photofinish_base::printable::quoted;
use photofinish_wire::dialect::Surface;
use photofinish_wire::json::SERDE_DEPTH_MAX;
use photofinish_wire::json::{InvalidJson, Json, unescape};

/// A member, and what an upstream may take it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousMember {
    /// Its path in the body, as the caller wrote it.
    pub name: String,
    pub reading: OtherReading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherReading {
    /// The member of this name, which is written in another case.
    Known(&'static str),
    /// It occurs twice, and readers take the first or the last.
    Twice,
    /// Further models, or a choice among them.
    Models,
}

/// The members at the top level that the gateway itself reads.
const KNOWN: [&str; 24] = [
    "model",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "options",
    "generationConfig",
    "response_format",
    "text",
    "output_format",
    "output_config",
    "format",
    "tools",
    "functions",
    "messages",
    "system",
    "systemInstruction",
    "instructions",
    "input",
    "prompt",
    "contents",
    "generateContentRequest",
];

/// Members with which vendors name further models without the word: `route` and `preset` of OpenRouter, `preset` of
/// Perplexity, `adapter_id` of LoRAX and TGI. Names with `model` or `fallback` in them need no entry: `models` of
/// OpenRouter, Vercel and Perplexity, `fallbacks` of Anthropic, LiteLLM and AssemblyAI, `draft_model` of LM Studio.
const CHOOSES: [&str; 3] = ["route", "preset", "adapterid"];

/// Members whose values may name models: `provider` and `plugins` of OpenRouter, `providerOptions` of Vercel,
/// `compound_custom` of Groq, `extra_body` and `router_settings_override` of LiteLLM, `orq` of orq.ai, `config` of
/// Portkey.
const HOLDS: [&str; 8] = [
    "provider",
    "provideroptions",
    "plugins",
    "compoundcustom",
    "extrabody",
    "routersettingsoverride",
    "orq",
    "config",
];

/// Members with the word that name no model: a filter of Vertex, and other hosts of the same model at OpenRouter.
const HARMLESS: [&str; 2] = ["modelarmorconfig", "allowfallbacks"];

/// Tools that ask a further model even if they do not name it; of Anthropic, OpenRouter and orq.ai.
const ASKING_TOOLS: [&str; 3] = ["advisor", "fusion", "subagent"];

/// Members of tools with a schema or a function of the caller, whose names mean nothing to the server.
const SCHEMAS: [&str; 8] = [
    "parameters",
    "inputschema",
    "parametersjsonschema",
    "function",
    "functiondeclarations",
    "properties",
    "schema",
    "format",
];

/// The first such member of a request's top level.
pub(super) fn find(surface: Surface, members: &[(Cow<'_, str>, &str)]) -> Option<AmbiguousMember> {
    members.iter().enumerate().find_map(|(place, (name, value))| {
        let is_known = KNOWN.contains(&name.as_ref());
        // In a request for embeddings it is replaced.
        if name == "model" && surface.has_model_in_path() && !surface.embeds() {
            return Some(further(name.to_string()));
        }
        if is_known && members[..place].iter().any(|(before, _)| before == name) {
            return Some(AmbiguousMember { name: name.to_string(), reading: OtherReading::Twice });
        }
        let within = if name == "tools" {
            Within::Tools
        } else if is_known {
            return None;
        } else if let Some(member) = of_name(name) {
            return Some(member);
        } else if is_one_of(name, &HOLDS) {
            Within::Options
        } else {
            return None;
        };
        let path = within.find(&mut Json::nested(value, SERDE_DEPTH_MAX));
        // What is nested too deeply to be read is not let through.
        Some(further(format!("{name}{}", path.unwrap_or_else(|_| Some(String::new()))?)))
    })
}

/// What the name of a member or of a field alone may be taken for.
pub(super) fn of_name(name: &str) -> Option<AmbiguousMember> {
    let is = |known: &&&str| match name.is_ascii() {
        true => known.eq_ignore_ascii_case(name),
        false => folded(name).eq(known.chars().map(|c| c.to_ascii_lowercase())),
    };
    match KNOWN.iter().find(is) {
        Some(known) if *known == name => None,
        Some(known) => Some(AmbiguousMember { name: name.to_owned(), reading: OtherReading::Known(known) }),
        None => (names_model(name) || is_one_of(name, &CHOOSES)).then(|| further(name.to_owned())),
    }
}

fn further(name: String) -> AmbiguousMember {
    AmbiguousMember { name, reading: OtherReading::Models }
}

/// The place of a value. It finds the path of the first member in the value that names a model, and keeps nothing else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// A member's options, down to the last.
    Options,
    /// Tools, but not the schemas of the caller's own functions.
    Tools,
    /// The schema of a function. OpenRouter's own tools have their options in its place.
    Schema,
}

impl Within {
    /// The path of the first member in the value that names a model.
    fn find(self, json: &mut Json<'_>) -> Result<Option<String>, InvalidJson> {
        let (mut found, mut place) = (None, 0_usize);
        match json.peek() {
            Some(b'{') => json.object(|name, json| {
                if found.is_none() {
                    let name = unescape(name).ok_or(InvalidJson)?;
                    found = self.member(&name, json)?.map(|path| format!(".{name}{path}"));
                    return Ok(());
                }
                json.skip().map(drop)
            })?,
            Some(b'[') if self != Within::Schema => json.list(|json| {
                let inner = if found.is_none() { self.find(json)? } else { json.skip().map(|_| None)? };
                found = found.take().or(inner.map(|path| format!("[{place}]{path}")));
                place += 1;
                Ok(())
            })?,
            _ => drop(json.skip()?),
        }
        Ok(found)
    }

    /// The path behind this member if it, or something in its value, names a model.
    fn member(self, name: &str, json: &mut Json<'_>) -> Result<Option<String>, InvalidJson> {
        if names_model(name) {
            return json.skip().map(|_| Some(String::new()));
        }
        match self {
            Within::Schema => json.skip().map(|_| None),
            Within::Tools if name == "type" => {
                let kind = json.skip()?.to_ascii_lowercase();
                Ok(ASKING_TOOLS.iter().any(|tool| kind.contains(tool)).then(String::new))
            }
            Within::Tools if is_one_of(name, &SCHEMAS) => Within::Schema.find(json),
            Within::Tools | Within::Options => self.find(json),
        }
    }
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|listed| letters(name).eq(listed.chars()))
}

/// Whether a name has the word `model` or `fallback` in its letters.
fn names_model(name: &str) -> bool {
    let word = |text: &[u8]| text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (model, fallback) = (word(b"model"), word(b"fallback"));
    // The latest eight letters. Those beyond ASCII are in no word.
    let mut latest = 0_u64;
    let has_word = letters(name).any(|letter| {
        latest = latest << 8 | u64::from(u8::try_from(letter).unwrap_or(0));
        latest & 0xff_ffff_ffff == model || latest == fallback
    });
    has_word && !is_one_of(name, &HARMLESS)
}

/// Without case, also of the two characters beyond ASCII that mean ASCII letters: the long s and the Kelvin sign.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// The letters and digits alone.
fn letters(name: &str) -> impl Iterator<Item = char> {
    folded(name).filter(|c| c.is_alphanumeric())
}

impl fmt::Display for AmbiguousMember {
    /// The beginning of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = quoted(&self.name);
        match self.reading {
            OtherReading::Known(known) => write!(f, "{name} differs from {known:?} in its case alone"),
            OtherReading::Twice => write!(f, "{name} occurs twice in the body"),
            OtherReading::Models => write!(f, "{name} can name further models"),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::ApiRequest;
    use super::*;

    fn found(surface: Surface, members: &str) -> Option<(String, OtherReading)> {
        let model = if surface.has_model_in_path() { "" } else { "\"model\": \"m\", " };
        let body = format!("{{{model}{members}}}");
        let call = photofinish_wire::dialect::PathCall { surface, model: "m".to_owned(), stream: true, listed: false };
        let call = surface.has_model_in_path().then_some(&call);
        let request = ApiRequest::parse_call(surface, Bytes::from(body), call, true).unwrap();
        request.ambiguous.map(|member| (member.name, member.reading))
    }

    #[test]
    fn members_that_another_reader_takes_for_a_model_are_found() {
        let messages = "\"messages\": [{\"role\": \"user\", \"content\": \"the model\"}]";
        let models = |name: &str| Some((name.to_owned(), OtherReading::Models));
        let known = |name: &str, known| Some((name.to_owned(), OtherReading::Known(known)));
        for (members, expected) in [
            // The case alone.
            (r#""MODEL": "x""#, known("MODEL", "model")),
            (r#""Mod\u0065L": "x""#, known("ModeL", "model")),
            (r#""Stream": false"#, known("Stream", "stream")),
            (r#""MAX_TOKENS": 1"#, known("MAX_TOKENS", "max_tokens")),
            ("\"me\u{17f}\u{17f}ages\": []", known("me\u{17f}\u{17f}ages", "messages")),
            (r#""Tools": []"#, known("Tools", "tools")),
            // Further models.
            (r#""models": ["x"]"#, models("models")),
            (r#""mo_del": "x""#, models("mo_del")),
            (r#""model\u0000": "x""#, models("model\0")),
            (r#""model_id": "x""#, models("model_id")),
            (r#""draft_model": "x""#, models("draft_model")),
            (r#""fallbacks": [{"model": "x"}]"#, models("fallbacks")),
            (r#""context_window_fallbacks": []"#, models("context_window_fallbacks")),
            (r#""route": "fallback""#, models("route")),
            (r#""Preset": "x""#, models("Preset")),
            (r#""provider": {"sort": {"by": "price", "models": []}}"#, models("provider.sort.models")),
            (r#""providerOptions": {"gateway": {"models": ["x"]}}"#, models("providerOptions.gateway.models")),
            (r#""plugins": [{"id": "web"}, {"id": "f", "analysis_models": []}]"#, models("plugins[1].analysis_models")),
            (r#""compound_custom": {"models": {}}"#, models("compound_custom.models")),
            (r#""extra_body": {"model": "x"}"#, models("extra_body.model")),
            (r#""tools": [{"type": "image_generation", "model": "x"}]"#, models("tools[0].model")),
            (r#""tools": [{"type": "advisor_20260301", "name": "advisor"}]"#, models("tools[0].type")),
            (
                r#""tools": [{"type": "openrouter:x", "parameters": {"model": "x"}}]"#,
                models("tools[0].parameters.model"),
            ),
            (
                r#""tools": [{"type": "namespace", "tools": [{"type": "t", "Model": "x"}]}]"#,
                models("tools[0].tools[0].Model"),
            ),
            // Twice.
            (
                r#""extra_body": [1, -1, 0.5, null, true, "model", {"a": {"b": [{"FallBacks": 1, "model": 2}]}}]"#,
                models("extra_body[6].a.b[0].FallBacks"),
            ),
            (
                r#""tools": [{"type": "function", "function": {"name": "f"}}, {"type": "t", "options": [{"mod-el": 1}], "model": 1}]"#,
                models("tools[1].options[0].mod-el"),
            ),
            (r#""tools": [], "tools": [{"type": "t", "model": "x"}]"#, Some(("tools".to_owned(), OtherReading::Twice))),
            (r#""max_tokens": 1, "max_tokens": 2"#, Some(("max_tokens".to_owned(), OtherReading::Twice))),
            // Nothing of this kind.
            (r#""temperature": 0, "user": "model", "metadata": {"model": "x"}, "modelArmorConfig": {}"#, None),
            (r#""provider": {"order": ["model"], "allow_fallbacks": true}, "plugins": [{"id": "web"}]"#, None),
            (
                r#""tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"model": {}}}}}]"#,
                None,
            ),
            (r#""tools": [{"name": "f", "input_schema": {"properties": {"model": {"type": "string"}}}}]"#, None),
            (r#""tools": [{"type": "web_search"}], "response_format": {"type": "json_schema", "model": 1}"#, None),
            (r#""seed": 1, "seed": 2"#, None),
        ] {
            assert_eq!(found(Surface::Chat, &format!("{messages}, {members}")), expected, "{members}");
        }
        let deep = format!("\"extra_body\": {}{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(found(Surface::Chat, &format!("{messages}, {deep}")), models("extra_body"));
        let gemini = r#""contents": [{"parts": [{"text": "x"}]}]"#;
        assert_eq!(found(Surface::Gemini, gemini), None);
        assert_eq!(found(Surface::Gemini, &format!("{gemini}, \"model\": \"x\"")), models("model"));
        let declared =
            r#""tools": [{"functionDeclarations": [{"name": "f", "parameters": {"properties": {"model": {}}}}]}]"#;
        assert_eq!(found(Surface::Gemini, &format!("{gemini}, {declared}")), None);
    }

    #[test]
    fn a_caller_who_may_use_every_model_is_not_looked_at() {
        let body =
            Bytes::from_static(br#"{"model": "m", "MODEL": "x", "messages": [{"role": "user", "content": "x"}]}"#);
        let request = ApiRequest::parse(Surface::Chat, body.clone()).unwrap();
        assert_eq!((request.ambiguous.clone(), request.body()), (None, &body));
    }
}
