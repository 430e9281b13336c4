//! A provider's own list of its models: how one page of it is read. Not for asking: see `photofinish_gateway`.

use serde::Deserialize;

use photofinish_base::printable::printable;
use photofinish_wire::Dialect;

/// Bytes of a model's id in a provider's list. A list with a longer one is not read.
const ID_MAX: usize = 512;

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelPage {
    pub ids: Vec<String>,
    /// The path of the next page. None: this is the last one.
    pub next: Option<String>,
}

/// Why a text is not a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoModelList {
    #[error("it is not the JSON of a list of models")]
    Invalid,
    #[error("more pages follow, and this dialect has no way to ask for them")]
    CutShort,
    #[error("it is the list of another Photofinish")]
    OfGateway,
    #[error("its server is simulated and answers any name")]
    Simulated,
}

/// Every form of the list. A member that a dialect does not use is absent.
#[derive(Deserialize)]
struct ListBody {
    data: Option<Vec<ListEntry>>,
    models: Option<Vec<ListEntry>>,
    has_more: Option<bool>,
    simulated: Option<bool>,
    #[serde(rename = "nextPageToken")]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct ListEntry {
    id: Option<String>,
    name: Option<String>,
    owned_by: Option<String>,
}

/// The lists of models of a dialect.
pub trait ListFormat: Into<Dialect> {
    /// # Errors
    /// The text is not a page of a list in this dialect.
    fn model_page(self, text: &[u8]) -> Result<ModelPage, NoModelList> {
        let dialect = self.into();
        let body = ListBody::read(text).map_err(|_| NoModelList::Invalid)?;
        let (entries, by_name) = match dialect {
            Dialect::Gemini | Dialect::Ollama => (body.models, true),
            _ => (body.data, false),
        };
        let entries = entries.ok_or(NoModelList::Invalid)?;
        if body.simulated == Some(true) {
            return Err(NoModelList::Simulated);
        }
        let has_more = body.has_more == Some(true);
        if entries.iter().any(|entry| entry.owned_by.as_deref() == Some("photofinish")) {
            return Err(NoModelList::OfGateway);
        }
        let id = |entry: ListEntry| if by_name { entry.name } else { entry.id };
        let ids: Option<Vec<String>> = entries.into_iter().map(|entry| id(entry).filter(|id| is_usable(id))).collect();
        let mut ids = ids.ok_or(NoModelList::Invalid)?;
        let next = match dialect {
            Dialect::Gemini => {
                ids.iter_mut().for_each(|id| *id = id.strip_prefix("models/").unwrap_or(id).to_owned());
                body.next_page_token
                    .filter(|token| !token.is_empty())
                    .map(|token| format!("&pageToken={}", escaped(&token)))
            }
            Dialect::Anthropic if has_more => {
                let last = ids.last().ok_or(NoModelList::CutShort)?;
                Some(format!("&after_id={}", escaped(last)))
            }
            _ if has_more => return Err(NoModelList::CutShort),
            _ => None,
        };
        let first = dialect.model_list_path().unwrap_or_default();
        Ok(ModelPage { ids, next: next.map(|rest| format!("{first}{rest}")) })
    }
}

impl ListFormat for Dialect {}

impl ListBody {
    /// Some servers of OpenAI's dialect send the bare list.
    fn read(text: &[u8]) -> Result<ListBody, serde_json::Error> {
        if !text.trim_ascii_start().starts_with(b"[") {
            return serde_json::from_slice(text);
        }
        let data = Some(serde_json::from_slice(text)?);
        Ok(ListBody { data, models: None, has_more: None, simulated: None, next_page_token: None })
    }
}

/// An id becomes part of names, headers, rows and lines of the log.
fn is_usable(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len()) && printable(id) == id
}

