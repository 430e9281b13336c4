//! The names that models have.

use super::*;

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
