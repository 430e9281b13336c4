//! Rules that every attempt row must satisfy. A violation is a bug of the gateway, not of a provider.
//!
//! Only finds violations. The recorder counts and logs them, and writes the row anyway.

use super::tables::AttemptRecord;

/// Pairs of columns that contradict each other; empty for a valid row. Without values, because the pairs are logged.
pub fn violations(attempt: &AttemptRecord) -> Vec<(&'static str, &'static str)> {
    let mut found = disorder(&[
        ("connect_us", attempt.connect_us),
        ("headers_us", attempt.headers_us),
        ("first_byte_us", attempt.first_byte_us),
        ("first_event_us", attempt.first_event_us),
        ("first_token_us", attempt.first_token_us),
        ("last_token_us", attempt.last_token_us),
        ("eof_us", attempt.eof_us),
    ]);
    if (attempt.ttft_event == Some(1)) != attempt.first_token_us.is_some() {
        found.push(("ttft_event", "first_token_us"));
    }
    if attempt.first_token_us.is_some() && attempt.ttft_obs_us != attempt.first_token_us {
        found.push(("ttft_obs_us", "first_token_us"));
    }
    if attempt.ttft_event == Some(0) && attempt.ttft_obs_us.is_none() {
        found.push(("ttft_event", "ttft_obs_us"));
    }
    found
}

/// Each known time must not be before the previous known time.
fn disorder(times: &[(&'static str, Option<i64>)]) -> Vec<(&'static str, &'static str)> {
    let known: Vec<(&'static str, i64)> = times.iter().filter_map(|(name, time)| Some((*name, (*time)?))).collect();
    known.windows(2).filter(|pair| pair[0].1 > pair[1].1).map(|pair| (pair[0].0, pair[1].0)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn sound_rows_pass() {
        assert!(violations(&sample::won(0)).is_empty());
        assert!(violations(&sample::lost(1, 90_000)).is_empty());
        assert!(violations(&sample::failed(2)).is_empty());
    }

    #[test]
    fn each_contradiction_is_named() {
        let mut attempt = sample::won(0);
        attempt.headers_us = Some(1);
        assert_eq!(violations(&attempt), [("connect_us", "headers_us")]);

        let mut attempt = sample::won(0);
        (attempt.first_event_us, attempt.last_token_us) = (None, Some(1));
        assert_eq!(violations(&attempt), [("first_token_us", "last_token_us")]);

        let mut attempt = sample::won(0);
        attempt.ttft_event = Some(0);
        assert_eq!(violations(&attempt), [("ttft_event", "first_token_us")]);

        let mut attempt = sample::won(0);
        attempt.ttft_obs_us = Some(7);
        assert_eq!(violations(&attempt), [("ttft_obs_us", "first_token_us")]);

        let mut attempt = sample::lost(0, 90_000);
        attempt.ttft_event = Some(1);
        assert_eq!(violations(&attempt), [("ttft_event", "first_token_us")]);

        let mut attempt = sample::lost(0, 90_000);
        attempt.ttft_obs_us = None;
        assert_eq!(violations(&attempt), [("ttft_event", "ttft_obs_us")]);
    }
}
