//! The common providers: where they are, how a key is sent, and what a hang-up does to the bill.
//!
//! Each `cancel_source` says who claims what `cancel_billing` says. None of it was measured; documents conflict.

use super::{Auth, CancelBilling};

/// What is known of one provider.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// As in `[providers.NAME]`.
    pub name: &'static str,
    /// With the version path, without a slash at the end. Empty: each customer has an address of their own.
    pub base_url: &'static str,
    /// The header that takes the bare key, lower case; none for `authorization: Bearer`.
    pub key_header: Option<&'static str>,
    /// The variable that holds the key by convention; none where no key is needed.
    pub key_variable: Option<&'static str>,
    /// Whether generation and billing stop when the client hangs up.
    pub cancel_billing: CancelBilling,
    /// Who says so, and when.
    pub cancel_source: &'static str,
    /// False where `stream_options` is known to be rejected, or where usage comes unasked and it need not be risked.
    pub stream_options: bool,
    /// What is peculiar about its streams.
    pub note: &'static str,
}

impl Entry {
    /// How a key is sent.
    pub fn auth(&self) -> Auth {
        self.key_header.map_or(Auth::Bearer, |header| Auth::Header(header.to_owned()))
    }

    const fn hosted(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Entry {
        Entry { key_variable: Some(key_variable), ..Entry::local(name, base_url) }
    }

    const fn local(name: &'static str, base_url: &'static str) -> Entry {
        Entry {
            name,
            base_url,
            key_header: None,
            key_variable: None,
            cancel_billing: CancelBilling::Unknown,
            cancel_source: "nobody says, 2026; counted as full price",
            stream_options: true,
            note: "",
        }
    }

    const fn stops(self, cancel_source: &'static str) -> Entry {
        Entry { cancel_billing: CancelBilling::Stops, cancel_source, ..self }
    }

    const fn bills_full(self, cancel_source: &'static str) -> Entry {
        Entry { cancel_billing: CancelBilling::BillsFull, cancel_source, ..self }
    }

    const fn note(self, note: &'static str) -> Entry {
        Entry { note, ..self }
    }
}

/// A router that lists at which of its providers a cancelled stream stops.
const ROUTER: &str = "a router's documentation, not the vendor's own, 2026";
/// Servers whose scheduler drops a request with its connection.
const SERVER: &str = "the server's own behaviour, 2026";

/// Every provider of the catalogue that speaks OpenAI's chat completions.
pub static ENTRIES: [Entry; 25] = [
    Entry::hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
        .stops(ROUTER)
        .note("usage only when asked for, in a last chunk without choices; chunks are padded with `obfuscation`"),
    Entry {
        key_header: Some("api-key"),
        ..Entry::hosted("azure", "", "AZURE_OPENAI_API_KEY").stops(ROUTER).note(
            "base_url is https://RESOURCE.openai.azure.com/openai/v1; the first chunk has prompt filter results and \
                   no choices; the default content filter sends in bursts",
        )
    },
    Entry::hosted("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY")
        .bills_full(ROUTER)
        .note("ignores parameters that it does not know"),
    Entry {
        stream_options: false,
        ..Entry::hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY").bills_full(ROUTER).note(
            "usage comes unasked in the last chunk; content may be an array of parts; errors have their own shape",
        )
    },
    Entry::hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
        .stops(ROUTER)
        .note("keep-alive comments while queued, for up to ten minutes; reasoning in `reasoning_content`"),
    Entry::hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY").stops(ROUTER).note("usage carries the cost in ticks"),
    Entry::hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
        .bills_full(ROUTER)
        .note("usage and the server's own times in `x_groq`; 498 when it is out of capacity"),
    Entry::hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
        .note("the server's own times in `time_info`; reasoning in `reasoning`"),
    Entry::hosted("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY")
        .bills_full(ROUTER)
        .note("several tokens a chunk; the server's own times in the last one"),
    Entry::hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY")
        .stops(ROUTER)
        .note("usage varies by model; error codes of its own: go by the status"),
    Entry::hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY")
        .stops(ROUTER)
        .note("usage unasked in the chunk that finishes; 422 with `detail`"),
    Entry::hosted("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY")
        .stops(ROUTER)
        .note("usage unasked in the last chunk"),
    Entry::hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
        .note("answers 200 and comments before its own upstream commits; usage with cost; errors inside the stream"),
    Entry::hosted("novita", "https://api.novita.ai/openai", "NOVITA_API_KEY")
        .bills_full("its own documentation, against a router's, 2026"),
    Entry::hosted("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY").stops(ROUTER),
    Entry::hosted("nebius", "https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    Entry::hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY")
        .bills_full(ROUTER)
        .note("charges for each search: a lost race is never free"),
    Entry::hosted("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY").stops(ROUTER),
    Entry::hosted("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY")
        .note("errors come as 200 with `base_resp.status_code`; the first chunk has an empty role and reasoning"),
    Entry::local("ollama", "http://127.0.0.1:11434/v1").note("loads the model before the first token"),
    Entry::local("vllm", "http://127.0.0.1:8000/v1").stops(SERVER),
    Entry::local("sglang", "http://127.0.0.1:30000/v1").stops(SERVER).note("null chunks while it reasons"),
    Entry::local("tgi", "http://127.0.0.1:3000/v1"),
    Entry::local("lmstudio", "http://127.0.0.1:1234/v1"),
    Entry::local("llamacpp", "http://127.0.0.1:8080/v1").stops(SERVER).note(
        "notices a hang-up only when it writes, so not during a long prefill; the server's own times in `timings`",
    ),
];

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::raw_provider::base_url_problem;
    use super::*;

    #[test]
    fn entries_are_sound() {
        let names: BTreeSet<_> = ENTRIES.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), ENTRIES.len(), "a name is there twice");
        for entry in &ENTRIES {
            assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{}", entry.name);
            assert!(entry.cancel_source.contains("2026"), "{}", entry.name);
            if !entry.base_url.is_empty() {
                assert_eq!(base_url_problem(entry.base_url), None, "{}", entry.name);
                assert!(!entry.base_url.ends_with('/'), "{}", entry.name);
                assert_eq!(
                    entry.key_variable.is_none(),
                    entry.base_url.starts_with("http://127.0.0.1:"),
                    "{}",
                    entry.name
                );
            }
        }
        let variables: BTreeSet<_> = ENTRIES.iter().filter_map(|entry| entry.key_variable).collect();
        assert_eq!(variables.len(), 19);
    }
}
