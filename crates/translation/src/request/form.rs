//! Reads a multipart form as far as the gateway needs: the borders of its parts and the field `model`. The other parts
//! are not looked at, so an upload goes up byte for byte.
//!
//! Own reader, because the libraries for this give the parts of a stream and not their positions, and the gateway must
//! replace one value within the original bytes. It is strict where readers differ, so that an upstream cannot read
//! another `model` than the gateway did.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::ambiguous::{AmbiguousMember, of_name};
use super::members::InvalidRequest;

/// Maximum parts of a form. The longest form of OpenAI's API has about 20.
const PARTS_MAX: usize = 256;
/// Maximum bytes of the headers of one part.
const HEADERS_MAX: usize = 16 << 10;
/// Maximum characters of a boundary, by RFC 2046.
const BOUNDARY_MAX: usize = 70;

/// Fields that say what the answer has to be.
const ANSWER: [&str; 3] = ["response_format", "stream", "n"];

/// Whether a content type is that of a form.
pub(super) fn is_form(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("multipart/form-data")
}

/// The field `model` of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FormModel<'a> {
    /// The position of its value. Empty where the form begins: it has none.
    pub(super) value: Range<usize>,
    /// Another field that an upstream may take for a model.
    pub(super) ambiguous: Option<AmbiguousMember>,
    /// The fields that say what the answer has to be.
    pub(super) fields: Vec<(Cow<'static, str>, &'a str)>,
}

/// Finds the field `model`.
///
/// # Errors
/// The form is incomplete or unreadable, has two such fields, or readers differ about its parts.
pub(super) fn model_field<'a>(content_type: &str, body: &'a [u8]) -> Result<FormModel<'a>, InvalidRequest> {
    let boundary = parameter(content_type, "boundary")?.filter(|text| is_boundary(text));
    let boundary = boundary.ok_or(InvalidRequest::Form("has no valid `boundary` in its content-type"))?;
    let delimiter = format!("--{boundary}");
    let finder = memmem::Finder::new(&delimiter);
    // The first delimiter needs no line end before it. Some readers look for it anywhere before that.
    let opening = finder.find(body).ok_or(NO_BOUNDARY)?;
    if !matches!(&body[..opening], b"" | b"\r\n") {
        return Err(InvalidRequest::Form("has something before its first part"));
    }
    let mut at = opening + delimiter.len();
    let (mut model, mut ambiguous, mut fields) = (None, None, Vec::new());
    for _ in 0..PARTS_MAX {
        let rest = &body[at..];
        if rest.starts_with(b"--") {
            if finder.find(rest).is_some() {
                return Err(InvalidRequest::Form("goes on behind its closing boundary"));
            }
            return Ok(FormModel { value: model.unwrap_or(opening..opening), ambiguous, fields });
        }
        let (name, headers) = part(rest)?;
        let start = at + headers;
        let next = start + finder.find(&body[start..]).ok_or(NO_END)?;
        // Some readers take any line end before a boundary, and some none.
        let end = next.checked_sub(2).filter(|end| *end >= start && body[*end..].starts_with(b"\r\n")).ok_or(WITHIN)?;
        if name == "model" && model.replace(start..end).is_some() {
            return Err(InvalidRequest::Twice("model"));
        }
        if let Some(name) = ANSWER.into_iter().find(|known| *known == name) {
            fields.push((Cow::Borrowed(name), std::str::from_utf8(&body[start..end]).unwrap_or_default()));
        }
        ambiguous = ambiguous.or_else(|| of_name(&name));
        at = next + delimiter.len();
    }
    Err(InvalidRequest::Form("has more than 256 parts"))
}

/// A part that names the model, for a form that has none. `body`: the form from its first delimiter on.
pub(super) fn model_part(body: &[u8], model: &str) -> String {
    let delimiter = String::from_utf8_lossy(body.split(|byte| *byte == b'\r').next().unwrap_or_default());
    format!("{}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n", delimiter.trim_end())
}

const NO_BOUNDARY: InvalidRequest = InvalidRequest::Form("does not contain its own boundary");
const NO_END: InvalidRequest = InvalidRequest::Form("ends before its closing boundary");
const UNREADABLE: InvalidRequest = InvalidRequest::Form("has a part whose headers cannot be read");
const WITHIN: InvalidRequest = InvalidRequest::Form("has its boundary within a part: use another one");
const ESCAPED: InvalidRequest = InvalidRequest::Form("has a field whose name has an escape: send it plain");

/// By RFC 2046.
fn is_boundary(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    (1..=BOUNDARY_MAX).contains(&text.len()) && !text.ends_with(' ') && text.bytes().all(is_allowed)
}

