//! `[providers.NAME.request]` and `[providers.NAME.request_for."MODEL"]`: what a provider demands of each request beyond its
//! dialect, what the operator changes in it, and which headers may be sent.

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use toml::de::DeValue;

use super::keys::{self, Flag, TableKeys as _, ValueKind, WholeNumber, choice, keys, own};
use super::names::NamedChoice;
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable, one_of};
use super::{Auth, ProviderDialect, text};
use photofinish_wire::conversation::Effort;
use photofinish_wire::{each_form, each_quirk};
// With the types of all quirks.
use photofinish_wire::quirks::*;

macro_rules! request_keys {
    ($($(#[doc = $about:literal])* $quirk:ident: $type:ty $(= $usual:expr)?;)+) => {
        keys! {
            /// `[providers.NAME.request]`: what the provider demands of each request, and what is changed in it.
            #[derive(Clone, Debug, PartialEq)]
            pub(super) struct RequestKeys {
                /// Members that are set in each request, whatever the client says.
                set: Vec<(String, Value)> = own(read_members, members_schema), or Vec::new();
                /// Members that are set where the request has none.
                default: Vec<(String, Value)> = own(read_members, members_schema), or Vec::new();
                /// Members that are never sent; the answer's `x-photofinish-dropped` names them.
                drop: Vec<String> = own(read_names, |_| keys::one_or_more(keys::any_text())), or Vec::new();
                /// Headers that are sent with each request, in place of the client's.
                headers: HeaderMap = own(read_headers, headers_schema), or HeaderMap::new();
                $($(#[doc = $about])* $quirk: Option<$type> = <$type as QuirkValue>::kind();)+
            }
        }

        impl RequestKeys {
            pub(super) fn quirks(&self) -> QuirkSet {
                QuirkSet { $($quirk: self.$quirk,)+ }
            }
        }
    };
}

each_quirk!(request_keys);

/// Members of `request`, or headers in one table.
const MEMBERS_MAX: usize = 64;
/// Tokens of `max_output`: no model answers with more.
const OUTPUT_MAX: u64 = 1_000_000_000;
/// Patterns of models in `request_for` of one provider.
const PATTERNS_MAX: usize = 64;
/// Levels of lists and tables in a value of `request`.
const DEPTH_MAX: usize = 16;
/// What the gateway sets itself, and what holds the conversation.
const NOT_CHANGED: [&str; 20] = [
    "model",
    "models",
    "stream",
    "stream_options",
    "messages",
    "input",
    "contents",
    "prompt",
    "system",
    "systemInstruction",
    "instructions",
    "conversation",
    "previous_response_id",
    "n",
    "background",
    "cachedContent",
    "images",
    "suffix",
    "system_instruction",
    "template",
];

impl RequestKeys {
    pub(super) fn changes(&self) -> RequestChanges {
        RequestChanges {
            set: self.set.clone(),
            default: self.default.clone(),
            drop: self.drop.clone(),
            headers: self.headers.clone(),
            ..RequestChanges::default()
        }
    }
}

/// A value of a quirk: how its key is read, and how people read it.
pub(super) trait QuirkValue: Copy {
    fn kind() -> impl ValueKind<Value = Self>;

    fn shown(self) -> String;
}

impl QuirkValue for bool {
    fn kind() -> impl ValueKind<Value = bool> {
        Flag
    }

    fn shown(self) -> String {
        if self { "yes" } else { "no" }.to_owned()
    }
}

impl QuirkValue for u64 {
    fn kind() -> impl ValueKind<Value = u64> {
        WholeNumber(1..=OUTPUT_MAX)
    }

    fn shown(self) -> String {
        self.to_string()
    }
}

impl QuirkValue for ThinkingLevels {
    fn kind() -> impl ValueKind<Value = ThinkingLevels> {
        own(read_levels, |_| {
            let efforts = Effort::ALL.map(|effort| json!({ "const": effort.as_str() }));
            json_schema!({ "type": "array", "items": { "anyOf": efforts }, "minItems": 1 })
        })
    }

    fn shown(self) -> String {
        self.efforts().map(Effort::as_str).collect::<Vec<_>>().join(", ")
    }
}

fn read_levels(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<ThinkingLevels> {
    let what = table.what(key);
    let texts = table.texts(key, Effort::ALL.len(), "efforts")?;
    let offset = texts.first().map_or(table.offset, |text| text.offset);
    let levels = ThinkingLevels::try_from(texts.into_iter().map(|text| text.value).collect::<Vec<_>>());
    let expected = || one_of(&Effort::ALL.map(Effort::as_str));
    levels.map_err(|why| table.scope.wrong(offset, format!("{what}: {why}"), expected())).ok()
}

/// For the enums of quirks: `wire` declares them, and knows no configuration.
macro_rules! choices {
    ($($name:ident),+) => {
        $(
            impl NamedChoice for $name {
                const VARIANTS: &'static [$name] = &$name::ALL;

                fn name(self) -> &'static str {
                    self.as_str()
                }

                fn about(self) -> &'static str {
                    ""
                }
            }

            impl QuirkValue for $name {
                fn kind() -> impl ValueKind<Value = $name> {
                    choice()
                }

                fn shown(self) -> String {
                    self.as_str().to_owned()
                }
            }
        )+
    };
}

each_form!(choices);

/// The tables of `request_for`, by the pattern of their models.
pub(super) fn read_models(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<ModelRequests>> {
    let tables = table.named_tables(key, &[]);
    if let Some((extra, _)) = tables.get(PATTERNS_MAX) {
        let message = format!("\"{key}\" of {} has more than {PATTERNS_MAX} tables", table.name);
        table.scope.report(LocatedProblem::at(extra.offset, message));
    }
    let read = |(name, mut inner): (Located<String>, TomlTable<'_, '_>)| {
        let keys = RequestKeys::read(&mut inner, &RequestKeys::default());
        inner.finish();
        ModelRequests { pattern: name.value, quirks: keys.quirks(), changes: keys.changes() }
    };
    Some(tables.into_iter().take(PATTERNS_MAX).map(read).collect())
}

pub(super) fn models_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<RequestKeys>() })
}

fn members_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": true })
}

