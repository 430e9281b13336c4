//! The model makers with APIs of their own, and the clouds that sell their models.

use super::{CatalogueEntry, Continues, KeyIn, RECORDED, ROUTER, ServedDialect, fact};
use crate::config::CancelBilling;
use crate::protocol::Dialect;

const OPENAI: &str = "https://api.openai.com/v1";
const NEW_CLAUDES: &str = "refused with a 400 since Claude 4.6, taken by older models, 2026: \
                           https://platform.claude.com/docs/en/about-claude/models/migration-guide";

pub(super) static ENTRIES: [CatalogueEntry; 6] = [
    CatalogueEntry::hosted(
        "openai",
        &[
            ServedDialect::openai(OPENAI, "https://platform.openai.com/docs/api-reference/chat"),
            ServedDialect::responses(OPENAI, "https://platform.openai.com/docs/api-reference/responses"),
        ],
        "OPENAI_API_KEY",
    )
    .stops(ROUTER)
    .max_completion_tokens("https://platform.openai.com/docs/api-reference/chat/create, 2026: max_tokens is deprecated")
    .note("usage only when asked for, in a last chunk without choices; chunks are padded with `obfuscation`", RECORDED),
    CatalogueEntry::hosted(
        "anthropic",
        &[
            ServedDialect::anthropic("https://api.anthropic.com/v1", "https://platform.claude.com/docs/en/api/messages"),
            ServedDialect::openai("https://api.anthropic.com/v1", "https://platform.claude.com/docs/en/api/openai-sdk")
                .only_if_named(),
        ],
        "ANTHROPIC_API_KEY",
    )
    .stops(ROUTER)
    .continues(Continues::Unknown, NEW_CLAUDES)
    .note("usage of the prompt in the first event; an error may come in a 200; 529 when it is overloaded", RECORDED),
    CatalogueEntry::hosted(
        "gemini",
        &[
            ServedDialect::gemini(
                "https://generativelanguage.googleapis.com/v1beta",
                "https://ai.google.dev/api/generate-content",
            ),
            ServedDialect::openai(
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "https://ai.google.dev/gemini-api/docs/openai",
            ),
        ],
        "GEMINI_API_KEY",
    )
    .bills_full(ROUTER)
    .note("the OpenAI form ignores parameters that it does not know; a blocked prompt has no candidates", RECORDED),
    CatalogueEntry::hosted(
        "vertex",
        &[
            ServedDialect::gemini(
                "https://{host}/v1/projects/{project}/locations/{location}/publishers/google",
                "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference",
            )
            .key_in(KeyIn::Bearer),
            ServedDialect::openai(
                "https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi",
                "https://cloud.google.com/vertex-ai/generative-ai/docs/migrate/openai/overview",
            )
            .only_if_named(),
        ],
        "VERTEX_ACCESS_TOKEN",
    )
    .bills_full(ROUTER)
    .note("keys are tokens that live for an hour; in the OpenAI form models begin with `google/`", RECORDED),
    CatalogueEntry {
        cancel_billing: fact(CancelBilling::BillsFull, "seen on a bill, and in a router's documentation, 2026"),
        ..CatalogueEntry::hosted(
            "bedrock",
            &[ServedDialect {
                dialect: Dialect::Bedrock,
                base_url: "https://bedrock-runtime.{region}.amazonaws.com",
                auth: KeyIn::SigV4,
                only_if_named: false,
                source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html",
            }],
            "AWS_BEARER_TOKEN_BEDROCK",
        )
        .continues(Continues::Unknown, NEW_CLAUDES)
        .note("a binary event stream; errors come as exception frames in a 200; usage in the last frame", RECORDED)
    },
    CatalogueEntry::hosted(
        "azure",
        &[
            ServedDialect::openai("", "https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle")
                .key_in(KeyIn::Header("api-key")),
            ServedDialect::responses("", "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses")
                .key_in(KeyIn::Header("api-key")),
        ],
        "AZURE_OPENAI_API_KEY",
    )
    .stops(ROUTER)
    .max_completion_tokens("https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning, 2026")
    .note(
        "base_url is https://RESOURCE.openai.azure.com/openai/v1; the first chunk has prompt filter results and no choices; \
         the default content filter sends in bursts",
        RECORDED,
    ),
];
