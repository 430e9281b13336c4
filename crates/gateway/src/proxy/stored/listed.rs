//! Items as the Responses API lists them: each with an id, in pages. They stay text: read as values, small ones take thirty times
//! their bytes. Pure.

use std::ops::Range;

use serde_json::Value;

use crate::proxy::refusals::rejection::Rejection;
use photofinish_dialects::responses::stored::item_id;
use photofinish_wire::json::{InvalidJson, Json, SERDE_DEPTH_MAX};

/// Items in a page, unless the client asks for fewer.
const PAGE: usize = 20;
/// Stored items on a page.
const PAGE_MAX: usize = 100;

/// Walks the items of a JSON text without brackets, as the SDKs can read them. `base`: the common part of the ids of those without
/// one, which are numbered from `first`. Returns the number behind the last one.
pub fn read(items: &[u8], base: &str, first: usize, mut each: impl FnMut(usize, &dyn Fn() -> String)) -> usize {
    let mut number = first;
    // What is no list has no items.
    let _ = Json::listed(std::str::from_utf8(items).unwrap_or_default(), |item| {
        each(number, &|| whole(item, base, number).unwrap_or_else(|_| item.to_owned()));
        number += 1;
        Ok(())
    });
    number
}

/// What a client may leave out of a message, added.
fn whole(item: &str, base: &str, number: usize) -> Result<String, InvalidJson> {
    let (mut kind, mut role, mut id, mut content) = (None, None, None, None);
    let mut has_status = false;
    Json::nested(item, SERDE_DEPTH_MAX).to_end(|name, json| {
        let value = json.skip()?;
        match name {
            "type" => kind = Some(value),
            "role" => role = Some(value),
            "id" => id = Some(value),
            "content" => content = Some(value),
            "status" => has_status = true,
            _ => {}
        }
        Ok(())
    })?;
    if !item.starts_with('{') {
        return Ok(item.to_owned());
    }
    let mut first = String::new();
    let mut put = |name: &str, value: &str| first.push_str(&format!("\"{name}\":{value},"));
    let mut changed: Vec<(Range<usize>, String)> = Vec::new();
    let place = |value: &str| {
        let start = value.as_ptr() as usize - item.as_ptr() as usize;
        start..start + value.len()
    };
    if kind.is_none() {
        put("type", "\"message\"");
    }
    let own_id = format!("\"msg_{base}{number:04x}\"");
    match id {
        Some(id) if id.starts_with('"') => {}
        Some(id) => changed.push((place(id), own_id)),
        None => put("id", &own_id),
    }
    if kind.unwrap_or("\"message\"") == "\"message\"" {
        if !has_status {
            put("status", "\"completed\"");
        }
        if let Some(text) = content.filter(|content| content.starts_with('"')) {
            let part = match role {
                Some("\"assistant\"") => format!("[{{\"type\":\"output_text\",\"text\":{text},\"annotations\":[]}}]"),
                _ => format!("[{{\"type\":\"input_text\",\"text\":{text}}}]"),
            };
            changed.push((place(text), part));
        }
    }
    changed.sort_by_key(|(place, _)| place.start);
    let (mut whole, mut at) = (String::with_capacity(item.len() + first.len() + 64), 1);
    whole.push('{');
    whole.push_str(if item[1..].trim_start() == "}" { first.trim_end_matches(',') } else { &first });
    for (place, value) in changed {
        whole.push_str(&item[at..place.start]);
        whole.push_str(&value);
        at = place.end;
    }
    whole.push_str(&item[at..]);
    Ok(whole)
}

/// Which items a page has, as `limit`, `order` and `after` in the query say.
pub struct PageQuery<'q> {
    limit: usize,
    newest_first: bool,
    after: Option<&'q str>,
}