/// The field name of the part that begins right after a delimiter, and the bytes up to its value.
fn part(rest: &[u8]) -> Result<(String, usize), InvalidRequest> {
    let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let block = &rest[padding..];
    if !block.starts_with(b"\r\n") {
        // Behind a delimiter there is nothing but the end of its line.
        return Err(if block.len() < 2 { NO_END } else { UNREADABLE });
    }
    let window = &block[..block.len().min(HEADERS_MAX)];
    let end = memmem::find(window, b"\r\n\r\n").ok_or(if window.len() < HEADERS_MAX { NO_END } else { UNREADABLE })?;
    let headers = String::from_utf8_lossy(&window[..end]);
    // Readers differ about other line ends, and about lines that go on in the next.
    let is_odd = |line: &str| line.contains(['\r', '\n', '\0']) || line.starts_with([' ', '\t']);
    if headers.split("\r\n").any(is_odd) {
        return Err(UNREADABLE);
    }
    let mut dispositions = headers.split("\r\n").filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let (Some(disposition), None) = (dispositions.next(), dispositions.next()) else { return Err(UNREADABLE) };
    let name = parameter(disposition, "name")?.ok_or(UNREADABLE)?;
    // Readers differ about which of `\`, `%` and `=?` they resolve. An escape that was resolved here has left its quote or backslash.
    if name.contains(['"', '\\', '%']) || name.contains("=?") {
        return Err(ESCAPED);
    }
    Ok((name, padding + end + 4))
}

/// A parameter of a header value such as `form-data; name="model"; filename="a.mp3"`. None if it is absent.
///
/// # Errors
/// Readers disagree about the value: a parameter occurs twice or in the extended form (`name*`), or a quote is open.
fn parameter(header: &str, wanted: &str) -> Result<Option<String>, InvalidRequest> {
    let mut rest = header.find(';').map_or("", |at| &header[at..]);
    let mut found = None;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(found);
        }
        rest = rest.strip_prefix(';').ok_or(UNREADABLE)?.trim_start();
        let Some((name, after)) = rest.split_once('=') else {
            // A semicolon at the end.
            return if rest.is_empty() { Ok(found) } else { Err(UNREADABLE) };
        };
        let (value, behind) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or(UNREADABLE)?,
            None => {
                let end = after.find([';', ' ', '\t']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        rest = behind;
        let name = name.trim();
        if name.contains([';', '"']) {
            return Err(UNREADABLE);
        }
        let is_wanted = name.eq_ignore_ascii_case(wanted);
        let is_extended = name.strip_suffix('*').is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        if is_extended || (is_wanted && found.replace(value).is_some()) {
            return Err(UNREADABLE);
        }
    }
}

