//! The worlds, in numbers: upstreams, traffic, weather. Not for the draws.

use photofinish_routing::money::tariff::Tariff;

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: &'static str,
    /// For `--help` and the head of a table.
    pub about: &'static str,
    pub days: f64,
    /// Requests per second on average, over the day.
    pub rate: f64,
    pub traffic: Traffic,
    pub climate: Climate,
    /// Timeout from an attempt's start to its first token, seconds.
    pub first_token_s: u64,
    /// Tariffs are US dollars, so that `second_worth` counts. False: only their ratios matter.
    pub in_usd: bool,
    pub upstreams: Vec<Upstream>,
}

/// The requests of the clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Lengths as in a trace of chats: log-normal prompts (median, sd of the logarithm) and answers.
    Chat { prompt: (f64, f64), output: (f64, f64) },
    /// Conversations that grow turn by turn. An upstream that has read the last turn has it cached.
    Agents,
}

/// Disturbances of all upstreams of a world.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Amplitude of the daily wave, on the logarithm.
    pub diurnal: f64,
    /// Standard deviation of the drift, on the logarithm; `level_tau_s` is its time constant.
    pub level_sd: f64,
    pub level_tau_s: f64,
    /// Share of the drift's variance that all upstreams have in common.
    pub correlation: f64,
    /// All upstreams slow down together by a factor.
    pub surge_every_h: f64,
    pub surge_for_s: f64,
    pub surge: f64,
    /// One upstream slows down by a factor.
    pub degraded_every_h: f64,
    pub degraded_for_s: f64,
    pub degraded: f64,
    /// One upstream fails or hangs.
    pub brown_out_every_h: f64,
    pub brown_out_for_s: f64,
    pub decode_sd: f64,
    pub hangs: f64,
    pub errors: f64,
    /// Number of upstreams that hang at the same time, twenty minutes of every day.
    pub outage: usize,
    /// All upstreams slow down together, in reading and in writing, by each of these factors for ten minutes of every hour.
    pub slow: [f64; 2],
}

/// The properties of one upstream. Times are milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Upstream {
    pub name: char,
    pub network_ms: f64,
    pub queue_ms: f64,
    /// Prompt tokens read per millisecond.
    pub prefill: f64,
    /// Standard deviation of the logarithm of one attempt's time.
    pub sigma: f64,
    /// Share of attempts with an added delay, its minimum and its exponent.
    pub tail: f64,
    pub tail_ms: f64,
    pub tail_exponent: f64,
    pub tpot_ms: f64,
    /// Number of running attempts that doubles its time.
    pub room: f64,
    /// Attempts beyond this number wait until one of them has ended.
    pub slots: u32,
    /// Attempts beyond this number get a 429.
    pub limit: u32,
    pub tariff: Tariff,
    /// Upstreams with the same number run on the same machines.
    pub domain: Option<u32>,
}

const TARIFF: Tariff = Tariff { input: 1.0, cached: 0.1, output: 4.0, billed_on: false };

/// The climate of the described world.
const CLIMATE: Climate = Climate {
    diurnal: 0.25,
    level_sd: 0.18,
    level_tau_s: 180.0,
    correlation: 0.2,
    surge_every_h: 24.0,
    surge_for_s: 90.0,
    surge: 1.5,
    degraded_every_h: 3.0,
    degraded_for_s: 360.0,
    degraded: 3.0,
    brown_out_every_h: 40.0,
    brown_out_for_s: 1_500.0,
    decode_sd: 0.12,
    hangs: 0.000_4,
    errors: 0.002,
    outage: 0,
    slow: [1.0; 2],
};

const DAY_S: f64 = 86_400.0;

const CHAT: Traffic = Traffic::Chat { prompt: (1_020.0, 0.6), output: (129.0, 0.99) };

/// The five interchangeable upstreams, and three more.
const UPSTREAMS: [Upstream; 8] = [
    upstream('A', 50.0, 60.0, (6.04, 0.22), (0.022, 640.0, 1.15), 22.0),
    upstream('B', 67.0, 90.0, (5.58, 0.15), (0.008, 620.0, 1.30), 12.0),
    upstream('C', 77.0, 85.0, (5.77, 0.25), (0.015, 620.0, 1.20), 8.0),
    upstream('D', 62.0, 110.0, (5.95, 0.30), (0.030, 620.0, 1.10), 16.0),
    upstream('E', 72.0, 100.0, (5.39, 0.20), (0.010, 620.0, 1.25), 30.0),
    upstream('F', 67.0, 120.0, (5.12, 0.25), (0.012, 620.0, 1.20), 14.0),
    upstream('G', 87.0, 95.0, (5.58, 0.20), (0.020, 620.0, 1.15), 10.0),
    upstream('H', 57.0, 140.0, (4.65, 0.18), (0.010, 620.0, 1.25), 20.0),
];

