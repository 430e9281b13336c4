//! Web pages in the place of an error: a proxy or CDN before the provider answered, not the provider. Their text is
//! markup that tells a client nothing, so a few words stand for it.

use http::HeaderMap;
use http::header::SERVER;

use photofinish_base::printable::printable;

/// Longer titles, and names of servers, are left out.
const TITLE_MAX: usize = 80;
const SERVER_MAX: usize = 32;

/// The words for a page: `an HTML page (502, cloudflare): "Bad gateway"`. None: the message is no page.
pub(super) fn page(message: &str, status: Option<u16>, headers: &HeaderMap) -> Option<String> {
    let message = message.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if !message.starts_with('<') {
        return None;
    }
    // The same positions, whatever the case of its tags.
    let lower = message.to_ascii_lowercase();
    let is_page = ["<!doctype html", "<html", "<head", "<title", "<body", "<center"].iter().any(|tag| lower.starts_with(tag))
        // Comments of a page come before or behind its declaration.
        || lower.starts_with("<!--") && lower.contains("<html");
    if !is_page {
        return None;
    }
    let facts: Vec<String> = status.map(|status| status.to_string()).into_iter().chain(server(headers)).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let title = title(message, &lower).map(|title| format!(": \"{title}\"")).unwrap_or_default();
    Some(format!("an HTML page{facts}{title}"))
}

/// The name of the server, without its version.
fn server(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(SERVER)?.to_str().ok()?;
    let name = value.split(['/', ' ', '(']).next()?.to_ascii_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.len() <= SERVER_MAX && name.chars().all(is_name)).then_some(name)
}

/// The title, if it is short and plain.
fn title(text: &str, lower: &str) -> Option<String> {
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let is_plain = title.len() <= TITLE_MAX && !title.contains(['<', '>', '&', '"']) && printable(&title) == title;
    (is_plain && !title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn words(server: &'static str, body: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if !server.is_empty() {
            headers.insert(SERVER, HeaderValue::from_bytes(server.as_bytes()).unwrap());
        }
        page(body, Some(502), &headers)
    }

    #[test]
    fn a_page_is_told_in_a_few_words() {
        let nginx = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>…</body></html>";
        for (server, body, expected) in [
            ("nginx/1.27.1", nginx, "an HTML page (502, nginx): \"502 Bad Gateway\""),
            ("", nginx, "an HTML page (502): \"502 Bad Gateway\""),
            (
                "cloudflare",
                "\n<!DOCTYPE html>\n<!--[if lt IE 7]> <html class=\"ie6\"> <![endif]-->\n<title>api.test |\n 502: Bad gateway</title>",
                "an HTML page (502, cloudflare): \"api.test | 502: Bad gateway\"",
            ),
            ("awselb/2.0", "<HTML><HEAD><TITLE lang=en>no</TITLE>", "an HTML page (502, awselb): \"no\""),
            ("a b<script>", "<center>busy", "an HTML page (502, a)"),
            ("<script>", "<!-- x --><html>", "an HTML page (502)"),
            ("x", "\u{feff}<html><title></title>", "an HTML page (502, x)"),
            ("x", "<html><title>a &amp; b</title>", "an HTML page (502, x)"),
            ("x", "<html><title>a <b>b</b></title>", "an HTML page (502, x)"),
            ("x", "<html><title>a\u{202e}b</title>", "an HTML page (502, x)"),
            ("x", "<html><title>never ends", "an HTML page (502, x)"),
        ] {
            assert_eq!(words(server, body).as_deref(), Some(expected), "{body}");
        }
        assert_eq!(words("x", &format!("<html><title>{}</title>", "a".repeat(81))).unwrap(), "an HTML page (502, x)");
        assert_eq!(page("<html>", None, &HeaderMap::new()).unwrap(), "an HTML page");
        for body in
            ["", "Bad gateway", "{}", "<?xml version=\"1.0\"?><Error/>", "the <html> page", "<b>no</b>", "<!-- x -->"]
        {
            assert_eq!(words("x", body), None, "{body}");
        }
    }
}