/// The text up to the closing quote, without its escapes, and what follows. None if the quote is not closed.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in text.char_indices() {
        match character {
            '"' if !escaped => return Some((value, &text[at + 1..])),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            // Only a quote and a backslash are escaped; Windows paths have bare backslashes.
            _ if escaped && !matches!(character, '"' | '\\') => value.push('\\'),
            _ => {}
        }
        escaped = false;
        value.push(character);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn read<'a>(content_type: &str, body: &'a str) -> Result<&'a str, String> {
        let found = model_field(content_type, body.as_bytes());
        found.map(|model| &body[model.value]).map_err(|invalid| invalid.to_string())
    }

    /// A form with these parts: the parameters of each content disposition, and the value.
    fn form(parts: &[(&str, &str)]) -> String {
        let part = |(parameters, value): &(&str, &str)| {
            format!("--XX\r\nContent-Disposition: form-data; {parameters}\r\n\r\n{value}\r\n")
        };
        parts.iter().map(part).collect::<String>() + "--XX--\r\n"
    }

    #[test]
    fn the_model_is_found_wherever_it_is() {
        let file = ("name=\"file\"; filename=\"a \\\"b\\\"; name=\\\"model\\\".mp3\"", "\r\n--X\r\nname=\"model\"\r\n");
        for parts in [
            vec![("name=\"model\"", "w-1"), file],
            vec![file, ("name=\"model\"", "w-1")],
            vec![("name=\"prompt\"", ""), ("name=model", "w-1"), ("name=\"models\"", "x")],
            vec![file, ("NAME = \"model\"; filename=\"C:\\dir\\m\" ;", "w-1")],
        ] {
            assert_eq!(read(TYPE, &form(&parts)), Ok("w-1"), "{parts:?}");
        }
        let plain = form(&[("name=\"model\"", "w-1")]);
        for content_type in ["Multipart/Form-Data;charset=utf-8; BOUNDARY=\"XX\"", "multipart/form-data; boundary=XX;"]
        {
            assert!(is_form(content_type));
            assert_eq!(read(content_type, &plain), Ok("w-1"), "{content_type}");
        }
        assert_eq!(read(TYPE, &format!("\r\n{plain}an epilogue\r\n")), Ok("w-1"));
        assert_eq!(read(TYPE, &plain.replace("--XX\r\n", "--XX \t\r\n")), Ok("w-1"), "padding of the transport");
        assert_eq!(read(TYPE, &plain.replace("Content-Dis", "content-type: text/plain\r\ncontent-dis")), Ok("w-1"));
        assert_eq!(read(TYPE, &form(&[("name=\"model\"", "")])), Ok(""));
        assert!(!is_form("multipart/mixed; boundary=XX") && !is_form("") && !is_form("application/json"));
    }

    #[test]
    fn what_is_wrong_with_a_form_is_said() {
        let good = form(&[("name=\"file\"", "abc"), ("name=\"model\"", "w-1")]);
        for cut in 0..good.len() - 2 {
            let said = read(TYPE, &good[..cut]).unwrap_err();
            assert!(said.contains("ends before") || said.contains("its own boundary"), "cut at {cut}: {said}");
        }
        let unreadable = "the multipart form has a part whose headers cannot be read";
        let escaped = "the multipart form has a field whose name has an escape";
        let within = "the multipart form has its boundary within a part";
        let many = form(&vec![("name=\"a\"", "b"); 300]);
        let long = form(&[(&format!("name=\"{}\"", "a".repeat(HEADERS_MAX)), "b")]);
        for (content_type, body, expected) in [
            ("multipart/form-data", good.as_str(), "the multipart form has no valid `boundary` in its content-type"),
            ("multipart/form-data; boundary=", &good, "the multipart form has no valid `boundary` in its content-type"),
            ("multipart/form-data; boundary=YY", &good, "the multipart form does not contain its own boundary"),
            (TYPE, "", "the multipart form does not contain its own boundary"),
            (TYPE, "{\"model\":\"m\"}", "the multipart form does not contain its own boundary"),
            (TYPE, &form(&[("name=\"model\"", "a"), ("name=\"model\"", "a")]), "`model` occurs twice"),
            (TYPE, &form(&[("filename=\"a\"", "abc")]), unreadable),
            (TYPE, &form(&[("filename=\"a\\\"; name=\"model\"", "abc")]), unreadable),
            (TYPE, &form(&[("name=\"a\"; name=\"model\"", "abc")]), unreadable),
            (TYPE, &form(&[("name=\"a\"; name*=utf-8''model", "abc")]), unreadable),
            (TYPE, &form(&[("name=\"a", "abc")]), unreadable),
            (TYPE, "--XX\r\n\r\nabc\r\n--XX--\r\n", unreadable),
            (TYPE, &good.replace("--XX\r\nContent", "--XXY\r\nContent"), unreadable),
            (TYPE, &form(&[("name=\"mo\\del\"", "a")]), escaped),
            (TYPE, &form(&[("name=\"mo\\\"del\"", "a")]), escaped),
            (TYPE, &form(&[("name=\"mo%64el\"", "a")]), escaped),
            (TYPE, &form(&[("name=\"=?utf-8?Q?model?=\"", "a")]), escaped),
            (TYPE, &good.replace("\"model\"", "\"x\"\r\n ; name=\"model\""), unreadable),
            (
                TYPE,
                &good.replace("\"model\"", "\"x\"\r\nX: y\nContent-Disposition: form-data; name=\"model\""),
                unreadable,
            ),
            (TYPE, &good.replace("\"model\"", "\"x\"\r\nX: y\n\nz"), unreadable),
            (TYPE, &good.replace("abc", "abc\n--XX\nContent-Disposition: form-data; name=\"model\"\n\nx"), within),
            (TYPE, &good.replace("abc", "abc--XX--"), within),
            (TYPE, &good.replace("\r\nabc\r\n", "\r\n"), within),
            (TYPE, &format!("a preamble\r\n{good}"), "something before its first part"),
            (TYPE, &format!("\n{good}"), "something before its first part"),
            (TYPE, &format!("{good}an epilogue\r\n--XX\r\n"), "goes on behind its closing boundary"),
            ("multipart/form-data; boundary=\"X\\\\X\"", &good, "no valid `boundary`"),
            (TYPE, &many, "the multipart form has more than 256 parts"),
            (TYPE, &long, unreadable),
        ] {
            let said = read(content_type, body).unwrap_err();
            assert!(said.contains(expected), "{body:.60}: {said}");
        }
    }

    #[test]
    fn a_field_that_another_reader_takes_for_a_model_is_named() {
        let named = |parts: &[(&str, &str)]| {
            model_field(TYPE, form(parts).as_bytes()).unwrap().ambiguous.map(|member| member.name)
        };
        let model = ("name=\"model\"", "w-1");
        assert_eq!(named(&[model, ("name=\"prompt\"", "x"), ("name=\"timestamp_granularities[]\"", "word")]), None);
        for name in ["Model", "models", "fallbacks", "PROMPT"] {
            assert_eq!(named(&[("name=\"prompt\"", ""), (&format!("name={name}"), "x"), model]).as_deref(), Some(name));
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_finds_what_was_put_in(
            bytes in proptest::collection::vec(proptest::sample::select(b"\r\n-X;=\"\\ nm".to_vec()), 0..80),
        ) {
            let _ = model_field(TYPE, &bytes);
            let _ = model_field(&String::from_utf8_lossy(&bytes), &bytes);
            if memmem::find(&bytes, b"--XX").is_none() {
                let file = String::from_utf8(bytes).unwrap();
                let body = form(&[("name=\"file\"", &file), ("name=\"model\"", "w-1")]);
                proptest::prop_assert_eq!(read(TYPE, &body), Ok("w-1"));
            }
        }
    }
}