const fn upstream(
    name: char,
    network_ms: f64,
    queue_ms: f64,
    (prefill, sigma): (f64, f64),
    (tail, tail_ms, tail_exponent): (f64, f64, f64),
    tpot_ms: f64,
) -> Upstream {
    Upstream {
        name,
        network_ms,
        queue_ms,
        prefill,
        sigma,
        tail,
        tail_ms,
        tail_exponent,
        tpot_ms,
        room: 60.0,
        slots: u32::MAX,
        limit: u32::MAX,
        tariff: TARIFF,
        domain: None,
    }
}

/// Every world, the described one first.
pub fn recipes() -> Vec<Recipe> {
    let described = Recipe {
        name: "described",
        about: "five upstreams, heavy tails, drift, outages; chats at 1 request/s",
        days: 4.0,
        rate: 1.0,
        traffic: CHAT,
        climate: CLIMATE,
        first_token_s: 20,
        in_usd: false,
        upstreams: UPSTREAMS[..5].to_vec(),
    };
    let mut recipes = vec![described.clone(), stragglers(&described), correlated(&described)];
    for (name, count) in [("two", 2), ("three", 3), ("eight", 8)] {
        let upstreams = UPSTREAMS[..count].to_vec();
        recipes.push(Recipe {
            name,
            about: "as described, with so many upstreams",
            days: 1.0,
            upstreams,
            ..described.clone()
        });
    }
    for (name, rate, days) in
        [("rate-0.2", 0.2, 4.0), ("rate-1", 1.0, 1.0), ("rate-5", 5.0, 0.2), ("rate-30", 30.0, 0.04)]
    {
        recipes.push(crowded(&described, name, rate, days));
    }
    recipes.extend([agents(&described), prices(&described), dear(&described)]);
    for (name, a_day, days) in [("small-200", 200.0, 30.0), ("small-1000", 1_000.0, 10.0)] {
        let about = "as described, with few requests";
        recipes.push(Recipe { name, about, days, rate: a_day / DAY_S, ..described.clone() });
    }
    recipes.extend([outage(&described), bimodal(&described), reasoning(&described)]);
    recipes.extend([stall(&described), limited(&described), load(&described), queues(&described)]);
    recipes
}

/// Three of five fail together, with so few requests that each one counts.
fn outage(described: &Recipe) -> Recipe {
    let climate = Climate { outage: 3, ..CLIMATE };
    let about = "three of five hang together for 20 minutes a day; 2,000 requests a day";
    Recipe { name: "outage", about, days: 5.0, rate: 2_000.0 / DAY_S, climate, ..described.clone() }
}

/// One attempt in seven meets a machine that must load the model first.
fn bimodal(described: &Recipe) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    for upstream in &mut upstreams {
        (upstream.tail, upstream.tail_ms, upstream.tail_exponent) = (0.15, 1_500.0, 8.0);
    }
    let about = "one attempt in seven takes 1.5 to 2 s longer";
    Recipe { name: "bimodal", about, days: 1.0, upstreams, ..described.clone() }
}

/// First tokens after 6 to 15 seconds.
fn reasoning(described: &Recipe) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    for (upstream, queue_ms) in upstreams.iter_mut().zip([6_000.0, 7_500.0, 9_000.0, 11_000.0, 14_000.0]) {
        (upstream.queue_ms, upstream.tail_ms) = (queue_ms, 15_000.0);
    }
    let about = "first tokens after 6 to 15 s; 0.1 requests/s";
    Recipe { name: "reasoning", about, rate: 0.1, first_token_s: 120, upstreams, ..described.clone() }
}

/// Two equally fast upstreams; the first in the list costs ten times as much.
fn dear(described: &Recipe) -> Recipe {
    let mut upstreams = vec![described.upstreams[1]; 2];
    for (upstream, (name, usd)) in upstreams.iter_mut().zip([('A', 2e-6), ('B', 2e-7)]) {
        upstream.name = name;
        upstream.tariff = Tariff { input: usd, cached: 0.1 * usd, output: 4.0 * usd, billed_on: false };
    }
    let about = "two equally fast upstreams; A costs 2 USD per million input tokens, B 0.2 USD";
    Recipe { name: "dear", about, days: 1.0, in_usd: true, upstreams, ..described.clone() }
}

