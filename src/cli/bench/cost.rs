//! What a run may cost, in words, before its first request. Pure. Not for what it does cost: see `photofinish_lab::bench::spend`.

use super::plan::{BenchPlan, Levels};
use super::session::FIRST_REQUESTS;
use crate::cli::text::amount;
use photofinish_lab::bench::arrivals::ARRIVALS_MAX;
use photofinish_lab::bench::search::{TRIAL_MAX, TRIALS_MAX};
use photofinish_lab::bench::spend::OVERRUN;

/// USD of the requests to one target, if it keeps to `max_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestCost {
    pub mean: f64,
    pub most: f64,
}

impl RequestCost {
    pub fn of(each: impl ExactSizeIterator<Item = f64>) -> RequestCost {
        let count = each.len().max(1) as f64;
        let (sum, most) = each.fold((0.0, 0.0_f64), |(sum, most), usd| (sum + usd, most.max(usd)));
        RequestCost { mean: sum / count, most }
    }
}

/// One sentence each; none if nothing has a price. `targets`: the cost of a request to each.
pub fn lines(plan: &BenchPlan, targets: &[RequestCost]) -> Vec<String> {
    let most = targets.iter().map(|target| target.most).fold(0.0, f64::max);
    if most == 0.0 {
        return Vec::new();
    }
    let cap = plan.max_cost.map_or(String::new(), |cap| format!("; the cap is {cap} USD"));
    let whole = match requests(plan, targets.len()) {
        Some((word, each)) => {
            let usd = each * targets.iter().map(|target| target.mean).sum::<f64>();
            let (count, usd) = (each * targets.len() as f64, amount(usd, usd));
            format!("{word} {count:.0} requests and {usd} USD if answers keep to max_tokens{cap}")
        }
        None => format!(
            "a request costs up to {} USD if its answer keeps to max_tokens; how many there will be shows after the first{cap}",
            amount(most, most)
        ),
    };
    std::iter::once(whole).chain(at_once(plan, most)).collect()
}

/// The requests to each target, and whether that is a bound. None: as many as are answered in time.
fn requests(plan: &BenchPlan, targets: usize) -> Option<(&'static str, f64)> {
    let first = FIRST_REQUESTS as f64;
    // Several targets get theirs in two blocks.
    let of_stage = if targets > 1 { plan.requests.div_ceil(2) * 2 } else { plan.requests } as f64;
    match &plan.levels {
        Levels::Users(_) if plan.requests >= ARRIVALS_MAX => None,
        Levels::Users(levels) => {
            // The first of several levels runs again at the end.
            let stages = levels.len() + usize::from(levels.len() > 1);
            Some(("at most", stages as f64 * of_stage + first))
        }
        Levels::Rates(rates) => {
            let arrivals = rates.iter().map(|rate| (rate * plan.duration.as_secs_f64()).min(of_stage));
            Some(("about", arrivals.sum::<f64>() + first))
        }
        Levels::FindRate => Some(("at most", (TRIALS_MAX * plan.requests.min(TRIAL_MAX)) as f64 + first)),
    }
}

/// What the cap covers at once, if that is less than the plan asks for.
fn at_once(plan: &BenchPlan, most: f64) -> Option<String> {
    let reserved = most * OVERRUN;
    let covers = (plan.max_cost? / reserved).floor();
    // If it does not cover one, the first request says so.
    let is_less_than = |asked: usize| covers >= 1.0 && covers < asked as f64;
    match &plan.levels {
        Levels::Users(levels) => {
            let users = levels.iter().copied().max().filter(|users| is_less_than(*users))?;
            let needed = users as f64 * reserved;
            Some(format!(
                "{users} users need {} USD at once, {OVERRUN:.0} times what their requests may cost; --max-cost covers \
                 {covers:.0} of them, so the others wait",
                amount(needed, needed)
            ))
        }
        _ if is_less_than(plan.in_flight_allowed()) => Some(format!(
            "--max-cost covers {covers:.0} requests at once; an arrival beyond ends its stage: {OVERRUN:.0} times what a \
             request may cost is set aside for each"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::plan::tests::plan;

    fn told(load: &[&str], targets: usize) -> Vec<String> {
        let plan = plan(&[&["near/x"][..], load].concat()).unwrap();
        // Given prompts have different lengths.
        let cost = RequestCost::of([0.001, 0.003].into_iter());
        lines(&BenchPlan { max_cost: Some(0.1), ..plan }, &vec![cost; targets])
    }

    #[test]
    fn the_whole_run_is_told_where_its_requests_are_known() {
        for (load, targets, said) in [
            // Two levels, the first of them twice, and two first requests.
            (
                &["--concurrency", "1,2", "--requests", "9"][..],
                1,
                "at most 29 requests and 0.0580 USD if answers keep to max_tokens",
            ),
            (&["--concurrency", "4", "--requests", "9"], 2, "at most 24 requests and 0.0480 USD"),
            (
                &["--concurrency", "1"],
                1,
                "a request costs up to 0.003000 USD if its answer keeps to max_tokens; how many",
            ),
            (&["--request-rate", "2,3", "--duration", "10s"], 1, "about 52 requests and 0.1040 USD"),
            (&["--request-rate", "2", "--requests", "7"], 1, "about 9 requests and 0.0180 USD"),
            (&["--find", "rate", "--slo", "ttft=1s"], 1, "at most 300002 requests and 600.00 USD"),
            (&["--find", "rate", "--slo", "ttft=1s", "--requests", "50"], 1, "at most 1502 requests and 3.00 USD"),
        ] {
            let told = &told(load, targets)[0];
            assert!(told.starts_with(said) && told.ends_with("; the cap is 0.1 USD"), "{load:?}: {told}");
        }
        let plan = plan(&["near/x"]).unwrap();
        assert!(lines(&plan, &[RequestCost::default()]).is_empty(), "without a price there is nothing to tell");
    }

    #[test]
    fn what_the_cap_covers_at_once_is_told_where_more_is_asked_for() {
        let said = |load: &[&str]| told(load, 1).get(1).cloned().unwrap_or_default();
        let users =
            "10 users need 0.2400 USD at once, 8 times what their requests may cost; --max-cost covers 4 of them";
        assert!(said(&["--concurrency", "1,10"]).starts_with(users));
        assert_eq!(said(&["--concurrency", "4"]), "");
        assert!(
            said(&["--request-rate", "1"]).starts_with("--max-cost covers 4 requests at once; an arrival beyond ends")
        );
        assert_eq!(said(&["--request-rate", "1", "--in-flight-max", "4"]), "");
    }
}
