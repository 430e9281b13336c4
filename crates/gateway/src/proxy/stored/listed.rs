//! Items as the Responses API lists them: each with an id, in pages. Pure.

use serde_json::{Value, json};

use crate::proxy::refusals::rejection::Rejection;

/// Items in a page, unless the client asks for fewer.
const PAGE: usize = 20;
const PAGE_MAX: usize = 100;

/// A text of JSON without brackets as items that the SDKs can read. `base`: the common part of the ids of those without one, which
/// are numbered from `first`.
pub fn read(items: &[u8], base: &str, first: usize) -> Vec<Value> {
    let listed: Vec<Value> = serde_json::from_slice(&[b"[", items, b"]"].concat()).unwrap_or_default();
    listed.into_iter().enumerate().map(|(at, item)| whole(item, base, first + at)).collect()
}

/// What a client may leave out of a message.
fn whole(mut item: Value, base: &str, number: usize) -> Value {
    let Some(members) = item.as_object_mut() else { return item };
    if !members.contains_key("type") {
        members.insert("type".to_owned(), "message".into());
    }
    if !members.get("id").is_some_and(Value::is_string) {
        members.insert("id".to_owned(), format!("msg_{base}{number:04x}").into());
    }
    if members["type"] == "message" {
        members.entry("status").or_insert_with(|| "completed".into());
        let kind =
            if members.get("role").is_some_and(|role| role == "assistant") { "output_text" } else { "input_text" };
        if let Some(Value::String(text)) = members.get("content").cloned() {
            let mut part = json!({ "type": kind, "text": text });
            if kind == "output_text" {
                part["annotations"] = json!([]);
            }
            members.insert("content".to_owned(), json!([part]));
        }
    }
    item
}

/// A page of items, as `limit`, `order` and `after` in the query say.
///
/// # Errors
/// 400 for a value of these that is none.
pub fn page(mut items: Vec<Value>, query: &str) -> Result<Value, Rejection> {
    let value = |name: &str| query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    let wrong = |name: &str, expected: &str| Rejection::parameter(Some(name.to_owned()), expected);
    let limit = match value("limit") {
        None => PAGE,
        Some((_, text)) => match text.parse() {
            Ok(limit @ 1..=PAGE_MAX) => limit,
            _ => return Err(wrong("limit", "limit: expected a number from 1 to 100")),
        },
    };
    match value("order") {
        Some((_, "asc")) => {}
        None | Some((_, "desc")) => items.reverse(),
        Some(_) => return Err(wrong("order", "order: expected asc or desc")),
    }
    if let Some((_, after)) = value("after") {
        let at = items.iter().position(|item| item["id"] == after);
        items.drain(..at.map_or(items.len(), |at| at + 1));
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    Ok(json!({
        "object": "list", "first_id": id(items.first()), "last_id": id(items.last()), "has_more": has_more, "data": items,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_what_the_sdks_read() {
        let items = br#"{"role":"user","content":"a"},{"type":"function_call","id":"fc_1","call_id":"c"},{"role":"assistant","content":"b"}"#;
        let read = read(items, "x", 1);
        assert_eq!(read[0]["id"], "msg_x0001");
        assert_eq!(read[0]["content"], json!([{ "type": "input_text", "text": "a" }]));
        assert_eq!((&read[1]["id"], &read[2]["content"][0]["type"]), (&json!("fc_1"), &json!("output_text")));
    }

    #[test]
    fn pages_follow_each_other() {
        let items = || (0..5).map(|number| json!({ "id": format!("i{number}") })).collect::<Vec<_>>();
        let ids = |query: &str| {
            let page = page(items(), query).unwrap();
            let ids: Vec<String> =
                page["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
            (ids.join(" "), page["has_more"] == true)
        };
        assert_eq!(ids(""), ("i4 i3 i2 i1 i0".to_owned(), false));
        assert_eq!(ids("order=asc&limit=2"), ("i0 i1".to_owned(), true));
        assert_eq!(ids("order=asc&limit=2&after=i1"), ("i2 i3".to_owned(), true));
        assert_eq!(ids("after=i1&limit=2"), ("i0".to_owned(), false));
        assert_eq!(ids("after=nowhere"), (String::new(), false));
        for wrong in ["limit=0", "limit=101", "limit=x", "order=up"] {
            assert!(page(items(), wrong).is_err(), "{wrong}");
        }
    }
}
