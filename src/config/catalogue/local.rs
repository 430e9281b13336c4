//! Servers that somebody runs for themselves, at the port that each has by itself. None asks for a key unless it is told to;
//! then it takes a bearer.

use super::{CatalogueEntry, Continues, KeyIn, RECORDED, SERVER, ServedDialect};
use crate::protocol::Dialect;

const OLLAMA: &str = "http://127.0.0.1:11434/v1";
const VLLM: &str = "http://127.0.0.1:8000/v1";
const SGLANG: &str = "http://127.0.0.1:30000/v1";
const LMSTUDIO: &str = "http://127.0.0.1:1234/v1";
const LLAMACPP: &str = "http://127.0.0.1:8080/v1";
const VLLM_DOCS: &str = "https://docs.vllm.ai/en/stable/serving/openai_compatible_server";
const LLAMACPP_README: &str = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md";

pub(super) static ENTRIES: [CatalogueEntry; 6] = [
    CatalogueEntry::local(
        "ollama",
        &[
            ServedDialect::openai(OLLAMA, "https://docs.ollama.com/api/openai-compatibility"),
            ServedDialect::responses(OLLAMA, "https://docs.ollama.com/api/openai-compatibility"),
            ServedDialect::anthropic(OLLAMA, "https://docs.ollama.com/api/anthropic-compatibility")
                .key_in(KeyIn::Bearer),
            ServedDialect {
                dialect: Dialect::Ollama,
                ..ServedDialect::openai("http://127.0.0.1:11434", "https://docs.ollama.com/api/chat")
            },
        ],
    )
    .note("loads the model before the first token", RECORDED),
    CatalogueEntry::local(
        "vllm",
        &[
            ServedDialect::openai(VLLM, VLLM_DOCS),
            ServedDialect::responses(VLLM, VLLM_DOCS),
            ServedDialect::anthropic(VLLM, "https://docs.vllm.ai/en/stable/api/vllm/entrypoints/anthropic/serving")
                .key_in(KeyIn::Bearer),
        ],
    )
    .stops(SERVER)
    .takes_thoughts("https://docs.vllm.ai/en/stable/features/reasoning_outputs, 2026")
    .continues(
        Continues::With("continue_final_message"),
        "https://docs.vllm.ai/en/stable/serving/openai_compatible_server, 2026: with `add_generation_prompt: false`",
    ),
    CatalogueEntry::local(
        "sglang",
        &[
            ServedDialect::openai(SGLANG, "https://docs.sglang.io/docs/basic_usage/openai_api"),
            ServedDialect::anthropic(SGLANG, "https://docs.sglang.io/docs/basic_usage/anthropic_api")
                .key_in(KeyIn::Bearer),
        ],
    )
    .stops(SERVER)
    .takes_thoughts("the server's source, 2026")
    .note("null chunks while it reasons", "the server's source, 2026"),
    CatalogueEntry::local(
        "tgi",
        &[ServedDialect::openai(
            "http://127.0.0.1:3000/v1",
            "https://huggingface.co/docs/text-generation-inference/messages_api",
        )],
    ),
    CatalogueEntry::local(
        "lmstudio",
        &[
            ServedDialect::openai(LMSTUDIO, "https://lmstudio.ai/docs/developer/openai-compat"),
            ServedDialect::responses(LMSTUDIO, "https://lmstudio.ai/docs/developer/openai-compat"),
            ServedDialect::anthropic(LMSTUDIO, "https://lmstudio.ai/docs/developer/anthropic-compat")
                .key_in(KeyIn::Bearer),
        ],
    ),
    CatalogueEntry::local(
        "llamacpp",
        &[
            ServedDialect::openai(LLAMACPP, LLAMACPP_README),
            ServedDialect::responses(LLAMACPP, LLAMACPP_README),
            ServedDialect::anthropic(LLAMACPP, LLAMACPP_README).key_in(KeyIn::Bearer),
        ],
    )
    .stops(SERVER)
    .takes_thoughts("the server's source, 2026")
    .continues(Continues::Yes, "the server's `--prefill-assistant`, on by default, 2026; not while the model thinks")
    .note(
        "notices a hang-up only when it writes, so not during a long prefill; the server's own times in `timings`",
        "the server's source and recorded streams, 2026",
    ),
];
