//! The likeliest mistakes in a first `config.toml`, each with the text it gets, and the names that models have.

use super::*;

const MISTAKES: [&str; 34] = [
    "[models.gpt-4.1]\nupstreams = [\"openai/gpt-4.1\"]",
    "[models.llama-3.3.1]\nupstreams = [\"groq/llama\"]",
    "[models.meta-llama/llama-3]\nupstreams = [\"groq/llama\"]",
    "[models.llama3:8b]\nupstreams = [\"ollama/llama3:8b\"]",
    "[models.\"my model\"]\nupstreams = [\"groq/llama\"]",
    "[models]\nfast = [\"groq/llama\"]",
    "[model.fast]\nupstreams = [\"groq/llama\"]",
    "[models.fast]\nmodel = \"groq/llama\"",
    "[models.fast]\nupstreams = \"groq/llama\"",
    "[models.fast]\nupstreams = [\"gpt-4o\"]",
    "[models.fast]\nupstreams = [\"gorq/llama\"]",
    "[models.fast]\nupstreams = [groq/llama]",
    "[models.fast]\nupstreams = [\"openai/*\"]",
    "[models.\"*\"]\nupstreams = [\"groq/llama\"]",
    "[providers.groq]\napi_key = \"$GROQ_API_KEY\"",
    "[providers.groq]\napi_key = \"GROQ_API_KEY\"",
    "[providers.groq]\napi_key = ${GROQ_API_KEY}",
    "[providers.groq]\napi_key = “${GROQ_API_KEY}”",
    "[providers.groq]\napi_key = \"${GROQ_API_KEYY}\"",
    "[providers.groq]\nkey = \"${GROQ_API_KEY}\"",
    "[providers.mine]\nbase_url = \"http://10.0.0.7:8000\"",
    "[providers.mine]\nbase_url = \"http://10.0.0.7:8000/v1/chat/completions\"",
    "[providers.mine]\nbase_url = \"10.0.0.7:8000/v1\"",
    "[server]\nport = 8080",
    "[server]\nlisten = 127.0.0.1:8080",
    "[server]\nlisten = \"localhost:8080\"",
    "[server]\nlisten = \"0.0.0.0:8080\"",
    "listen = \"127.0.0.1:8080\"",
    "[race]\ntimeouts = { first_token = 20 }",
    "[race]\nhedge_after = 500",
    "[race]\nbudget = \"10%\"",
    "[users.alice]\ntoken_sha256 = \"2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90\"",
    "[users.alice]\ntoken = \"fifteen-letters\"",
    "[server]\ncors = [\"*\"]",
];

/// Each mistake with its problems, or the warnings about it.
#[test]
fn the_likeliest_mistakes_and_the_text_each_gets() {
    let texts = MISTAKES.map(|mistake| {
        let said = match read(mistake) {
            Err(problems) => problems.list.iter().map(ToString::to_string).collect(),
            Ok(config) => config.warnings.iter().map(|warning| format!("warning: {warning}")).collect::<Vec<_>>(),
        };
        let said = said.iter().filter(|said| !said.contains("no [models]")).map(|said| format!("  → {said}\n"));
        format!("{mistake}\n{}", said.collect::<String>())
    });
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("first_file", texts.join("\n"));
    });
}

#[test]
fn a_model_may_have_any_name_without_spaces() {
    for name in ["gpt-4.1", "meta-llama/Llama-3.3-70B", "llama3:8b", "org/model:free", "🏁", "modèle", &"x".repeat(256)]
    {
        let config = good(&format!("[models.\"{name}\"]\nupstreams = [\"groq/{name}\"]"));
        assert_eq!(config.model(name).map(|model| model.upstreams[0].model.as_str()), Some(name));
    }
    for name in ["my model", " x", "a\\tb", "a,b", "", &"x".repeat(257)] {
        let problems = bad(&format!("[models.\"{name}\"]\nupstreams = [\"groq/x\"]")).to_string();
        assert!(problems.contains("1 to 256 characters without spaces and commas"), "{problems}");
    }
}

#[test]
fn a_name_that_was_split_at_a_dot_is_one_problem() {
    for text in [
        "[models.gpt-4.1]\nupstreams = [\"groq/x\"]",
        "models.gpt-4.1.upstreams = [\"groq/x\"]",
        "models = { gpt-4.1 = { upstreams = [\"groq/x\"] } }",
        "[models.gpt-4]\nupstreams = [\"groq/x\"]\n[models.gpt-4.1]\nupstreams = [\"groq/y\"]",
        "[providers.my.vllm]\nbase_url = \"http://h/v1\"\n[models.m]\nupstreams = [\"my.vllm/x\"]",
        "[users.first.last]\ntoken = \"t\"",
    ] {
        let problems = bad(text).to_string();
        assert!(problems.contains("a name with a dot needs quotes; expected ["), "{problems}");
        assert!(problems.ends_with("\n1 problem"), "{problems}");
    }
}
