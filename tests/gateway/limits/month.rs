//! A month of usage, by team and tag, against the bills that the providers keep themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use photofinish_base::clock::{DAY_US, wall_micros};
use photofinish_history::store::{Roller, RollupStep};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::biller::{self, Bill, BillingRule, PRICES};
use crate::harness::process::{CHAT, RunningGateway, Setup, provider};
use crate::support::{FakeProvider, RawClient};

const REQUESTS: u64 = 400;
const CLIENTS: u64 = 8;
const DAYS: i64 = 30;
const RULES: [(&str, &str, BillingRule); 3] = [
    ("a", "cancel_billing = \"stops\"", BillingRule::UntilCut),
    ("b", "cancel_billing = \"bills_full\"", BillingRule::InFull),
    ("c", "cancel_billing = \"unknown\"", BillingRule::Untold(4)),
];
/// Each with the team.
const USERS: [(&str, Option<&str>); 4] =
    [("ann", Some("search")), ("bob", Some("ads")), ("eve", Some("search")), ("dan", None)];
const TAGS: [&[&str]; 4] = [&[], &["project=x"], &["project=y"], &["job=nightly", "project=x"]];
const HOUR_US: i64 = 3_600_000_000;
/// What sums of floating numbers may differ by, USD.
const ROUNDING: f64 = 1e-6;

fn user_of(number: u64) -> (&'static str, Option<&'static str>) {
    USERS[number as usize % USERS.len()]
}

fn tags_of(number: u64) -> &'static [&'static str] {
    TAGS[number as usize / USERS.len() % TAGS.len()]
}

async fn served(race: &str, is_calm: bool) -> (RunningGateway, Vec<(FakeProvider, Bill)>) {
    let mut billers = Vec::new();
    for salt in 0..3 {
        billers.push(if is_calm { biller::start_calm(salt).await } else { biller::start(salt).await });
    }
    let (input, output) = (PRICES.0 * 1e6, PRICES.1 * 1e6);
    let upstream = |(name, _, _): &(&str, &str, BillingRule)| {
        format!("{{ upstream = \"{name}/m\", input_price = {input}, output_price = {output} }}")
    };
    let upstreams: Vec<String> = RULES.iter().map(upstream).collect();
    let race = format!("{race}\nretries = 1\nbreaker.failures = 0\nrescue = \"replay\"");
    let mut config: String = race.lines().map(|line| format!("race.{line}\n")).collect();
    for ((name, lines, _), (fake, _)) in RULES.iter().zip(&billers) {
        config += &format!("{}{lines}\n", provider(name, fake));
    }
    config += &format!("[models.m]\nupstreams = [{}]\n[teams.search]\n[teams.ads]\n", upstreams.join(", "));
    for (user, team) in USERS {
        let team = team.map(|team| format!("team = \"{team}\"\n")).unwrap_or_default();
        config += &format!("[users.{user}]\ntoken = \"token-of-{user}\"\nrole = \"admin\"\n{team}");
    }
    (Setup::new(&config).serve().await, billers)
}

/// One request; a client that leaves has read a word.
async fn ask(served: &RunningGateway, number: u64, leaves: bool) {
    let mut random = fastrand::Rng::with_seed(number);
    let content = format!("{number} {}", "prompt ".repeat(random.usize(10..200)));
    let body = json!({"model": "m", "stream": true, "max_tokens": random.u64(1..40),
        "messages": [{"role": "user", "content": content}]});
    let (token, tags) = (format!("token-of-{}", user_of(number).0), tags_of(number).join(", "));
    let mut headers = vec![("x-api-key", token.as_str())];
    headers.extend((!tags.is_empty()).then_some(("x-photofinish-tags", tags.as_str())));
    let mut client = RawClient::connect(served.addr).await;
    client.request("POST", CHAT, &headers, body.to_string()).await;
    let head = client.head().await;
    if leaves && head.status == 200 {
        let _ = client.event().await;
        let _ = client.event().await;
        client.close();
    } else {
        let _ = client.body(&head).await;
    }
}

/// Stops the gateway when all have been answered.
async fn played(served: RunningGateway, leaving: u64) -> Setup {
    // Until a prompt was counted nothing bounds those of losers.
    ask(&served, 0, false).await;
    let served = Arc::new(served);
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let served = served.clone();
        clients.spawn(async move {
            for number in (1 + first..REQUESTS).step_by(CLIENTS as usize) {
                ask(&served, number, number % 10 < leaving).await;
            }
        });
    }
    clients.join_all().await;
    let Ok(served) = Arc::try_unwrap(served) else { panic!("its clients have ended") };
    served.stop().await
}

