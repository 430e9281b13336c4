//! Complete and incomplete arguments, compared with `serde_json`.

use serde_json::{Map, Value};

use super::*;

/// Whether a call is complete if its arguments come in pieces of about `size` bytes.
fn is_whole(text: &str, size: usize) -> bool {
    scanned(text, size).is_object()
}

fn scanned(text: &str, size: usize) -> ArgumentScan {
    let mut scan = ArgumentScan::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(size.clamp(1, rest.len())));
        scan.add(piece);
        rest = more;
    }
    scan
}

#[test]
fn arguments_are_one_object() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for whole in [
        "{}",
        " {\"a\" : [ 1 , -2.5e+3, 0, 0.1E9 , true , false , null , \"x\\\"y\\u00e9\\n\" ] , \"b\" : { \"\":[] } }\n",
        "{\"a\":\"\u{e9}}{\"}",
        &nested(127),
    ] {
        assert!((1..9).all(|size| is_whole(whole, size)), "{whole}");
    }
    for not in [
        "",
        "[]",
        "null",
        "\"{}\"",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{\"a\":{]}",
        "{,}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":tru}",
        "{\"a\":truee}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\q\"}",
        "{\"a\":\"\\u12g4\"}",
        "{}{}",
        "{} x",
        "{\"path\":\"/srv/data\",\"recursive\":true,\"exclude\":[\"/srv/data/ke",
        &nested(128),
    ] {
        assert!((1..9).all(|size| !is_whole(not, size)), "{not}");
    }
}

#[test]
fn arguments_may_come_as_they_stand_between_quotes() {
    for (inner, whole) in [
        (r#"{\"a\":\"\\\"}\"}"#, true),
        (r"{\u0022a\u0022:\n\t[1]}\r", true),
        (r#"{\"a\":\"\u00e9\ud83d\""#, false),
        (r#"{\"a\":\"\u00e9\ud83d\"}"#, true),
        (r#"{\"a\":\"\n\"}"#, false),
        (r#"{\"a\":\"\b\"}"#, false),
    ] {
        let mut scan = ArgumentScan::default();
        scan.add_quoted(inner);
        assert_eq!(scan.state == ScanState::End, whole, "{inner}");
    }
}

proptest::proptest! {
    #[test]
    fn it_is_what_serde_reads(text in "[\\[\\]{}\":,a-b0-1\\\\.eE+ -]{0,24}", size in 1usize..5) {
        let text = format!("{{\"a\":{text}");
        let expected = serde_json::from_str::<Map<String, Value>>(&text);
        // A number beyond all ranges is still JSON.
        let is_large = expected.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        proptest::prop_assert!(is_large || is_whole(&text, size) == expected.is_ok(), "{}", text);
    }

    #[test]
    fn any_value_is_what_serde_reads(text in "[\\[\\]{}\":,a-b0-1\\\\.eE+ nul-]{1,16}", size in 1usize..5) {
        let expected = serde_json::from_str::<Value>(&text);
        let is_large = expected.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        proptest::prop_assert!(is_large || scanned(&text, size).is_value() == expected.is_ok(), "{}", text);
    }

    #[test]
    fn what_serde_writes_is_whole_and_no_part_of_it_is(text in "\\PC{0,20}", number: f64, cut in 0usize..1000) {
        let whole = serde_json::json!({ text.clone(): [text, { "n": number }, [], {}, null, true] }).to_string();
        proptest::prop_assert!(is_whole(&whole, 3));
        let mut quoted = ArgumentScan::default();
        let text = serde_json::Value::from(whole.as_str()).to_string();
        quoted.add_quoted(&text[1..text.len() - 1]);
        proptest::prop_assert_eq!(quoted.state, ScanState::End);
        let cut = whole.floor_char_boundary(cut % whole.len());
        proptest::prop_assert!(!is_whole(&whole[..cut], 3));
    }
}
