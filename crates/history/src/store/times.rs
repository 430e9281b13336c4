//! Times as primary keys: a `race_id` is a UUID v7, whose text begins with milliseconds, so a range of time is a range
//! of ids.
//!
//! Not for formatting times.

pub(super) use photofinish_base::clock::{DAY_US, HOUR_US};

/// The smallest text that a UUID v7 made at this time can begin with.
pub(super) fn first_race_id(at_us: i64) -> String {
    let ms = at_us.max(0) / 1_000;
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

/// The reverse of [`first_race_id`]; microseconds since 1970, 0 for any other text.
pub(super) fn began_at(race_id: &str) -> i64 {
    let mut ms = 0;
    for byte in race_id.bytes().filter(|byte| *byte != b'-').take(12) {
        let Some(digit) = char::from(byte).to_digit(16) else { return 0 };
        ms = ms << 4 | i64::from(digit);
    }
    ms * 1_000
}

/// The start of the hour, or of the day, of a time.
pub(super) fn start_of(at_us: i64, span_us: i64) -> i64 {
    at_us.div_euclid(span_us) * span_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample;

    #[test]
    fn ids_sort_as_times_do() {
        let at = sample::STARTED_AT + 7_000;
        assert_eq!(began_at(&sample::race_id(7)), at);
        assert!(sample::race_id(7).starts_with(&first_race_id(at)));
        assert!(sample::race_id(6) < first_race_id(at) && first_race_id(at) <= sample::race_id(7));
        assert_eq!((began_at(""), began_at("nothing"), first_race_id(-1)), (0, 0, "00000000-0000".to_owned()));
        assert_eq!((start_of(HOUR_US + 1, HOUR_US), start_of(-1, DAY_US)), (HOUR_US, -DAY_US));
    }
}
