//! Names of snapshots: the name of a model with a date at its end. Not for which models there are: see `catalogue`.

use std::ops::RangeInclusive;

use jiff::civil::Date;

/// A number of eight digits at the end of a name is a date in one of these years.
const YEARS: RangeInclusive<i16> = 2020..=2100;

/// The name without its date: `gpt-5.5-2026-04-23`, `claude-opus-4-5-20251101` or `…@20251101`. None: it has none.
pub(super) fn undated(name: &str) -> Option<&str> {
    for (length, form) in [("2026-04-23".len(), "%Y-%m-%d"), ("20260423".len(), "%Y%m%d")] {
        let start = name.len().saturating_sub(length);
        let Some((base, date)) = name.split_at_checked(start) else { continue };
        let is_date = Date::strptime(form, date).is_ok_and(|date| YEARS.contains(&date.year()));
        if let Some(base) = base.strip_suffix(['-', '@']).filter(|base| is_date && !base.is_empty()) {
            return Some(base);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_date_at_the_end_is_taken_off() {
        for (name, expected) in [
            ("gpt-5.5-2026-04-23", Some("gpt-5.5")),
            ("claude-opus-4-5-20251101", Some("claude-opus-4-5")),
            ("claude-opus-4-5@20251101", Some("claude-opus-4-5")),
            ("lab/m-2026-04-23", Some("lab/m")),
            ("gpt-5.5", None),
            ("gpt-5.5-2026-13-31", None),
            ("gpt-5.5-12345678", None),
            ("gpt-5.520260423", None),
            ("-2026-04-23", None),
            ("2026-04-23", None),
            ("m-é2026-12-3", None),
            ("", None),
        ] {
            assert_eq!(undated(name), expected, "{name}");
        }
    }
}
