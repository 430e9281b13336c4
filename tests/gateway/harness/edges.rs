//! What each edge of a running gateway says that its requests cost, so that a test can compare them with each other and with the truth.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::process::RunningGateway;

/// The bounds of an amount in US dollars. No lower one: no price is known. No upper one: nothing bounds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeCost {
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// What an edge says of all attempts, and of those that were racing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EdgeCosts {
    pub all: EdgeCost,
    pub racing: EdgeCost,
}

/// To the billionth of a dollar.
impl PartialEq for EdgeCost {
    fn eq(&self, other: &EdgeCost) -> bool {
        let nano = |cost: &EdgeCost| [cost.least, cost.most].map(|usd| usd.map(|usd| (usd * 1e9).round() as i64));
        nano(self) == nano(other)
    }
}

impl fmt::Display for EdgeCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {:?}, racing {:?}", self.all, self.racing)
    }
}

impl EdgeCost {
    fn of(object: &Value, prefix: &str) -> EdgeCost {
        let bound = |name: &str| object[format!("{prefix}cost_usd_{name}")].as_f64();
        EdgeCost { least: bound("min"), most: bound("max") }
    }

    fn sum(parts: impl Iterator<Item = EdgeCost> + Clone) -> EdgeCost {
        let priced = parts.clone().filter_map(|part| part.least);
        let all_priced = parts.clone().count() == 0 || parts.clone().any(|part| part.least.is_some());
        let most = parts.map(|part| part.most).sum::<Option<f64>>();
        EdgeCost { least: all_priced.then(|| priced.sum()), most }
    }

    /// Whether this can be the truth.
    pub fn holds(&self, usd: f64) -> bool {
        const ROUNDED: f64 = 1e-9;
        self.least.is_none_or(|least| least <= usd + ROUNDED) && self.most.is_none_or(|most| usd <= most + ROUNDED)
    }
}

impl EdgeCosts {
    /// Of an object with `cost_usd_min` and so on.
    fn of(object: &Value) -> EdgeCosts {
        EdgeCosts { all: EdgeCost::of(object, ""), racing: EdgeCost::of(object, "extra_") }
    }

    fn sum(groups: &Value) -> EdgeCosts {
        let parts = || groups.as_array().into_iter().flatten().map(EdgeCosts::of);
        EdgeCosts {
            all: EdgeCost::sum(parts().map(|part| part.all).collect::<Vec<_>>().into_iter()),
            racing: EdgeCost::sum(parts().map(|part| part.racing).collect::<Vec<_>>().into_iter()),
        }
    }
}

/// Every edge by its name. `headers`: of an admin. `history --metric cost` knows no racing, so it repeats that of `stats`.
pub async fn edges(served: &RunningGateway, headers: &[(&str, &str)]) -> BTreeMap<&'static str, EdgeCosts> {
    let mut edges = BTreeMap::new();
    let command = async |line: &str| -> Value {
        let ran = served.setup.run(&line.split(' ').collect::<Vec<_>>()).await;
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{line}: {error}: {}{}", ran.out, ran.err))
    };
    let stats = EdgeCosts::sum(&command("stats --json --by upstream").await);
    edges.insert("stats --json", stats);
    edges.insert("usage --json", EdgeCosts::of(&command("usage --json --by model").await["total"]));
    let series = EdgeCosts::sum(&command("history --metric cost --json --every 1h").await);
    edges.insert("history --metric cost", EdgeCosts { racing: stats.racing, ..series });
    let api = async |path: &str| served.get(path, headers).await.json();
    edges.insert("/api/stats", EdgeCosts::sum(&api("/api/stats?by=model").await));
    edges.insert("/api/usage", EdgeCosts::of(&api("/api/usage?by=user").await["total"]));
    let series = EdgeCosts::sum(&api("/api/history?metric=cost&by=upstream&every=1h").await);
    edges.insert("/api/history", EdgeCosts { racing: stats.racing, ..series });
    for by in ["day", "model", "upstream", "user"] {
        let costs = api(&format!("/api/costs?by={by}")).await;
        let part = |of: &Value, name: &str| EdgeCost::of(&of[name], "");
        let total = EdgeCosts { all: part(&costs["total"], "all"), racing: part(&costs["total"], "racing") };
        let groups = || costs["groups"].as_array().unwrap().iter();
        let kinds = ["cut", "late", "looks", "audits", "drains", "failed", "shadows"];
        let by_kind = groups().flat_map(|group| kinds.iter().map(move |kind| part(group, kind)));
        let sums = EdgeCosts {
            all: EdgeCost::sum(groups().flat_map(|group| [part(group, "answers"), part(group, "racing")])),
            racing: EdgeCost::sum(by_kind),
        };
        assert_eq!(sums, total, "by {by} the parts make the whole");
        edges.insert("/api/costs", total);
    }
    edges.insert("/api/races", races(served, headers).await);
    edges.insert("/metrics", metrics(&served.get("/metrics", headers).await.body));
    edges
}

/// Each attempt of each race, with what it was for.
async fn races(served: &RunningGateway, headers: &[(&str, &str)]) -> EdgeCosts {
    let (mut all, mut racing) = (Vec::new(), Vec::new());
    for source in ["client", "shadow"] {
        let page = served.get(&format!("/api/races?limit=1000&source={source}"), headers).await.json();
        assert!(page["next"].is_null(), "this reads one page");
        for race in page["races"].as_array().unwrap() {
            let path = format!("/api/races/{}", race["race_id"].as_str().unwrap());
            for attempt in served.get(&path, headers).await.json()["attempts"].as_array().unwrap() {
                all.push(EdgeCost::of(attempt, ""));
                if !attempt["racing"].is_null() {
                    racing.push(EdgeCost::of(attempt, ""));
                }
            }
        }
    }
    EdgeCosts { all: EdgeCost::sum(all.into_iter()), racing: EdgeCost::sum(racing.into_iter()) }
}

fn metrics(page: &str) -> EdgeCosts {
    let sum = |family: &str| {
        let start = format!("photofinish_{family}{{");
        let samples = page.lines().filter(|line| line.starts_with(&start));
        samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum::<f64>()
    };
    let cost = |name: &str| {
        let bounded = sum(&format!("{name}_open_total")) + sum(&format!("{name}_unpriced_total")) == 0.0;
        let most = bounded.then(|| sum(&format!("{name}_usd_max_total")));
        EdgeCost { least: Some(sum(&format!("{name}_usd_total"))), most }
    };
    EdgeCosts { all: cost("cost"), racing: cost("extra_cost") }
}
