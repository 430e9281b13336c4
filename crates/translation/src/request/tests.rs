//! Bodies of clients, and the bodies sent to upstreams.

use super::*;
use photofinish_wire::AnswerForm;

fn parse(body: &str) -> Result<ApiRequest, InvalidRequest> {
    ApiRequest::parse(Surface::Chat, Bytes::copy_from_slice(body.as_bytes()))
}

/// The members that every surface requires.
fn unchecked(body: &str) -> ApiRequest {
    ApiRequest::written(Surface::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn body_for(body: &str, form: AnswerForm) -> String {
    String::from_utf8(unchecked(body).body_for("up/1", form).joined().to_vec()).unwrap()
}

#[test]
fn only_three_members_are_touched() {
    let table = [
        (
            r#"{"model":"m","messages":[]}"#,
            r#"{"model":"up/1","messages":[],"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            "{ \"b\" : 1e2,\n \"model\" : \"m\" , \"stream\":false, \"a\":[ 1 ,2] }\n",
            "{ \"b\" : 1e2,\n \"model\" : \"up/1\" , \"stream\":true, \"a\":[ 1 ,2] ,\"stream_options\":{\"include_usage\":true}}\n",
        ),
        (
            r#"{"stream_options":{"x":1,"include_usage":false},"model":"m","stream":true,"\u00e9":"\ud800"}"#,
            r#"{"stream_options":{"include_usage":true,"x":1},"model":"up/1","stream":true,"\u00e9":"\ud800"}"#,
        ),
        (
            r#"{"model":"m","stream":null,"stream_options":null}"#,
            r#"{"model":"up/1","stream":true,"stream_options":{"include_usage":true}}"#,
        ),
    ];
    for (body, expected) in table {
        assert_eq!(body_for(body, AnswerForm::WithUsage), expected);
    }
}

#[test]
fn a_plain_request_goes_up_as_it_came() {
    let table = [
        (r#"{"model":"m","messages":[]}"#, r#"{"model":"up/1","messages":[]}"#),
        (
            "{ \"b\" : 1e2,\n \"model\" : \"m\" , \"stream\":false, \"a\":[ 1 ,2] }\n",
            "{ \"b\" : 1e2,\n \"model\" : \"up/1\" , \"stream\":false, \"a\":[ 1 ,2] }\n",
        ),
        (r#"{"model":"m","stream":null}"#, r#"{"model":"up/1","stream":null}"#),
        // A client that streams, and an upstream that does not.
        (
            r#"{"stream_options":{"include_usage":true},"model":"m","stream":true}"#,
            r#"{"model":"up/1","stream":false}"#,
        ),
    ];
    for (body, expected) in table {
        assert_eq!(body_for(body, AnswerForm::Plain), expected);
    }
    let ollama = ApiRequest::written(Surface::OllamaChat, Bytes::from_static(b"{\"model\":\"m\"}")).unwrap();
    assert_eq!(ollama.body_for("n", AnswerForm::Plain).joined(), "{\"model\":\"n\",\"stream\":false}");
    let count = ApiRequest::written(Surface::CountTokens, Bytes::from_static(b"{\"model\":\"m\"}")).unwrap();
    assert_eq!(count.body_for("n", AnswerForm::Streamed).joined(), "{\"model\":\"n\"}");
}

#[test]
fn stream_options_can_be_left_off_wherever_they_stand() {
    let table = [
        (r#"{"stream_options":{"include_usage":true},"model":"m"}"#, r#"{"model":"up/1","stream":true}"#),
        (
            r#"{"model":"m","stream_options":{"include_usage":true} , "z":1}"#,
            r#"{"model":"up/1", "z":1,"stream":true}"#,
        ),
        (r#"{"model":"m","z":1 , "stream_options":{} }"#, r#"{"model":"up/1","z":1  ,"stream":true}"#),
        (r#"{"model":"m"}"#, r#"{"model":"up/1","stream":true}"#),
    ];
    for (body, expected) in table {
        assert_eq!(body_for(body, AnswerForm::Streamed), expected);
        serde_json::from_str::<serde_json::Value>(&body_for(body, AnswerForm::Streamed)).unwrap();
    }
}

#[test]
fn the_facts_are_read() {
    let request = unchecked(
        r#"{"model":"m","stream":true,"n":2,"max_completion_tokens":9,"tools":[{}],"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!((request.model.as_str(), request.stream, request.include_usage), ("m", true, true));
    assert_eq!((request.n_choices, request.max_tokens, request.has_tools), (Some(2), Some(9), true));
    assert!(!unchecked(r#"{"model":"m","tools":[]}"#).has_tools);
    for (lists, legacy) in [
        (r#""functions":[{}]"#, true),
        (r#""functions":[{}],"tools":[]"#, true),
        (r#""functions":[]"#, false),
        (r#""functions":[{}],"tools":[{}]"#, false),
        (r#""tools":[{}],"functions":[{}]"#, false),
    ] {
        assert_eq!(unchecked(&format!(r#"{{"model":"m",{lists}}}"#)).legacy_functions, legacy, "{lists}");
    }
}

#[test]
fn every_member_that_multiplies_an_answer_is_counted() {
    let image = Surface::Passed(PassedCall::Image);
    for (surface, members, answers) in [
        (Surface::Chat, r#""n":3"#, 3.0),
        (Surface::Chat, r#""n":2.5"#, 3.0),
        (Surface::Chat, r#""n":1e1"#, 10.0),
        (Surface::Chat, r#""n":"4""#, 4.0),
        (Surface::Chat, r#""n":null"#, 1.0),
        (Surface::Chat, r#""n":0"#, 1.0),
        (Surface::Chat, r#""n":-7"#, 1.0),
        (Surface::Completions, r#""n":2,"best_of":5"#, 5.0),
        (Surface::Completions, r#""prompt":["a","b"],"n":2"#, 4.0),
        (Surface::Completions, r#""prompt":[[1],[2],[3]],"best_of":2"#, 6.0),
        (Surface::Completions, r#""prompt":[1,2,3]"#, 1.0),
        (image, r#""n":4"#, 4.0),
        (Surface::Gemini, r#""generationConfig":{"candidateCount":3}"#, 3.0),
        (Surface::Gemini, r#""generationConfig":{"candidate_count":"3"}"#, 3.0),
        (Surface::Gemini, r#""generation_config":{"candidateCount":3}"#, 3.0),
        (Surface::OllamaGenerate, r#""n":1"#, 1.0),
        (Surface::Messages, r#""n":2"#, 2.0),
        (Surface::Embeddings, r#""input":["a","b"]"#, 1.0),
    ] {
        let request = ApiRequest::written(surface, Bytes::from(format!(r#"{{"model":"m",{members}}}"#))).unwrap();
        assert_eq!(request.answers(), answers, "{surface:?} {members}");
    }
}

#[test]
fn what_is_wrong_is_named_and_not_quoted() {
    let table = [
        ("", "the body is not valid JSON: it ends too early at line 1 column 0"),
        ("{\"model\": secret", "the body is not valid JSON: syntax error at line 1 column 11"),
        ("[1]", "the body must be a JSON object"),
        ("\"text\"", "the body must be a JSON object"),
        ("{}", "`model` is missing: name one of GET /v1/models, or an upstream as provider/model"),
        ("{\"model\":\"\"}", "`model` is missing: name one of GET /v1/models, or an upstream as provider/model"),
        ("{\"model\":7}", "`model` must be a string"),
        ("{\"model\":\"a\",\"model\":\"b\"}", "`model` occurs twice in the body"),
        ("{\"model\":\"m\"}", "Missing required parameter: 'messages'."),
        ("{\"model\":\"m\",\"stream\":\"yes\"}", "`stream` must be true or false"),
        ("{\"model\":\"m\",\"stream_options\":7}", "`stream_options` must be an object like {\"include_usage\": true}"),
    ];
    for (body, message) in table {
        assert_eq!(parse(body).unwrap_err().to_string(), message, "{body}");
    }
    assert!(ApiRequest::parse(Surface::Chat, Bytes::from_static(b"{\"model\":\"\xff\"}")).is_err());
}

#[test]
fn nesting_and_size_do_not_matter() {
    let deep = format!(r#"{{"model":"m","messages":[{{}}],"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&deep).is_ok());
}

proptest::proptest! {
    #[test]
    fn every_other_member_is_unchanged(names in proptest::collection::vec("[a-z]{1,3}|stream|stream_options", 0..8), options: bool) {
        let mut names = names;
        names.sort();
        names.dedup();
        let members: Vec<String> = names.iter().map(|name| match name.as_str() {
            "stream" => r#""stream": false"#.to_owned(),
            "stream_options" => r#""stream_options" :{"include_usage":true}"#.to_owned(),
            other => format!(r#""{other}" : [1.50, "{other}"]"#),
        }).collect();
        let body = format!("{{\"model\":\"m\"{}{} }}", if members.is_empty() { "" } else { " , " }, members.join(" , "));
        let sent = body_for(&body, if options { AnswerForm::WithUsage } else { AnswerForm::Streamed });
        let after = super::members(&sent).unwrap();
        let rest: Vec<(String, &str)> = after.iter().filter(|(name, _)| !["model", "stream", "stream_options"].contains(&name.as_ref()))
            .map(|(name, value)| (name.to_string(), *value)).collect();
        let before = super::members(&body).unwrap();
        let expected: Vec<(String, &str)> = before.iter().filter(|(name, _)| !["model", "stream", "stream_options"].contains(&name.as_ref()))
            .map(|(name, value)| (name.to_string(), *value)).collect();
        proptest::prop_assert_eq!(rest, expected);
        proptest::prop_assert_eq!(after.iter().any(|(name, _)| name == "stream_options"), options);
        proptest::prop_assert!(after.iter().filter(|(name, _)| name == "stream").all(|(_, value)| *value == "true"));
    }
}
