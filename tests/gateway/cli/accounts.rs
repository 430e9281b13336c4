//! `key`, `user`, `team`, `usage` and `audit` as programs: on the store alone, on a running gateway, and over a restart.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::harness::process::{CommandOutput, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};

const USERS: &str = "[users.root]\ntoken = \"root-token\"\nrole = \"admin\"\n[users.ann]\ntoken = \"ann-token\"\n";

async fn fake() -> FakeProvider {
    FakeProvider::answering(|_| Script::sse().role().token("a").finish("stop").usage(7, 3).done().end()).await
}

fn setup(fake: &FakeProvider, more: &str) -> Setup {
    let models = "[models.m]\nupstreams = [{ upstream = \"one/m\", input_price = 1000.0, output_price = 1000.0 }]\n";
    Setup::new(&format!("{}{models}{USERS}{more}", provider("one", fake))).env("USER", "op")
}

async fn done(setup: &Setup, line: &str) -> CommandOutput {
    let ran = setup.run(&line.split_whitespace().collect::<Vec<_>>()).await;
    assert_eq!(ran.code, Some(0), "{line}: {}{}", ran.out, ran.err);
    assert!(
        line.contains("--json") || ran.out.lines().chain(ran.err.lines()).all(|line| line.chars().count() <= 80),
        "{line}: {}{}",
        ran.out,
        ran.err
    );
    ran
}

async fn status(served: &RunningGateway, key: &str) -> u16 {
    served.chat(&[("x-api-key", key)], &asking("m")).await.status
}