/// Spreads the races over the days of a month. The id of a race has its time.
async fn spread(setup: &Setup) {
    let mut connection = setup.connect().await;
    for (number, id) in (0_i64..).zip(setup.texts("SELECT race_id FROM race ORDER BY race_id").await) {
        let ms = i64::from_str_radix(&id[..13].replace('-', ""), 16).unwrap();
        let back_us = (1 + number % DAYS) * DAY_US;
        let at_us = ms * 1_000 - back_us;
        let (at, hour_us) = (format!("{:012x}", at_us / 1_000), at_us - at_us % HOUR_US);
        let moved = format!("{}-{}{}", &at[..8], &at[8..], &id[13..]);
        let sql = format!(
            "UPDATE race_row SET race_id = '{moved}', started_at = started_at - {back_us} WHERE race_id = '{id}'; \
             UPDATE attempt_row SET race_id = '{moved}' WHERE race_id = '{id}'; \
             INSERT OR IGNORE INTO rollup_span (hours, start) VALUES (1, {hour_us})"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
}

/// Only roll-ups are left.
fn roll_up(setup: &Setup) {
    let (now_us, mut roller) = (wall_micros(), Roller::new(setup.database(), || false));
    while roller.step(now_us, Some(now_us)).unwrap() != RollupStep::Nothing {}
}

fn bounds(group: &Value) -> (f64, f64) {
    let usd = |member: &str| group[member].as_f64().unwrap_or_else(|| panic!("no {member}: {group}"));
    (usd("cost_usd_min"), usd("cost_usd_max"))
}

/// What the providers ask for the requests of this team and tag.
fn bill(billers: &[(FakeProvider, Bill)], of: impl Fn(u64) -> bool) -> f64 {
    RULES.iter().zip(billers).map(|((_, _, rule), (_, bill))| bill.of(*rule, &of)).sum()
}

/// `ask` gives the answer by these dimensions.
async fn check(case: &str, billers: &[(FakeProvider, Bill)], is_calm: bool, ask: impl AsyncFn(&str) -> Value) {
    let usage = ask("team,tag").await;
    let total = bounds(&usage["total"]);
    let (mut groups, mut seen) = (BTreeMap::new(), 0);
    for group in usage["groups"].as_array().unwrap() {
        let name = |member: &str| group[member].as_str().map(str::to_owned);
        groups.insert((name("team"), name("tag")), bounds(group));
    }
    for team in [Some("search"), Some("ads"), None] {
        for tag in [None, Some("project=x"), Some("project=y"), Some("job=nightly")] {
            let is_of = |number: u64| {
                let tags = tags_of(number);
                user_of(number).1 == team && tag.map_or(tags.is_empty(), |tag| tags.contains(&tag))
            };
            let truth = bill(billers, is_of);
            let (least, most) = groups[&(team.map(str::to_owned), tag.map(str::to_owned))];
            assert!(truth > 0.0, "{case} {team:?} {tag:?}");
            assert!(
                least - ROUNDING <= truth && truth <= most + ROUNDING,
                "{case} {team:?} {tag:?}: {truth} is not in {least} to {most}"
            );
            assert!(!is_calm || most - least < ROUNDING, "{case} {team:?} {tag:?}: {least} to {most}");
            seen += 1;
        }
    }
    assert_eq!(groups.len(), seen, "{case}: {groups:#?}");
    let truth = bill(billers, |_| true);
    eprintln!("{case}: {truth:.6} USD billed, {:.6} to {:.6}", total.0, total.1);
    assert!(total.0 - ROUNDING <= truth && truth <= total.1 + ROUNDING, "{case}: {truth} is not in {total:?}");
    for by in ["team", "user", "day", "model", "team,day", "user,day,model"] {
        let cut = ask(by).await;
        let groups = cut["groups"].as_array().unwrap();
        let sum = groups.iter().map(bounds).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        for sum in [sum, bounds(&cut["total"])] {
            let is_same = (sum.0 - total.0).abs() < ROUNDING && (sum.1 - total.1).abs() < ROUNDING;
            assert!(is_same, "{case} by {by}: {sum:?} is not {total:?}");
        }
        assert!(by != "day" || groups.len() as i64 >= DAYS, "{case}: {} days", groups.len());
    }
}

#[tokio::test]
async fn usage_of_a_month_by_team_and_tag_is_the_providers_bill() {
    for (race, is_calm, leaving) in [
        ("policy = \"race\"\nlook = 0.2", false, 2),
        ("policy = \"adaptive\"\nbudget = 2.0\nlook = 0.2", false, 2),
        ("policy = \"fallback\"\npatience = 0\nlook = 0.0", true, 0),
    ] {
        let (served, billers) = served(race, is_calm).await;
        let race = race.lines().next().unwrap();
        let setup = played(served, leaving).await;
        spread(&setup).await;
        let command = async |setup: &Setup, by: &str| -> Value {
            let ran = setup.run(&["usage", "--since", "40d", "--by", by, "--json"]).await;
            serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
        };
        check(&format!("{race}, rows"), &billers, is_calm, async |by| command(&setup, by).await).await;
        roll_up(&setup);
        assert_eq!(setup.number("SELECT count(*) FROM attempt").await, 0);
        check(&format!("{race}, roll-ups"), &billers, is_calm, async |by| command(&setup, by).await).await;
        let served = setup.serve().await;
        let api = async |by: &str| {
            let path = format!("/api/usage?since=40d&by={by}");
            served.get(&path, &[("x-api-key", "token-of-ann")]).await.json()
        };
        check(&format!("{race}, over HTTP"), &billers, is_calm, api).await;
    }
}