/// The size of a prompt does not matter, and slowness is only chance.
fn stragglers(described: &Recipe) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    for upstream in &mut upstreams {
        (upstream.tail, upstream.tail_ms) = (0.03, 800.0);
    }
    let climate = Climate { diurnal: 0.0, level_sd: 0.0, surge: 1.0, degraded: 1.0, ..CLIMATE };
    let about = "prompts of one size, no drift, stragglers that nobody can foresee";
    let traffic = Traffic::Chat { prompt: (1_000.0, 0.0), output: (129.0, 0.99) };
    Recipe { name: "stragglers", about, days: 1.0, traffic, climate, upstreams, ..described.clone() }
}

/// A slowdown affects all upstreams.
fn correlated(described: &Recipe) -> Recipe {
    let climate = Climate { correlation: 0.8, level_sd: 0.3, surge_every_h: 4.0, surge: 2.5, ..CLIMATE };
    let about = "four fifths of the drift are shared, and surges hit all at once every four hours";
    Recipe { name: "correlated", about, days: 1.0, climate, ..described.clone() }
}

/// Upstreams that slow down under the gateway's own load, and refuse beyond a limit.
fn crowded(described: &Recipe, name: &'static str, rate: f64, days: f64) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    for upstream in &mut upstreams {
        (upstream.room, upstream.limit) = (24.0, 64);
    }
    let about = "own load slows an upstream, twice with 24 running; beyond 64 it answers 429";
    Recipe { name, about, rate, days, upstreams, ..described.clone() }
}

/// All are slow at once, again and again.
fn stall(described: &Recipe) -> Recipe {
    let climate = Climate { surge_every_h: 1.0, surge_for_s: 60.0, surge: 6.0, ..CLIMATE };
    let about = "every hour all are six times as slow for a minute; own load slows an upstream; 2 requests/s";
    Recipe { about, climate, ..crowded(described, "stall", 2.0, 0.5) }
}

/// Rate limits are met all the time.
fn limited(described: &Recipe) -> Recipe {
    let mut recipe = crowded(described, "limited", 5.0, 0.2);
    recipe.upstreams.iter_mut().for_each(|upstream| upstream.limit = 12);
    Recipe { about: "5 requests/s; beyond twelve running an upstream answers 429", ..recipe }
}

/// Upstreams that only slow down.
fn load(described: &Recipe) -> Recipe {
    let mut recipe = crowded(described, "load", 20.0, 0.05);
    recipe.upstreams.iter_mut().for_each(|upstream| upstream.limit = u32::MAX);
    Recipe { about: "20 requests/s; own load slows an upstream, twice with 24 running, and none refuses", ..recipe }
}

/// All are slow, and their queues grow.
fn queues(described: &Recipe) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    upstreams.iter_mut().for_each(|upstream| (upstream.slots, upstream.limit) = (14, 42));
    let climate = Climate { slow: [3.0, 5.0], brown_out_every_h: 1e9, ..CLIMATE };
    let about = "every hour all are three times as slow for ten minutes and then five times; 14 slots each, and queues";
    Recipe { name: "queues", about, days: 0.125, rate: 3.0, climate, upstreams, ..described.clone() }
}

fn agents(described: &Recipe) -> Recipe {
    let about = "conversations that grow; whoever read the last turn has it cached for five minutes";
    Recipe { name: "agents", about, days: 1.0, traffic: Traffic::Agents, ..described.clone() }
}

/// Prices from a third to three times; two upstreams bill on after a cut, two share a machine park.
fn prices(described: &Recipe) -> Recipe {
    let mut upstreams = described.upstreams.clone();
    let factors = [1.0, 0.4, 3.0, 1.0, 0.33];
    for (upstream, factor) in upstreams.iter_mut().zip(factors) {
        let Tariff { input, cached, output, .. } = TARIFF;
        let billed_on = matches!(upstream.name, 'B' | 'D');
        upstream.domain = matches!(upstream.name, 'A' | 'D').then_some(1);
        upstream.tariff = Tariff { input: input * factor, cached: cached * factor, output: output * factor, billed_on };
    }
    let about =
        "prices from a third to three times A's; B and D bill the whole answer after a cut; A and D share a park";
    Recipe { name: "prices", about, days: 1.0, upstreams, ..described.clone() }
}