pub(super) fn headers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn read_members(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<(String, Value)>> {
    let what = table.what(key);
    let inner = table.inner(key)?;
    let mut members = Vec::new();
    for (name, value) in inner.into_entries() {
        if !may_change(table, &what, &name) {
            continue;
        }
        match json_of(value.value, DEPTH_MAX) {
            Some(value) => members.push((name.value, value)),
            None => {
                let message =
                    format!("\"{}\" in {what} has a number that JSON has not, or is too deep", shown(&name.value));
                table.scope.report(LocatedProblem::at(value.offset, message));
            }
        }
    }
    check_count(table, &what, members.len());
    Some(members)
}

fn read_names(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<String>> {
    let what = table.what(key);
    let texts = table.texts(key, MEMBERS_MAX, "names")?;
    let named = texts.into_iter().map(|text| Located { offset: text.offset, value: text.value });
    Some(named.filter(|name| may_change(table, &what, name)).map(|name| name.value).collect())
}

fn may_change(table: &TomlTable<'_, '_>, what: &str, name: &Located<String>) -> bool {
    let message = if NOT_CHANGED.contains(&name.value.as_str()) {
        format!("\"{}\" in {what} is not changed: the gateway sets it, or it is what the client asks", name.value)
    } else if name.value.is_empty() || name.value.len() > 64 {
        format!("\"{}\" in {what} is no name of a member", shown(&name.value))
    } else {
        return true;
    };
    table.scope.wrong(name.offset, message, "another member at the top level of the body");
    false
}

fn check_count(table: &TomlTable<'_, '_>, what: &str, count: usize) {
    if count > MEMBERS_MAX {
        table.scope.report(LocatedProblem::at(table.offset, format!("{what} has more than {MEMBERS_MAX} members")));
    }
}

fn read_headers(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HeaderMap> {
    let expected = "a header's name; no credential, no hop-by-hop header and none that the gateway sets itself";
    Some(header_table(table, key, (may_be_forwarded, expected)).0)
}

/// The headers of a table by name, marked as sensitive, and whether one is in the file itself. `fits`: which names are
/// allowed, and the words for those.
pub(super) fn header_table(
    table: &mut TomlTable<'_, '_>,
    key: &'static str,
    (fits, expected): (fn(&str) -> bool, &str),
) -> (HeaderMap, bool) {
    let what = table.what(key);
    let typed = table.named_strings(key, what.clone());
    check_count(table, &what, typed.len());
    let (mut headers, mut in_file) = (HeaderMap::new(), false);
    for (name, value) in typed {
        let quoted = format!("\"{}\" in {what}", shown(&name.value));
        let parsed = HeaderName::from_bytes(name.value.as_bytes()).ok();
        let Some(parsed) = parsed.filter(|name| fits(name.as_str())) else {
            table.scope.wrong(name.offset, format!("{quoted} is not sent"), expected);
            continue;
        };
        let Some(text) = text::plain(table.scope, &quoted, value) else { continue };
        match HeaderValue::from_str(text.value.trim()) {
            Ok(mut value) => {
                value.set_sensitive(true);
                in_file |= text::sources(&text.typed).is_empty();
                headers.insert(parsed, value);
            }
            Err(_) => {
                let message = format!("{quoted} has characters that cannot be sent in a header");
                table.scope.wrong(text.offset, message, "visible ASCII characters");
            }
        }
    }
    (headers, in_file)
}

/// None: JSON has no such value, or it has too many levels.
fn json_of(value: DeValue<'_>, depth: usize) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.into_owned()),
        DeValue::Boolean(flag) => Value::from(flag),
        DeValue::Integer(integer) => {
            Value::from(i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()?)
        }
        DeValue::Float(float) => {
            let number = float.as_str().replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite())?;
            Value::from(number)
        }
        DeValue::Datetime(moment) => Value::from(moment.to_string()),
        DeValue::Array(values) => {
            let depth = depth.checked_sub(1)?;
            values.into_iter().map(|value| json_of(value.into_inner(), depth)).collect::<Option<Vec<Value>>>()?.into()
        }
        DeValue::Table(members) => {
            let depth = depth.checked_sub(1)?;
            let member = |(name, value): (toml::Spanned<std::borrow::Cow<'_, str>>, toml::Spanned<DeValue<'_>>)| {
                Some((name.into_inner().into_owned(), json_of(value.into_inner(), depth)?))
            };
            Value::Object(members.into_iter().map(member).collect::<Option<_>>()?)
        }
    })
}

/// Reports a forwarded header that carries the provider's own key.
pub(super) fn report_keys(
    scope: &ReaderScope<'_>,
    provider: &str,
    headers: &[Located<String>],
    dialects: &[ProviderDialect],
) {
    for header in headers {
        let carries_key = |spoken: &ProviderDialect| matches!(&spoken.auth, Auth::Header(own) if *own == header.value);
        if dialects.iter().any(carries_key) {
            let message =
                format!("\"{}\" in forward_headers of {provider} carries the provider's own key", header.value);
            scope.report(LocatedProblem::at(header.offset, message));
        }
    }
}

/// Hop-by-hop headers, credentials, and headers that the gateway sets itself are never forwarded.
pub(super) fn may_be_forwarded(header: &str) -> bool {
    let is_kept = matches!(
        header,
        "accept"
            | "accept-encoding"
            | "authorization"
            | "connection"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "cookie"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "x-api-key"
            | "x-goog-api-key"
    );
    !is_kept && !header.starts_with("x-photofinish-")
}
