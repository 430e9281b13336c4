//! Probes and benchmarks change nothing that is said of clients: the same requests of clients, with and without them in the file.

use jiff::{SignedDuration, Timestamp};
use sqlx::Connection as _;

use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{FakeProvider, Script};

/// Clients' requests before the probes, and after them: enough for `replay`.
const REQUESTS: usize = 60;

/// Commands that speak of clients, without their window.
const ASKED: [&str; 9] = [
    "stats --json",
    "stats --json --by upstream,concurrency",
    "stats --csv --by model,input,hour",
    "stats --wide",
    "history --json --every 1m --metric ttft",
    "history --json --every 1m --metric cost --by model",
    "history --json --metric tok_s --by concurrency",
    "replay --json --policy fallback --seed 7",
    "replay --json --policy race --seed 7",
];

/// The same of the API.
const API: [&str; 6] = [
    "/api/stats?by=upstream,concurrency",
    "/api/history?every=1m&metric=ttft",
    "/api/distribution?exact=false",
    "/api/costs?by=upstream",
    "/api/races?limit=100",
    "/api/replay?policy=fallback&seed=7",
];

const CLIENTS: &str = "SELECT json_array(race.race_id, done_us, winner, why, plan, in_flight, ordinal, provider, dispatch_us, \
    first_token_us, last_token_us, in_flight_upstream, cost_usd_min) FROM race JOIN attempt USING (race_id) \
    WHERE source = 'client' ORDER BY race.race_id, ordinal";

async fn clients(setup: Setup) -> Setup {
    let gateway = setup.serve().await;
    for _ in 0..REQUESTS {
        assert_eq!(gateway.ask("m").await.status, 200);
    }
    gateway.stop().await
}

/// A file with the rows of clients alone.
async fn without_others(setup: &Setup, config: &str) -> Setup {
    let mut connection = setup.connect().await;
    sqlx::query("VACUUM INTO ?")
        .bind(setup.path("copy.db").display().to_string())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let alone = Setup::new(config);
    alone.write("photofinish.db", std::fs::read(setup.path("copy.db")).unwrap());
    let mut connection = alone.connect().await;
    for others in [
        "DELETE FROM attempt_row WHERE race_id IN (SELECT race_id FROM race WHERE source <> 'client')",
        "DELETE FROM race_row WHERE source <> 'client'",
        "DELETE FROM run",
    ] {
        assert!(sqlx::query(others).execute(&mut connection).await.unwrap().rows_affected() > 0, "{others}");
    }
    connection.close().await.unwrap();
    alone
}

/// The lines of a body without those of progress: how many come depends on the pace of the reader.
fn answered(body: &str) -> Vec<&str> {
    body.lines().filter(|line| !line.contains("\"event\":\"progress\"")).collect()
}

#[tokio::test]
async fn what_is_said_of_clients_is_the_same_with_and_without_probes_and_a_benchmark() {
    let script = || Script::sse().role().tokens(&["Hello", " there", " you"]).finish("stop").usage(40, 3).done().end();
    let fake = FakeProvider::answering(move |_| script()).await;
    let config = provider("a", &fake)
        + &provider("b", &fake)
        + "\n[models.m]\nupstreams = [{ upstream = \"a/x\", input_price = 1.0, output_price = 10.0 }, \"b/x\"]\n";
    let setup = clients(Setup::new(&config)).await;
    let before = setup.texts(CLIENTS).await;

    let ended = |ran: CommandOutput| assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    ended(setup.run(&["probe", "--workload", "1k,parallel"]).await);
    let load = ["--concurrency", "2", "--requests", "8", "--input-tokens", "40", "--output-tokens", "3"];
    ended(setup.run(&[&["bench", "a/x", "b/x", "--json"][..], &load].concat()).await);
    assert_eq!(setup.texts(CLIENTS).await, before, "no row of a client has changed");
    let setup = clients(setup).await;
    assert!(setup.texts(CLIENTS).await.len() >= before.len() + REQUESTS);

    let alone = without_others(&setup, &config).await;
    let now = Timestamp::now();
    let (since, until) = ((now - SignedDuration::from_mins(10)).to_string(), now.to_string());
    for asked in ASKED {
        let arguments: Vec<&str> = asked.split(' ').chain(["--since", &since, "--until", &until]).collect();
        let (with, without) = (setup.run(&arguments).await, alone.run(&arguments).await);
        assert_eq!(with.code, Some(0), "{asked}: {}", with.err);
        assert_eq!((&with.out, &with.err), (&without.out, &without.err), "{asked}");
        // The question can distinguish them.
        let all = [&arguments[..], &["--source", "all"]].concat();
        assert_ne!(setup.run(&all).await.out, alone.run(&all).await.out, "{asked}");
    }
    let (mixed, alone) = (setup.serve().await, alone.serve().await);
    for asked in API {
        let path = format!("{asked}&since={since}&until={until}");
        let (with, without) = (mixed.get(&path, &[]).await, alone.get(&path, &[]).await);
        assert_eq!((with.status, without.status), (200, 200), "{asked}");
        assert_eq!(answered(&with.body), answered(&without.body), "{asked}");
        let path = format!("{path}&source=all");
        let (with, without) = (mixed.get(&path, &[]).await, alone.get(&path, &[]).await);
        assert_ne!(answered(&with.body), answered(&without.body), "{asked}");
    }
    mixed.stop().await;
    alone.stop().await;
}
