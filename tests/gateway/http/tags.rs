//! What requests are charged to: from the header and the body to the rows and the edges of `usage`.

use serde_json::{Value, json};

use crate::harness::process::{RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Script, soon};

const ANN: (&str, &str) = ("x-api-key", "token-of-ann-0123456789");

async fn served() -> (RunningGateway, FakeProvider) {
    let fake =
        FakeProvider::answering(|_| Script::sse().role().token("a").finish("stop").usage(1_000, 100).done().end())
            .await;
    let mut config = provider("p", &fake);
    config += "[models.m]\nupstreams = [{ upstream = \"p/m\", input_price = 1.0, output_price = 10.0 }]\n";
    config += "[teams.search]\n[users.ann]\ntoken = \"token-of-ann-0123456789\"\nteam = \"search\"\noverrides = true\n";
    (Setup::new(&config).serve().await, fake)
}

fn asking(metadata: &Value) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }], "stream": true, "metadata": metadata })
}

#[tokio::test]
async fn a_request_is_charged_to_its_tags() {
    let (served, _fake) = served().await;
    let tagged = ("x-photofinish-tags", "project=search, job=nightly");
    let requests: [(&[(&str, &str)], Value); 4] = [
        (&[ANN, tagged], json!(null)),
        (&[ANN], json!({ "project": "search", "note": "What is the capital of France?" })),
        (&[ANN, ("x-photofinish-tags", "job=nightly")], json!({ "project": "ads" })),
        (&[ANN], json!({})),
    ];
    for (headers, metadata) in &requests {
        assert_eq!(served.chat(headers, &asking(metadata)).await.status, 200);
    }
    let wrong = served.chat(&[ANN, ("x-photofinish-tags", "two words")], &asking(&json!(null))).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("x-photofinish-tags") && wrong.body.contains("is no tag"), "{}", wrong.body);
    let written = async { while served.setup.number("SELECT count(*) FROM attempt").await < 4 {} };
    soon("all rows are written", written).await;
    let rows = served.setup.texts("SELECT coalesce(tags, '-') FROM race WHERE attempts > 0 ORDER BY started_at").await;
    assert_eq!(rows, ["job=nightly project=search", "project=search", "job=nightly project=ads", "-"]);
    let usage: Value =
        serde_json::from_str(&served.setup.run(&["usage", "--by", "team,tag", "--json"]).await.out).unwrap();
    let groups: Vec<(Value, Value, Value, Value)> = usage["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let of = |name: &str| group[name].clone();
            (of("team"), of("tag"), of("attempts"), of("input_tokens"))
        })
        .collect();
    for expected in [
        (json!("search"), json!("project=search"), json!(2), json!(2_000)),
        (json!("search"), json!("job=nightly"), json!(2), json!(2_000)),
        (json!("search"), json!("project=ads"), json!(1), json!(1_000)),
        (json!("search"), json!(null), json!(1), json!(1_000)),
    ] {
        assert!(groups.contains(&expected), "{expected:?}: {usage}");
    }
    assert_eq!(
        (groups.len(), &usage["total"]["attempts"], &usage["total"]["cost_usd_min"]),
        (4, &json!(4), &json!(0.008))
    );
    let csv = served.setup.run(&["usage", "--by", "user,tag", "--csv"]).await.out;
    assert!(csv.starts_with("user,tag,answers,attempts,input_tokens,output_tokens,cost_usd_min,"), "{csv}");
    assert!(csv.contains("\r\nann,project=search,2,2,2000,200,0.004,0.004,"), "{csv}");
    let passed = served.send("GET", "/providers/p/files", &[ANN, tagged], String::new()).await;
    assert_eq!(passed.status, 200);
    let of_path = "SELECT coalesce(tags, '-') FROM race WHERE api NOT IN ('chat')";
    let written = async { while served.setup.texts(of_path).await.is_empty() {} };
    soon("the row of the path is written", written).await;
    assert_eq!(served.setup.texts(of_path).await, ["job=nightly project=search"], "a path of a provider");
}