impl<'q> PageQuery<'q> {
    /// # Errors
    /// 400 for a value of these that is none.
    pub fn of(query: &'q str) -> Result<PageQuery<'q>, Rejection> {
        let value = |name: &str| query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
        let wrong = |name: &str, expected: &str| Rejection::parameter(Some(name.to_owned()), expected);
        let limit = match value("limit") {
            None => PAGE,
            Some((_, text)) => match text.parse() {
                Ok(limit @ 1..=PAGE_MAX) => limit,
                _ => return Err(wrong("limit", "limit: expected a number from 1 to 100")),
            },
        };
        let newest_first = match value("order") {
            Some((_, "asc")) => false,
            None | Some((_, "desc")) => true,
            Some(_) => return Err(wrong("order", "order: expected asc or desc")),
        };
        Ok(PageQuery { limit, newest_first, after: value("after").map(|(_, after)| after) })
    }

    /// The page. `walk` passes each item, oldest first, by its place; it is walked twice, and only the items of the page are made.
    pub fn page(&self, mut walk: impl FnMut(&mut dyn FnMut(usize, &dyn Fn() -> String))) -> String {
        let (mut count, mut after) = (0, None);
        walk(&mut |place, item| {
            count = place + 1;
            if let Some(wanted) = self.after
                && after.is_none()
                && item_id(&item()).is_some_and(|id| id == wanted)
            {
                after = Some(place);
            }
        });
        let left = match (self.after, after) {
            (None, _) => 0..count,
            (Some(_), None) => 0..0,
            (Some(_), Some(place)) if self.newest_first => 0..place,
            (Some(_), Some(place)) => place + 1..count,
        };
        let has_more = left.len() > self.limit;
        let shown = match self.newest_first {
            true => left.end - left.len().min(self.limit)..left.end,
            false => left.start..left.start + left.len().min(self.limit),
        };
        let mut items = Vec::with_capacity(shown.len());
        walk(&mut |place, item| {
            if shown.contains(&place) {
                items.push(item());
            }
        });
        if self.newest_first {
            items.reverse();
        }
        let id = |item: Option<&String>| item.and_then(|item| item_id(item)).map(Value::from).unwrap_or_default();
        let (first, last) = (id(items.first()), id(items.last()));
        format!(
            "{{\"object\":\"list\",\"first_id\":{first},\"last_id\":{last},\"has_more\":{has_more},\"data\":[{}]}}",
            items.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_have_what_the_sdks_read() {
        let items = br#"{"role":"user","content":"a"},{"type":"function_call","id":"fc_1","call_id":"c"}, { "content" : "b", "id":7, "role":"assistant","x":[{}]},{},3"#;
        let mut all = Vec::new();
        let next = read(items, "x", 1, |_, item| all.push(serde_json::from_str::<Value>(&item()).unwrap()));
        assert_eq!(next, 6);
        let part = |kind: &str, text: &str| json!({ "type": kind, "text": text });
        let (user, mut said) = (part("input_text", "a"), part("output_text", "b"));
        said["annotations"] = json!([]);
        let message =
            |number: usize| json!({ "type": "message", "id": format!("msg_x{number:04x}"), "status": "completed" });
        let (mut first, mut third) = (message(1), message(3));
        (first["role"], first["content"]) = (json!("user"), json!([user]));
        (third["role"], third["content"], third["x"]) = (json!("assistant"), json!([said]), json!([{}]));
        let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c" });
        assert_eq!(all, [first, call, third, message(4), json!(3)]);
        assert_eq!(read(b"{", "x", 0, |_, _| {}), 0, "what is no list has no items");
    }

    #[test]
    fn pages_follow_each_other() {
        let ids = |query: &str| {
            let walk = |each: &mut dyn FnMut(usize, &dyn Fn() -> String)| {
                (0..5).for_each(|number| each(number, &|| format!("{{\"id\":\"i{number}\"}}")));
            };
            let page: Value = serde_json::from_str(&PageQuery::of(query).unwrap().page(walk)).unwrap();
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
            assert!(PageQuery::of(wrong).is_err(), "{wrong}");
        }
    }
}
