//! What the members of `GET /api/routing` mean, for the description of `/api`: those that are no lists and no objects.

use crate::report::fields::{MemberField, boolean, integer, number, text};

pub const UPSTREAM: [MemberField; 15] = [
    text("upstream", "", "provider and its name for the model: `PROVIDER/MODEL`"),
    boolean("on", "there is a key for callers without one of their own, or none is needed"),
    number("level", "", "how far ln TTFT is above its usual just now"),
    number("level_factor", "", "the same as a factor: 2 is twice as slow as usual"),
    number("load_slope", "", "ln TTFT by ln(1 + attempts in flight): at 1, four times as slow with three others there"),
    number("tpot_ms", "ms", "usual time between two tokens at what is in flight").or_null(),
    number("samples", "", "observations behind all this; old ones and early cancels count less"),
    integer("launches", "", "attempts that were ever started, the remembered history included"),
    integer("in_flight", "", "attempts that run there now"),
    boolean("throttled", "it fails so often that nothing is hedged to it"),
    number("caching", "", "share of a prompt it has read before that it reports as cached"),
    text("breaker", "", "`closed`, `open` or `due` (tried beside the others)"),
    number("breaker_wait_s", "s", "until an open one may be tried").or_null(),
    number("cooling_down_s", "s", "the shortest wait over its shared keys; null where one is free").or_null(),
    number("last_observation_s", "s", "how long ago it was last used").or_null(),
];

pub const PREDICTED: [MemberField; 3] = [
    integer("input_tokens", "tokens", "size of the prompt, nothing of it cached"),
    number("ttft_p50_ms", "ms", "median of the time to first token; null where what was seen does not reach so far")
        .or_null(),
    number("ttft_p95_ms", "ms", "its 95th percentile, likewise").or_null(),
];

pub const MODEL: [MemberField; 13] = [
    text("model", "", "a configured model, or an alias that was asked for"),
    text("alias_of", "", "the model that an alias stands for").or_null(),
    text("policy", "", "how its races are planned"),
    boolean("learns", "the policy goes by `order`"),
    text("optimise", "", "what is best: `ttft`, `completion` or `goodput`"),
    number("budget", "", "what extras may cost, as a share of single attempts"),
    number("bucket", "", "what may be spent on extras now, in `unit`; null before any cost is known").or_null(),
    number("bucket_capacity", "", "what the bucket holds at most, in `unit`"),
    text("unit", "", "`usd`, or `tokens` where no upstream has a price"),
    number("lambda_ms", "ms", "what a single attempt of mean cost must save to be worth it"),
    number("mean_cost", "", "of a race's single attempt, in `unit`; 0 before any is known"),
    number("ttft_p99_ms", "ms", "of what clients see, tracked; 2000 before one was seen"),
    number("answer_tokens", "tokens", "of a usual answer; 200 before one was seen"),
];

pub const REASON: [MemberField; 3] =
    [text("upstream", "", "whose place it is"), text("code", "", "short, for programs"), text("text", "", "in words")];
