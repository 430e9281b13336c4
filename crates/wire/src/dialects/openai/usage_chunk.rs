//! What a usage chunk says beside the usage.

use bytes::Bytes;
use memchr::{memmem, memrchr, memrchr2};

use crate::json::{InvalidJson, Json};

/// Members that servers move from the last event to the usage chunk if they are asked for one: vLLM, llama.cpp. Others stay away:
/// nobody knows that the server would have sent them.
const MOVED: [&str; 2] = ["system_fingerprint", "timings"];

/// `events` with those of these members of a usage chunk that the last of them lacks.
pub fn with_members_of(events: Bytes, usage_chunk: &[u8]) -> Bytes {
    joined(&events, usage_chunk).unwrap_or(None).map_or(events, Bytes::from)
}

/// None: it has them all.
fn joined(events: &[u8], usage_chunk: &[u8]) -> Result<Option<String>, InvalidJson> {
    // Most usage chunks have none, or the last event has the same: reading them whole would be dear for every stream.
    let mut lacked: Vec<&str> =
        MOVED.into_iter().filter(|name| memmem::find(usage_chunk, name.as_bytes()).is_some()).collect();
    if lacked.is_empty() {
        return Ok(None);
    }
    let (end, data) = last_data(events)?;
    let mut is_empty = true;
    Json::new(data).object(|name, json| {
        is_empty = false;
        lacked.retain(|other| *other != name);
        // Nothing is left to look for, so the rest need not be read.
        if lacked.is_empty() { Err(InvalidJson) } else { json.skip().map(drop) }
    })?;
    let mut added = String::new();
    Json::new(last_data(usage_chunk)?.1).object(|name, json| {
        let value = json.skip()?;
        // A line break would end the line of the event.
        if value != "null" && lacked.contains(&name) && !value.contains(['\n', '\r']) {
            added += &format!(",\"{name}\":{value}");
        }
        Ok(())
    })?;
    let text = std::str::from_utf8(events).map_err(|_| InvalidJson)?;
    Ok((!added.is_empty() && !is_empty).then(|| [&text[..end], &added, &text[end..]].concat()))
}

/// The object in the last line of data, and where its closing brace stands.
fn last_data(events: &[u8]) -> Result<(usize, &str), InvalidJson> {
    let end = memrchr(b'}', events).ok_or(InvalidJson)?;
    let start = memrchr2(b'\n', b'\r', &events[..end]).map_or(0, |at| at + 1);
    let line = std::str::from_utf8(&events[start..=end]).map_err(|_| InvalidJson)?;
    Ok((end, line.strip_prefix("data:").ok_or(InvalidJson)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_event_lacks_is_added_to_it() {
        let finish = r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        for (events, usage, expected) in [
            // vLLM, llama.cpp.
            (
                format!("data: {finish}\n\n"),
                r#"{"id":"c","choices":[],"usage":{"prompt_tokens":1},"system_fingerprint":"v","timings":null,"service_tier":"x"}"#,
                r#"data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"system_fingerprint":"v"}"#,
            ),
            (
                format!(": hm\ndata:{finish} \r\n\r\n"),
                r#"{"timings":{"a":1.50},"choices":[],"usage":{}}"#,
                ": hm\ndata:{\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":{\"a\":1.50}}",
            ),
            // Several events: the last one.
            (
                format!("data: {{\"a\":1}}\n\ndata: {finish}\n\n"),
                r#"{"timings":1,"id":"d","usage":{}}"#,
                "data: {\"a\":1}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":1}",
            ),
        ] {
            let joined = with_members_of(Bytes::from(events.clone()), format!("data: {usage}\n\n").as_bytes());
            let end = events.rfind('}').unwrap() + 1;
            assert_eq!(joined, format!("{expected}{}", &events[end..]), "{usage}");
        }
    }

    #[test]
    fn what_needs_nothing_or_cannot_be_read_is_unchanged() {
        let whole = r#"data: {"id":"c","timings":null,"choices":[]}"#;
        for (events, usage) in [
            (whole, r#"data: {"id":"c","usage":{},"timings":1}"#),
            (whole, r#"data: {"id":"c","model":"m","service_tier":"x","usage":{}}"#),
            (whole, "data: {\"system_fingerprint\":[1,\n2],\"usage\":{}}"),
            (whole, r#"data: {"system_fingerprint":1,"#),
            ("data: {}", r#"data: {"timings":1}"#),
            ("data: [DONE]", r#"data: {"timings":1}"#),
            ("data: {\n\"id\":\"c\"}", r#"data: {"timings":1}"#),
            ("", r#"data: {"timings":1}"#),
        ] {
            let events = Bytes::from(format!("{events}\n\n"));
            assert_eq!(with_members_of(events.clone(), usage.as_bytes()), events, "{usage}");
        }
    }
}
