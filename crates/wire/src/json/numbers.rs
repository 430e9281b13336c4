//! Reads JSON so that every number keeps its text. serde_json keeps all digits (its feature `arbitrary_precision`), but
//! writes `1e3` and `1E3` as `1e+3`.

use serde_json::{Map, Number, Value};

use crate::json::SERDE_DEPTH_MAX;
use crate::json::{InvalidJson, Json, unescape};

/// Parses a JSON text.
///
/// # Errors
/// It is not JSON, or is nested too deeply.
pub fn parse(json: &[u8]) -> serde_json::Result<Value> {
    let mut value = serde_json::from_slice(json)?;
    if let Some(text) = std::str::from_utf8(json).ok().filter(|text| may_have_exponent(text)) {
        // It was just parsed, so that walking it cannot fail.
        restore(&mut value, &mut Json::nested(text, SERDE_DEPTH_MAX)).ok();
    }
    Ok(value)
}

/// Parses the JSON text of an object. None for others.
pub fn object(json: &[u8]) -> Option<Map<String, Value>> {
    match parse(json) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn may_have_exponent(json: &str) -> bool {
    json.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E'))
}

/// Gives the numbers of `value` the text that they have in `json`.
fn restore(value: &mut Value, json: &mut Json<'_>) -> Result<(), InvalidJson> {
    match value {
        Value::Object(members) => {
            json.object(|name, json| match unescape(name).and_then(|name| members.get_mut(name.as_ref())) {
                Some(member) => restore(member, json),
                None => json.skip().map(drop),
            })
        }
        Value::Array(items) => {
            let mut items = items.iter_mut();
            json.list(|json| match items.next() {
                Some(item) => restore(item, json),
                None => json.skip().map(drop),
            })
        }
        Value::Number(number) => {
            let text = json.skip()?;
            // Of a member that occurs twice, the last value counts.
            if text != number.as_str() && normal(text).is_some_and(|normal| normal == number.as_str()) {
                *number = Number::from_string_unchecked(text.to_owned());
            }
            Ok(())
        }
        _ => json.skip().map(drop),
    }
}

/// A number as serde_json writes it, if it has an exponent.
fn normal(text: &str) -> Option<String> {
    let (digits, power) = text.split_once(['e', 'E'])?;
    let sign = if power.starts_with(['+', '-']) { "" } else { "+" };
    Some(format!("{digits}e{sign}{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_keeps_its_text() {
        for json in [
            "[1e3,1E3,1e+3,1E+3,1e-3,1E-03,-0,0.10,1e999,25000000000000000000000]",
            r#"{"a":{"1e3":[1E3,{"b":-1.50e1}],"t":"1E3"},"\u00e9":1e3,"n":null}"#,
            "1e3",
        ] {
            let expected = json.replace("\\u00e9", "é");
            assert_eq!(parse(json.as_bytes()).unwrap().to_string(), expected);
        }
        assert_eq!(parse(br#"{"a":1e3,"a":[2E1],"b":[1E1],"b":1e2}"#).unwrap().to_string(), r#"{"a":[2E1],"b":1e2}"#);
        assert!(parse(b"[1e]").is_err());
        let number = parse(b"1E3").unwrap();
        assert_eq!((number.as_f64(), number.as_i64(), number.is_f64()), (Some(1_000.0), None, true));
    }
}
