//! Refusals by the limits of a caller: they say which level and which limit, how much is used, when it comes back, and who can change
//! it. Not for the decision: see `limits` of the routing crate.

use std::time::Duration;

use http::HeaderName;
use jiff::Timestamp;

use crate::proxy::refusals::code;
use crate::proxy::refusals::rejection::{FailedUpstream, Rejection, summary, whole_seconds};
use photofinish_base::failure::FailureKind;
use photofinish_base::printable::quoted;
use photofinish_limits::{BudgetRefusal, Calendar, LevelName, LimitRefusal, OverBudget, RefusedBy, usd};

/// How long a request waits for what other answers hold of a budget: as long as clients hear nothing from an upstream
/// either, before the first keep-alive.
pub const HELD_FOR: Duration = Duration::from_secs(5);

/// How soon to ask again for a stream, which may end at any time.
const STREAM_FOR: Duration = Duration::from_secs(1);

impl Rejection {
    pub fn limited(refusal: &LimitRefusal) -> Rejection {
        let level = named(&refusal.level);
        let ask = |key: &str| format!("An admin of the gateway can raise {key} of {level}.");
        let rejection = match refusal.by {
            RefusedBy::Requests { per_minute, wait_us } => {
                let wait = after(wait_us);
                let message = format!(
                    "{level} may send {per_minute} requests a minute (rpm) and has: try again in {} s. {}",
                    whole_seconds(wait),
                    ask("rpm")
                );
                Rejection::new(code::RATE_LIMITED, message).after(wait)
            }
            RefusedBy::Tokens { per_minute, asked, wait_us } => {
                let wait = after(wait_us);
                let message = format!(
                    "{level} may use {per_minute} tokens a minute (tpm), and too few are left for this request, which may take \
                     {asked}: try again in {} s. {}",
                    whole_seconds(wait),
                    ask("tpm")
                );
                Rejection::new(code::RATE_LIMITED, message).after(wait)
            }
            RefusedBy::Streams { limit } => {
                let message = format!(
                    "{level} may have {limit} requests at once (streams) and has: try again when one of them has ended. {}",
                    ask("streams")
                );
                Rejection::new(code::TOO_MANY_STREAMS, message).after(STREAM_FOR)
            }
            RefusedBy::Budget(over) => over_budget(&refusal.level, over),
            RefusedBy::Unpriced => {
                let message = format!(
                    "{level} has a budget, and no price is known of any upstream of this request: the operator of the gateway can set \
                     input_price and output_price of one, or unpriced = \"free\" for {level}"
                );
                Rejection::new(code::UNPRICED, message)
            }
        };
        rejection.with_limits(refusal.left)
    }

    /// All that ran have failed, and a budget did not have what these others may cost. `is_held`: not while others' answers run. Those
    /// that are only limited may answer soon.
    pub fn kept_back(limited: &[String], is_held: bool, failed: &[FailedUpstream]) -> Rejection {
        let names = limited.join(", ");
        let message = format!(
            "{}. {names} could answer, and a budget of the caller does not have what that may cost{}",
            summary(failed),
            if is_held { " while other answers run: try again when some have ended" } else { "" }
        );
        match is_held {
            true => Rejection::new(code::BUDGET_HELD, message).after(HELD_FOR),
            false if failed.iter().all(|failed| comes_back(failed.failure.kind)) => {
                let wait = failed.iter().filter_map(|failed| failed.failure.retry_after).min();
                Rejection::new(code::BUDGET_SPENT, message).after(wait.unwrap_or(STREAM_FOR))
            }
            false => {
                let rejection = Rejection::new(code::BUDGET_SPENT, message);
                rejection.naming(HeaderName::from_static("x-should-retry"), "false")
            }
        }
        .with(failed)
        .ended_race()
    }

    /// The lists of this level forbid the model.
    pub fn forbidden_model(level: &LevelName, model: &str) -> Rejection {
        let message = format!(
            "{level} may not use {}: an admin of the gateway can change models and deny of {level}. GET /v1/models lists what \
             there is.",
            quoted(model),
            level = named(level)
        );
        Rejection::new(code::FORBIDDEN_MODEL, message).on_model()
    }

    /// The lists of this level do not allow all that a provider has.
    pub fn forbidden_paths(level: &LevelName, provider: &str) -> Rejection {
        let message = format!(
            "{level} may use only some models, and a path of {provider} reaches more: an admin of the gateway can add \
             \"{provider}/*\" to models of {level}",
            level = named(level)
        );
        Rejection::new(code::FORBIDDEN_MODEL, message)
    }
}

/// A budget refuses it.
fn over_budget(level: &LevelName, over: OverBudget) -> Rejection {
    let key = match level {
        LevelName::Models(_) => "model_budgets",
        _ => "budget",
    };
    let (level, key) = (named(level), format!("{key}.{}", over.calendar.as_str()));
    let [budget, spent, reserved, asked] = [over.budget, over.spent, over.reserved, over.asked].map(usd);
    let ask = format!("An admin of the gateway can raise {key} of {level}.");
    match over.why {
        BudgetRefusal::TooLarge => {
            let message = format!(
                "this request may cost {asked} USD, and {level} may spend {budget} USD in all ({key}): send a max_tokens that \
                 costs less. {ask}"
            );
            Rejection::new(code::INVALID_REQUEST, message).on(Some("max_tokens".into()))
        }
        BudgetRefusal::Held => {
            let message = format!(
                "{level} may spend {budget} USD ({key}): {spent} USD are spent, and answers that still run hold {reserved} USD, \
                 so that the {asked} USD that this request may cost do not fit now: try again when some have ended"
            );
            Rejection::new(code::BUDGET_HELD, message).after(HELD_FOR)
        }
        BudgetRefusal::Spent => {
            let (span, end) = (over.calendar.as_str(), Timestamp::from_microsecond(over.end_us).unwrap_or_default());
            let (this, next) = match over.calendar {
                Calendar::Total => ("in all".to_owned(), String::new()),
                _ => (format!("this {span}"), format!("The next {span} begins at {end}. ")),
            };
            let message = format!(
                "{level} may spend {budget} USD {this} ({key}): {spent} USD are spent, {reserved} USD are reserved by answers \
                 that still run, and this request may cost {asked} USD. {next}{ask}"
            );
            let mut rejection = Rejection::new(code::BUDGET_SPENT, message);
            if over.calendar != Calendar::Total {
                rejection = rejection.after(after(over.end_us - Timestamp::now().as_microsecond()));
            }
            rejection.naming(HeaderName::from_static("x-should-retry"), "false")
        }
    }
}

fn comes_back(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::RateLimited | FailureKind::GatewayLimit)
}

fn named(level: &LevelName) -> String {
    match level {
        LevelName::Everybody => "everybody together".to_owned(),
        level => format!("the {} {}", level.kind(), quoted(level.name())),
    }
}

fn after(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}