#[tokio::test]
async fn without_a_gateway_the_commands_work_on_the_store() {
    let fake = fake().await;
    let setup = setup(&fake, "");
    done(&setup, "team create search --rpm 1000 --models m,other-*").await;
    done(&setup, "user create bob --team search --budget-month 5000").await;
    let made = done(&setup, "key create --user bob --name ci --expires 90d --streams 5").await;
    let key = made.out.trim();
    assert!(key.starts_with("pf_") && key.len() == 62 && made.said().contains("shown only now"), "{}", made.err);
    let listed = done(&setup, "key list").await.out;
    assert!(listed.contains("bob") && listed.contains("active") && !listed.contains(&key[12..]), "{listed}");
    let users = done(&setup, "user list").await.out;
    assert!(users.contains("config.toml") && users.contains("search"), "{users}");
    let json: Value = serde_json::from_str(&done(&setup, "key list --user bob --json").await.out).unwrap();
    let id = json["keys"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(json["keys"][0]["streams"], 5);
    done(&setup, "user set bob --rpm 7 --budget-day 1000").await;
    let bob = done(&setup, "user show bob").await.out;
    assert!(bob.contains("rpm") && bob.contains("month") && bob.contains("day"), "{bob}");
    done(&setup, "user set bob --budget-week 70 --budget-total 900 --model-budgets opus-*=5/week,m=9/total").await;
    let bob: Value = serde_json::from_str(&done(&setup, "user show bob --json").await.out).unwrap();
    assert_eq!((&bob["budget"]["week"], &bob["budget"]["total"]), (&json!(70.0), &json!(900.0)), "{bob}");
    let of_models = json!({ "opus-*": { "week": 5.0 }, "m": { "total": 9.0 } });
    assert_eq!((&bob["model_budgets"], &bob["rpm"]), (&of_models, &json!(7)), "{bob}");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (line, code, words) in [
        ("key create --user ann --name ci --expires 2020-01-31", 2, "in the past"),
        ("key create --user eve --name ci", 2, "photofinish user create eve"),
        ("key create --user ann --name ci --limits {\"rmp\":5}", 2, "rmp"),
        ("key create --user ann --name ci --limits 5", 2, "JSON object"),
        ("user set ann --rpm 5", 1, "config.toml"),
        ("user delete ann", 1, "config.toml"),
        ("key show none", 1, "photofinish key list"),
        ("team delete search", 1, "bob"),
        (&format!("key revoke {id}"), 2, "--now"),
        (&format!("key list --url http://{nobody}"), 1, "no gateway answers"),
    ] {
        let ran = setup.run(&line.split_whitespace().collect::<Vec<_>>()).await;
        assert_eq!((ran.code, ran.said().contains(words)), (Some(code), true), "{line}: {}", ran.err);
    }
    let audit = done(&setup, "audit").await.out;
    let audit = audit.split_whitespace().collect::<Vec<_>>().join(" ");
    // Not who the variable says.
    let who = photofinish_base::machine::started_by();
    assert!(
        audit.contains(&format!("{who} (command line) user:bob: "))
            && audit.contains("rpm - → 7")
            && !audit.contains(&key[12..55]),
        "{audit}"
    );

    let served = setup.serve().await;
    assert_eq!(status(&served, key).await, 200);
    // The port is the system's choice, so the command works on the store, and the gateway finds it there.
    done(&served.setup, &format!("key revoke {id} --now")).await;
    let refused = async { while status(&served, key).await != 401 {} };
    soon("the gateway looks into its store", refused).await;
    let setup = served.stop().await;
    let usage = done(&setup, "usage --by user,team,key,model --since 30d").await.out;
    assert!(usage.contains("bob") && usage.contains("search") && usage.contains(&id), "{usage}");
    let json: Value = serde_json::from_str(&done(&setup, "usage --by key --json").await.out).unwrap();
    for member in ["cost_usd_min", "cost_usd_max"] {
        let sql: &str = match member {
            "cost_usd_min" => "SELECT sum(CAST(round(cost_usd_min * 1e9) AS INTEGER)) FROM attempt_cost",
            _ => "SELECT sum(CAST(round(cost_usd_max * 1e9) AS INTEGER)) FROM attempt_cost",
        };
        let (sum, found) = (setup.number(sql).await, json["total"][member].as_f64().unwrap());
        assert!(sum > 0 && (found * 1e9 - sum as f64).abs() < 1.0, "{member} {sum}: {json}");
    }
}

#[tokio::test]
async fn a_running_gateway_is_asked() {
    let fake = fake().await;
    let served = setup(&fake, "").serve().await;
    let url = format!("http://{}", served.addr);
    let ran = served.setup.run(&["key", "list", "--url", &url]).await;
    assert!(ran.code == Some(1) && ran.said().contains("PHOTOFINISH_TOKEN"), "{}", ran.err);
    let at = format!("--url {url} --token root-token");
    let made = done(&served.setup, &format!("key create --user ann --name ci {at}")).await;
    let key = made.out.trim();
    assert_eq!(status(&served, key).await, 200);
    let id = &key[3..11];
    let next = done(&served.setup, &format!("key rotate {id} --grace 0s {at}")).await;
    assert_eq!((status(&served, key).await, status(&served, next.out.trim()).await), (401, 200));
    let id = &next.out.trim()[3..11];
    done(&served.setup, &format!("key revoke {id} --now {at}")).await;
    assert_eq!(status(&served, next.out.trim()).await, 401);
    done(&served.setup, &format!("user create eve/x --role viewer {at}")).await;
    done(&served.setup, &format!("user set eve/x --rpm 5 --budget-day 1000 {at}")).await;
    let shown = done(&served.setup, &format!("user show eve/x {at} --json")).await.out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["rpm"], &shown["role"], &shown["version"]), (&json!(5), &json!("viewer"), &json!(2)));
    let made = done(&served.setup, &format!("key create --user eve/x --name ci {at}")).await;
    assert_eq!(status(&served, made.out.trim()).await, 200);
    // A user makes and lists their own.
    let own = format!("--url {url} --token ann-token");
    done(&served.setup, &format!("key create --name laptop {own}")).await;
    for (which, at, keys) in [("", &own, 3), ("--mine", &own, 3), ("", &at, 4), ("--mine", &at, 0)] {
        let listed = done(&served.setup, &format!("key list {which} {at} --json")).await.out;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["keys"].as_array().unwrap().len(), keys, "{which} {at}: {listed}");
    }
    let named = async {
        let of_budget = "{level=\"user\",name=\"eve/x\",span=\"day\"}";
        let lines = [
            "photofinish_user_races_total{user=\"eve/x\",outcome=\"ok\"} 1".to_owned(),
            format!("photofinish_budget_usd{of_budget} 1000\n"),
            format!("photofinish_budget_spent_usd{of_budget} 0.01\n"),
        ];
        let page = async || served.get("/metrics", &[("x-api-key", "root-token")]).await.body;
        let is_whole = |page: String| lines.iter().all(|line| page.contains(line));
        while !is_whole(page().await) {}
    };
    soon("its race counts under its name", named).await;
    let ran = served.setup.run(&["user", "set", "ann", "--rpm", "5", "--url", &url, "--token", "root-token"]).await;
    assert!(ran.code == Some(1) && ran.said().contains("config.toml"), "{}", ran.err);
}

