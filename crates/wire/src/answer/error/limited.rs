//! Decides whether a 429 limits one model, which most providers count separately, or the whole account. Uses known
//! words of vendors. Other words count as a limit of one model: a second 429 costs less than avoiding a model without
//! need.

use super::words::has_word;

/// The account has no money left or reached a spending limit. No model is served then.
const MONEY_WORDS: [&str; 7] = [
    "credit_balance",
    "insufficient_balance",
    "insufficient_credits",
    "exceeded_current_quota",
    "billing_hard_limit",
    "spend_limit",
    "organization_usage_limit",
];
const MONEY_PHRASES: [&str; 10] = [
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "available credits",
    "credits are depleted",
    "out of credits",
    "spending limit",
    "spending cap",
    "spend limit",
    "usage limit",
];

/// A limit of one model, whatever else the message contains: "Rate limit reached for gpt-4o in organization …", "…
/// (org: …, model: …)", "… per_base_model …". Alibaba's allocated quota is per model too.
const MODEL_PHRASES: [&str; 3] = ["model", "rate limit reached for", "allocated quota"];
/// Google counts all quotas per model.
const MODEL_WORDS: [&str; 1] = ["resource_exhausted"];

/// Limits that all models of an account share.
const ACCOUNT_WORDS: [&str; 2] = ["insufficient_quota", "account_rate_limit"];
const ACCOUNT_PHRASES: [&str; 7] = [
    "exceeded your current quota",
    "your account's rate limit",
    "account rate limit",
    "organization rate limit exceeded",
    // "Your account … request reached organization max RPM"
    "request reached",
    "api calls / minute",
    "api calls / month",
];

/// True for a rate limit of the whole account. `words`: type, code and status, in lower case.
pub fn limits_account(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if has_word(words, &MONEY_WORDS) || says(&MONEY_PHRASES) {
        true
    } else if has_word(words, &MODEL_WORDS) || says(&MODEL_PHRASES) {
        false
    } else {
        has_word(words, &ACCOUNT_WORDS) || says(&ACCOUNT_PHRASES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_is_one_model_s_unless_its_words_name_the_account() {
        let (model, account) = (false, true);
        let table: &[(&[&str], &str, bool)] = &[
            (
                &["requests", "rate_limit_exceeded"],
                "Rate limit reached for gpt-4o in organization org-1 on requests per min (RPM): Limit 3, Used 3. You can \
                 increase your rate limit by adding a payment method to your account at https://x/account/billing.",
                model,
            ),
            (
                &["insufficient_quota"],
                "You exceeded your current quota, please check your plan and billing details.",
                account,
            ),
            (&["insufficient_quota", "credit_balance_exhausted"], "no", account),
            (&["organization_spend_limit_exceeded"], "no", account),
            (&["organization_usage_limit_exceeded"], "no", account),
            (&["project_spend_limit_exceeded"], "no", account),
            (
                &["rate_limit_error"],
                "This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: 1, \
                 model: claude-sonnet-4-6).",
                model,
            ),
            (
                &["rate_limit_error"],
                "This request would exceed the rate limit for your organization (1) of 30,000 input tokens per minute.",
                model,
            ),
            (&["rate_limit_error"], "This request would exceed your account's rate limit. Please try again.", account),
            (
                &["tokens", "rate_limit_exceeded"],
                "Rate limit reached for model `llama` in organization `org_1` service tier `on_demand` on tokens per day \
                 (TPD). Need more tokens? Upgrade at https://x/settings/billing",
                model,
            ),
            (
                &["429", "resource_exhausted"],
                "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: \
                 generate_content_free_tier_requests, limit: 20",
                model,
            ),
            (
                &["429", "resource_exhausted"],
                "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.",
                account,
            ),
            (&[], "Quota exceeded for online_prediction_requests_per_base_model with base model: x", model),
            (
                &["rate_limit_reached_error"],
                "Your account org-1<ak-1> request reached organization max RPM: 3, please try again after 1 seconds",
                account,
            ),
            (&["rate_limit_reached_error"], "Organization Rate limit exceeded, please try again", account),
            (&["exceeded_current_quota_error"], "Your account is suspended", account),
            (&["token_quota_exceeded"], "Tokens per minute limit exceeded - too many tokens processed.", model),
            (&["insufficient_quota"], "Allocated quota exceeded, please increase your quota limit.", model),
            (&[], "Your team has either used all available credits or reached its monthly spending limit.", account),
            (&[], "You are using a Trial key, which is limited to 40 API calls / minute.", account),
            (&["1300"], "Requests rate limit exceeded", model),
            (&["throttlingexception"], "Too many tokens, please wait before trying again.", model),
            (&[], "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 requests per day", model),
            (&[], "slow down", model),
            (&[], "", model),
        ];
        for (words, message, expected) in table {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(limits_account(&words, message), *expected, "{words:?} {message}");
        }
    }
}
