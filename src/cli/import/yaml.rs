//! A YAML document as a tree in which every value knows its line. Not for what it means.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Values in a YAML document; more are refused. An alias counts as all that it repeats.
const VALUES_MAX: usize = 50_000;
/// Lists and maps inside each other in a YAML document.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct YamlValue {
    pub line: usize,
    pub form: YamlForm,
}

#[derive(Clone, Debug)]
pub(super) enum YamlForm {
    Nothing,
    /// `plain`: without quotes, so that it may be a number or a flag.
    Text {
        text: String,
        plain: bool,
    },
    List(Vec<YamlValue>),
    Map(Vec<(String, YamlValue)>),
}

/// A list or a map that is not closed yet.
struct OpenValue {
    line: usize,
    anchor: usize,
    values: Vec<YamlValue>,
    is_map: bool,
}

impl OpenValue {
    fn close(self) -> YamlValue {
        let form = if self.is_map { YamlForm::Map(members(self.values)) } else { YamlForm::List(self.values) };
        YamlValue { line: self.line, form }
    }
}

impl YamlValue {
    /// The first document of a text.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn read(text: &str) -> Result<YamlValue, String> {
        let (mut open, mut anchors) = (Vec::<OpenValue>::new(), HashMap::<usize, YamlValue>::new());
        let mut left = VALUES_MAX;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| error.to_string())?;
            let line = span.start.line();
            let (value, anchor) = match event {
                Event::Scalar(text, style, anchor, _) => (scalar(line, &text, style), anchor),
                Event::Alias(anchor) => {
                    let repeated = anchors.get(&anchor).ok_or(format!("line {line}: an alias of nothing"))?;
                    // Counted before it is copied.
                    left = left.checked_sub(repeated.count()).ok_or(too_many(line))?;
                    (YamlValue { line, form: repeated.form.clone() }, 0)
                }
                Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                    let is_map = matches!(event, Event::MappingStart(..));
                    open.push(OpenValue { line, anchor, values: Vec::new(), is_map });
                    if open.len() > DEPTH_MAX {
                        return Err(format!("line {line}: more than {DEPTH_MAX} levels"));
                    }
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let Some(closed) = open.pop() else { continue };
                    let anchor = closed.anchor;
                    (closed.close(), anchor)
                }
                Event::DocumentEnd => break,
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => continue,
            };
            left = left.checked_sub(1).ok_or(too_many(line))?;
            if anchor > 0 {
                anchors.insert(anchor, value.clone());
            }
            match open.last_mut() {
                Some(inside) => inside.values.push(value),
                None => return Ok(value),
            }
        }
        Ok(YamlValue { line: 1, form: YamlForm::Nothing })
    }

    fn count(&self) -> usize {
        1 + match &self.form {
            YamlForm::Nothing | YamlForm::Text { .. } => 0,
            YamlForm::List(values) => values.iter().map(YamlValue::count).sum(),
            YamlForm::Map(members) => members.iter().map(|(_, value)| value.count()).sum(),
        }
    }

    pub fn list(&self) -> &[YamlValue] {
        if let YamlForm::List(values) = &self.form { values } else { &[] }
    }

    pub fn members(&self) -> &[(String, YamlValue)] {
        if let YamlForm::Map(members) = &self.form { members } else { &[] }
    }

    pub fn get(&self, name: &str) -> Option<&YamlValue> {
        let found = self.members().iter().find(|(member, _)| member == name).map(|(_, value)| value);
        found.filter(|value| !matches!(value.form, YamlForm::Nothing))
    }

    pub fn text(&self) -> Option<&str> {
        if let YamlForm::Text { text, .. } = &self.form { Some(text) } else { None }
    }

    pub fn number(&self) -> Option<f64> {
        self.text()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    pub fn is_true(&self) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }
}

fn too_many(line: usize) -> String {
    format!("line {line}: more than {VALUES_MAX} values")
}

fn scalar(line: usize, text: &str, style: ScalarStyle) -> YamlValue {
    let plain = style == ScalarStyle::Plain;
    let form = match text {
        "" | "~" | "null" | "Null" | "NULL" if plain => YamlForm::Nothing,
        text => YamlForm::Text { text: text.to_owned(), plain },
    };
    YamlValue { line, form }
}

/// Keys and values in turn. What `<<` merges comes after the own members, which win.
fn members(values: Vec<YamlValue>) -> Vec<(String, YamlValue)> {
    let (mut own, mut merged) = (Vec::new(), Vec::new());
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        let name = key.text().unwrap_or_default().to_owned();
        match value.form {
            YamlForm::Map(members) if name == "<<" => merged.extend(members),
            form => own.push((name, YamlValue { line: key.line, form })),
        }
    }
    own.extend(merged);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line_and_an_alias_is_what_it_repeats() {
        let text = "a: &base\n  x: 1\n  y: '2'\nb:\n  <<: *base\n  x: 3\nc: [one, ~]\n";
        let tree = YamlValue::read(text).unwrap();
        let at = |path: [&str; 2]| {
            let value = tree.get(path[0]).unwrap().get(path[1]).unwrap();
            (value.line, value.text().unwrap().to_owned())
        };
        assert_eq!(at(["a", "x"]), (2, "1".to_owned()));
        assert_eq!(at(["b", "x"]), (6, "3".to_owned()));
        assert_eq!(at(["b", "y"]).1, "2");
        assert_eq!(tree.get("c").unwrap().list().len(), 2);
        assert!(matches!(YamlValue::read("").unwrap().form, YamlForm::Nothing));
    }

    #[test]
    fn what_is_no_yaml_or_too_much_of_it_is_refused_with_its_line() {
        assert!(YamlValue::read("a: [1, 2").unwrap_err().contains("line"));
        assert!(YamlValue::read("a: *nothing").is_err());
        let deep = "[".repeat(DEPTH_MAX + 1);
        assert!(YamlValue::read(&deep).unwrap_err().contains("levels"));
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let of = format!("*a{}", n - 1);
            laughs += &format!("a{n}: &a{n} [{}]\n", [of.as_str(); 8].join(", "));
        }
        assert!(YamlValue::read(&laughs).unwrap_err().contains("more than 50000 values"));
    }
}
