//! What the catalogue knows of a model: who surely cannot serve a request is asked only if no other is left.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Script};

/// By the catalogue: text alone, no tools, 8,000 tokens in all, 4,000 of an answer.
const SMALL: &str = "cohere/c4ai-aya-expanse-8b";

/// Neither a date in the name that was asked nor the name in the answer loses the row of the catalogue.
#[tokio::test]
async fn the_price_is_that_of_the_name_that_was_asked() {
    let fake = FakeProvider::answering(|_| Script::stream(&["x"])).await;
    let gateway = Setup::new().provider("cohere", &fake, "").start().await;
    for model in [SMALL.to_owned(), format!("{SMALL}-2099-01-01"), "cohere/nobody-knows-2099-01-01".to_owned()] {
        read_response(&mut gateway.ask(&chat(&model, json!({}))).await).await;
    }
    let rows = gateway.stop().await;
    let source = "catalogue 2026-11-10";
    for (race, (sent, source)) in [
        ("c4ai-aya-expanse-8b", json!(source)),
        ("c4ai-aya-expanse-8b-2099-01-01", json!(source)),
        ("nobody-knows-2099-01-01", Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let row = json!({"model_sent": sent, "model_reported": "fake-model", "price_source": source});
        assert_row!(rows.of(race)[0], row);
    }
}

fn chat(model: &str, members: Value) -> Value {
    let mut ask = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    ask.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    ask
}

#[tokio::test]
async fn an_upstream_that_explicitly_lacks_something_is_left_out_while_another_can() {
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let long = "word ".repeat(20_000);
    let cases = [
        (json!({"tools": tools}), "capability"),
        (json!({"messages": [{"role": "user", "content": image}]}), "capability"),
        (json!({"max_tokens": 5_000}), "too_long"),
        (json!({"messages": [{"role": "user", "content": long}]}), "too_long"),
    ];
    let (small, other) = (
        FakeProvider::answering(|_| Script::stream(&["small"])).await,
        FakeProvider::answering(|_| Script::stream(&["other"])).await,
    );
    let setup = Setup::new().race("policy = \"fallback\"");
    let setup = setup.provider("cohere", &small, "").provider("b", &other, "");
    let gateway = setup.start().await;
    for (members, _) in &cases {
        let ask = chat(&format!("{SMALL},b/m"), members.clone());
        let response = read_response(&mut gateway.ask(&ask).await).await;
        assert_eq!(
            (response.upstream(), response.header("x-photofinish-left-out")),
            ("b/m", SMALL),
            "{}",
            response.body
        );
    }
    assert_eq!(small.requests().len(), 0);
    // What is unknown or fits leaves none out; neither do words about images.
    for members in
        [json!({}), json!({"max_tokens": 4_000}), json!({"messages": [{"role": "user", "content": "\"image_url\""}]})]
    {
        let response = read_response(&mut gateway.ask(&chat(&format!("{SMALL},b/m"), members)).await).await;
        assert_eq!((response.upstream(), response.header("x-photofinish-left-out")), (SMALL, ""));
    }
    // Without another the provider itself decides.
    for (members, _) in &cases {
        let response = read_response(&mut gateway.ask(&chat(SMALL, members.clone())).await).await;
        assert_eq!((response.status, response.upstream()), (200, SMALL), "{}", response.body);
    }
    let rows = gateway.stop().await;
    for (race, (_, why)) in cases.iter().enumerate() {
        assert_eq!(rows.races[race]["left_out"], json!(format!("{SMALL}@{why}")));
    }
    assert_row!(rows.of(4)[0], json!({"provider": "cohere", "price_source": "catalogue 2026-11-10"}));
}