/// As the value of a query's parameter.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn page(ids: &[&str], next: Option<&str>) -> Result<ModelPage, NoModelList> {
        Ok(ModelPage { ids: ids.iter().map(|id| (*id).to_owned()).collect(), next: next.map(str::to_owned) })
    }

    #[test]
    fn each_dialect_s_list_is_read() {
        for (dialect, text, expected) in [
            (
                Dialect::OpenAi,
                r#"{"object":"list","data":[{"id":"a","owned_by":"x"},{"id":"b/c"}]}"#,
                page(&["a", "b/c"], None),
            ),
            (Dialect::Responses, r#"{"data":[{"id":"a","name":"A"}],"has_more":false}"#, page(&["a"], None)),
            (Dialect::OpenAi, r#" [{"id":"a"},{"id":"b"}]"#, page(&["a", "b"], None)),
            (Dialect::OpenAi, r#"{"data":[]}"#, page(&[], None)),
            (
                Dialect::Anthropic,
                r#"{"data":[{"id":"a"},{"id":"b c"}],"has_more":true,"last_id":"b c"}"#,
                page(&["a", "b c"], Some("/models?limit=1000&after_id=b%20c")),
            ),
            (Dialect::Anthropic, r#"{"data":[{"id":"a"}],"has_more":false}"#, page(&["a"], None)),
            (
                Dialect::Gemini,
                r#"{"models":[{"name":"models/a"},{"name":"b"}],"nextPageToken":"x=&"}"#,
                page(&["a", "b"], Some("/models?pageSize=1000&pageToken=x%3D%26")),
            ),
            (Dialect::Gemini, r#"{"models":[{"name":"models/a"}],"nextPageToken":""}"#, page(&["a"], None)),
            (
                Dialect::Ollama,
                r#"{"models":[{"name":"llama3.2:3b","model":"llama3.2:3b"}]}"#,
                page(&["llama3.2:3b"], None),
            ),
        ] {
            assert_eq!(dialect.model_page(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_list() {
        for (dialect, text, why) in [
            (Dialect::OpenAi, "<html><body>Welcome</body></html>", NoModelList::Invalid),
            (Dialect::OpenAi, "", NoModelList::Invalid),
            (Dialect::OpenAi, "{}", NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"id":"a"},{"id":"#, NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"name":"a"}]}"#, NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"id":7}]}"#, NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"id":""}]}"#, NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"id":"a\nb"}]}"#, NoModelList::Invalid),
            (Dialect::OpenAi, "{\"data\":[{\"id\":\"a\u{202e}b\"}]}", NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"models":[{"name":"a"}]}"#, NoModelList::Invalid),
            (Dialect::OpenAi, r#"{"data":[{"id":"simulated"}],"simulated":true}"#, NoModelList::Simulated),
            (Dialect::OpenAi, r#"{"data":[{"id":"a"}],"has_more":true}"#, NoModelList::CutShort),
            (Dialect::Anthropic, r#"{"data":[],"has_more":true}"#, NoModelList::CutShort),
            (Dialect::OpenAi, r#"{"data":[{"id":"m","owned_by":"photofinish"}]}"#, NoModelList::OfGateway),
            (Dialect::Ollama, r#"{"data":[{"id":"a"}]}"#, NoModelList::Invalid),
        ] {
            assert_eq!(dialect.model_page(text.as_bytes()), Err(why), "{text}");
        }
        assert_eq!(
            Dialect::OpenAi.model_page(json!({"data": [{"id": "x".repeat(513)}]}).to_string().as_bytes()),
            Err(NoModelList::Invalid)
        );
    }

    proptest! {
        /// A list that is cut anywhere, or has a byte changed, is read as it is or not at all.
        #[test]
        fn a_damaged_list_never_has_an_id_that_is_not_in_it(
            ids in prop::collection::vec("[a-z0-9/:._-]{1,20}", 1..20), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let data: Vec<_> = ids.iter().map(|id| json!({"id": id, "name": id})).collect();
            let whole = json!({"data": data, "models": data}).to_string().into_bytes();
            for dialect in Dialect::ALL {
                prop_assert_eq!(dialect.model_page(&whole).map(|page| page.ids), Ok(ids.clone()));
                prop_assert!(dialect.model_page(&whole[..at.index(whole.len())]).is_err());
                let mut changed = whole.clone();
                changed[at.index(whole.len())] = byte;
                if let Ok(page) = dialect.model_page(&changed) {
                    let strange = page.ids.iter().filter(|id| !ids.contains(id)).count();
                    prop_assert!(page.ids.len() == ids.len() && strange <= 1, "{:?}", page.ids);
                }
            }
        }
    }
}