/// A row is in the store only after its cost is in the budget, whenever the process is killed.
#[tokio::test]
async fn after_a_kill_a_budget_has_no_less_than_the_rows() {
    let fake = fake().await;
    let mut setup = setup(&fake, "budget = { day = 1000.0 }\n");
    for _ in 0..6 {
        let served = setup.serve().await;
        let before = served.setup.number("SELECT count(*) FROM attempt").await;
        for _ in 0..3 {
            assert_eq!(status(&served, "ann-token").await, 200);
        }
        let written = async { while served.setup.number("SELECT count(*) FROM attempt").await == before {} };
        soon("the rows are written", written).await;
        served.process.signal("KILL");
        assert_eq!(served.process.ended().await, None);
        setup = served.setup;
        let of_rows = setup.number("SELECT sum(CAST(round(cost_usd_min * 1e9) AS INTEGER)) FROM attempt").await;
        let sql = "SELECT coalesce(max(spent + reserved), 0) FROM budget_window WHERE subject = 'user:ann' AND span = 'month'";
        let of_budget = setup.number(sql).await;
        assert!(of_rows > 0 && of_budget >= of_rows, "{of_budget} of {of_rows}");
    }
}

/// What a process that was killed had reserved counts as spent.
#[tokio::test]
async fn budgets_go_on_after_a_kill() {
    let gate = Gate::new();
    let held = Script::sse().role().token("a").wait(&gate).finish("stop").done();
    let fake = FakeProvider::start(vec![Script::stream(&["a"]), held]).await;
    let served = setup(&fake, "budget = { day = 1000.0 }\n").serve().await;
    let me = async |served: &RunningGateway| {
        let me = served.get("/api/me", &[("x-api-key", "ann-token")]).await.json();
        let day = &me["limits"][0]["uses"][0];
        ["used", "reserved", "estimated"].map(|name| day[name].as_i64().unwrap())
    };
    assert_eq!(status(&served, "ann-token").await, 200);
    let mut client = RawClient::connect(served.addr).await;
    client.request("POST", "/v1/chat/completions", &[("x-api-key", "ann-token")], asking("m").to_string()).await;
    fake.request(1).await;
    let [spent, reserved, _] = me(&served).await;
    assert!(spent > 0 && reserved > 0, "{spent} {reserved}");
    let setup = served.setup;
    let kept = async {
        let sql = "SELECT coalesce(max(spent + reserved), 0) FROM budget_window WHERE subject = 'user:ann'";
        while setup.number(sql).await != spent + reserved {}
    };
    soon("the budget is kept", kept).await;
    served.process.signal("KILL");
    assert_eq!(served.process.ended().await, None);
    let served = setup.serve().await;
    let [after, none, estimated] = me(&served).await;
    assert_eq!((after, none, estimated >= reserved), (spent + reserved, 0, true));
}
