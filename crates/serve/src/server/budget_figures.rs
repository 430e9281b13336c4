//! What of their budgets everybody, teams and users spent, for `/metrics`. Not for one caller: see `api`.

use std::cmp::Reverse;
use std::sync::Arc;

use photofinish_base::clock::wall_micros;
use photofinish_config::Limits;
use photofinish_gateway::proxy::Gateway;
use photofinish_limits::{LevelName, LimitClock, PeriodUse};
use photofinish_metrics::MetricsText;

/// Teams with a budget that have metrics, and as many users: those who spent most this month, then by name.
const LEVELS_MAX: usize = 64;
const NANO: f64 = 1e9;

/// A level and its limits.
type Budgeted = (LevelName, Arc<Limits>);

pub fn render(gateway: &Gateway, text: &mut MetricsText) {
    let (live, book) = (gateway.live(), gateway.usage());
    let now = LimitClock { us: gateway.learning().now_us(), wall_us: wall_micros() };
    let teams = book.spent_this_month(LevelName::Team, now);
    let team = |name: &str| live.config.teams.get(name).map(|team| Arc::clone(&team.limits));
    let users = book.spent_this_month(LevelName::User, now);
    let mut all = Vec::new();
    all.extend(with_budget(LevelName::Everybody, Some(Arc::clone(&live.config.limits))));
    all.extend(most_spent(teams, LEVELS_MAX, team));
    all.extend(most_spent(users, LEVELS_MAX, |name| live.callers.limits_of(name)));
    let used = all.iter().map(|(level, limits)| (level, book.usage_of(level, limits, now).periods));
    let used: Vec<_> = used.collect();
    let mut family = |name: &str, help: &str, value: fn(&PeriodUse) -> i64| {
        text.family(name, "gauge", help);
        for (level, periods) in &used {
            for period in periods.iter().filter(|period| period.budget.is_some()) {
                let labels = [("level", level.kind()), ("name", level.name()), ("span", period.calendar.as_str())];
                text.sample(&labels, value(period) as f64 / NANO);
            }
        }
    };
    let help = "US dollars of a budget, by level and span: of everybody, and of the teams and users that spent most this month.";
    family("budget_usd", help, |period| period.budget.unwrap_or_default());
    let help = "US dollars spent of it in the present period, without what running answers have reserved.";
    family("budget_spent_usd", help, |period| period.spent);
}

/// Those with a budget who spent most, at most `max`; of equals the first by name.
fn most_spent(
    mut spent: Vec<(LevelName, i64)>,
    max: usize,
    limits: impl Fn(&str) -> Option<Arc<Limits>>,
) -> impl Iterator<Item = Budgeted> {
    spent.sort_unstable_by(|(name, one), (other_name, other)| (Reverse(one), name).cmp(&(Reverse(other), other_name)));
    let budgeted = spent.into_iter().filter_map(move |(level, _)| {
        let limits = limits(level.name());
        with_budget(level, limits)
    });
    budgeted.take(max)
}

fn with_budget(level: LevelName, limits: Option<Arc<Limits>>) -> Option<Budgeted> {
    let limits = limits.filter(|limits| limits.budget.all().iter().any(Option::is_some))?;
    Some((level, limits))
}

#[cfg(test)]
mod tests {
    use photofinish_config::parse;

    use super::*;

    #[test]
    fn those_with_a_budget_who_spent_most() {
        let config = "[teams.a]\nbudget = { day = 1.0 }\n[teams.b]\nrpm = 5\n[teams.c]\nbudget = { total = 1.0 }\n[teams.d]\nbudget = { month = 1.0 }";
        let config = parse(config, "x".as_ref(), &|_| None).unwrap();
        let limits = |name: &str| config.teams.get(name).map(|team| Arc::clone(&team.limits));
        for (spent, max, expected) in [
            (&[("a", 1), ("c", 3), ("d", 2)][..], 3, &["c", "d", "a"][..]),
            (&[("a", 1), ("c", 3), ("d", 2)], 2, &["c", "d"]),
            (&[("d", 2), ("c", 2), ("a", 2)], 2, &["a", "c"]),
            (&[("b", 9), ("gone", 8), ("d", -1), ("a", 0)], 2, &["a", "d"]),
            (&[("b", 9)], 2, &[]),
            (&[], 2, &[]),
        ] {
            let levels = spent.iter().map(|(name, spent)| (LevelName::Team((*name).into()), *spent)).collect();
            let chosen = most_spent(levels, max, limits).map(|(level, _)| level.name().to_owned());
            assert_eq!(chosen.collect::<Vec<String>>(), expected, "{spent:?}");
        }
    }
}
