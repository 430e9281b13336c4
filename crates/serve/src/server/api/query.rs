//! Reads the query of a URL as a question. Stricter than browsers: invalid text is refused and not repaired, because
//! the answer to a wrong question looks like any other answer.

use clap::Args;
use http::Uri;

use super::answer::refused;
use photofinish_base::clock::wall_micros;
use photofinish_gateway::proxy::Rejection;
use photofinish_history::report::question::{BadParameter, from_pairs};

/// Reads the query as a question, and returns it with the current time.
pub(super) fn question<Q: Args>(uri: &Uri, problem: fn(&Q, i64) -> Option<String>) -> Result<(Q, i64), Rejection> {
    let pairs = pairs(uri.query().unwrap_or_default()).map_err(refused)?;
    let question = from_pairs::<Q>(&pairs).map_err(refused)?;
    let now_us = wall_micros();
    match problem(&question, now_us) {
        Some(problem) => Err(refused(BadParameter::of_problem(&problem))),
        None => Ok((question, now_us)),
    }
}

fn pairs(query: &str) -> Result<Vec<(String, String)>, BadParameter> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name);
        match (&name, decoded(value)) {
            (Some(name), Some(value)) => Ok((name.clone(), value)),
            _ => Err(BadParameter {
                message: format!(
                    "'{pair}' cannot be decoded: expected text in UTF-8, percent-encoded, such as %2F for / and %25 for %"
                ),
                name,
            }),
        }
    });
    pairs.collect()
}

/// None if it is not percent-encoded or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? * 16 + digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_and_all_else_refused() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let query = "since=24h&&by=model%2Cuser&user=a+b%2b%C3%A9&exact&model==";
        let read = [("since", "24h"), ("by", "model,user"), ("user", "a b+é"), ("exact", ""), ("model", "=")];
        assert_eq!(pairs(query), Ok(read.map(|(name, value)| pair(name, value)).to_vec()));
        for (query, name) in [
            ("model=%", Some("model")),
            ("model=%4", Some("model")),
            ("model=%zz", Some("model")),
            ("since=1h&user=%ff", Some("user")),
            ("%ff=1", None),
        ] {
            let bad = pairs(query).unwrap_err();
            assert_eq!(bad.name.as_deref(), name, "{query}");
            assert!(bad.message.contains("cannot be decoded"), "{}", bad.message);
        }
    }
}
