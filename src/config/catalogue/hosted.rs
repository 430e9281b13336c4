//! Hosts of open models, and vendors that speak somebody else's dialect.

use super::{CatalogueEntry, Continues, KeyIn, RECORDED, ROUTER, ServedDialect};

/// What the vendors' pages told in 2026 of their streams.
const PAGES: &str = "the vendor's documentation, 2026";
const GROQ: &str = "https://api.groq.com/openai/v1";
const OPENROUTER: &str = "https://openrouter.ai/api/v1";
const FIREWORKS: &str = "https://api.fireworks.ai/inference/v1";
const COMPATIBLE: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

pub(super) static ENTRIES: [CatalogueEntry; 21] = [
    CatalogueEntry::hosted(
        "mistral",
        &[ServedDialect::openai("https://api.mistral.ai/v1", "https://docs.mistral.ai/api")],
        "MISTRAL_API_KEY",
    )
    .bills_full(ROUTER)
    .continues(Continues::With("prefix"), "https://docs.mistral.ai/guides/prefix, 2026: `prefix: true` in the message")
    .without_stream_options(RECORDED)
    .note(
        "usage comes unasked in the last chunk; content may be an array of parts; errors have their own shape",
        RECORDED,
    ),
    CatalogueEntry::hosted(
        "deepseek",
        &[
            ServedDialect::openai("https://api.deepseek.com", "https://api-docs.deepseek.com"),
            ServedDialect::anthropic(
                "https://api.deepseek.com/anthropic/v1",
                "https://api-docs.deepseek.com/guides/anthropic_api",
            ),
        ],
        "DEEPSEEK_API_KEY",
    )
    .stops(ROUTER)
    .continues(Continues::No, "only under /beta, 2026: https://api-docs.deepseek.com/guides/chat_prefix_completion")
    .takes_thoughts("https://api-docs.deepseek.com/guides/thinking_mode, 2026: wanted back within a run of tools")
    .note("keep-alive comments while queued, for up to ten minutes; reasoning in `reasoning_content`", RECORDED),
    CatalogueEntry::hosted(
        "xai",
        &[
            ServedDialect::openai("https://api.x.ai/v1", "https://docs.x.ai/docs/api-reference"),
            ServedDialect::responses("https://api.x.ai/v1", "https://docs.x.ai/docs/api-reference"),
        ],
        "XAI_API_KEY",
    )
    .stops(ROUTER)
    .note("usage carries the cost in ticks; its form of Anthropic's messages is deprecated", RECORDED),
    CatalogueEntry::hosted(
        "groq",
        &[
            ServedDialect::openai(GROQ, "https://console.groq.com/docs/openai"),
            ServedDialect::responses(GROQ, "https://console.groq.com/docs/responses-api"),
        ],
        "GROQ_API_KEY",
    )
    .bills_full(ROUTER)
    .continues(Continues::Yes, "https://console.groq.com/docs/prefilling, 2026")
    .note("usage and the server's own times in `x_groq`; 498 when it is out of capacity", RECORDED),
    CatalogueEntry::hosted(
        "cerebras",
        &[ServedDialect::openai("https://api.cerebras.ai/v1", "https://inference-docs.cerebras.ai/resources/openai")],
        "CEREBRAS_API_KEY",
    )
    .warming(
        "its own SDK opens a connection when it is made, 2026: https://github.com/Cerebras/cerebras-cloud-sdk-node",
    )
    .note("the server's own times in `time_info`; reasoning in `reasoning`", PAGES),
    CatalogueEntry::hosted(
        "sambanova",
        &[ServedDialect::openai("https://api.sambanova.ai/v1", "https://docs.sambanova.ai/cloud/api-reference")],
        "SAMBANOVA_API_KEY",
    )
    .bills_full(ROUTER)
    .note("several tokens a chunk; the server's own times in the last one", PAGES),
    CatalogueEntry::hosted(
        "together",
        &[ServedDialect::openai("https://api.together.xyz/v1", "https://docs.together.ai/docs/openai-api-compatibility")],
        "TOGETHER_API_KEY",
    )
    .stops(ROUTER)
    .note("usage varies by model; error codes of its own: go by the status", RECORDED),
    CatalogueEntry::hosted(
        "fireworks",
        &[
            ServedDialect::openai(FIREWORKS, "https://docs.fireworks.ai/api-reference/post-chatcompletions"),
            ServedDialect::responses(FIREWORKS, "https://docs.fireworks.ai/api-reference/post-responses"),
            ServedDialect::anthropic(FIREWORKS, "https://docs.fireworks.ai/tools-sdks/anthropic-compatibility"),
        ],
        "FIREWORKS_API_KEY",
    )
    .stops(ROUTER)
    .note("usage unasked in the chunk that finishes; 422 with `detail`", PAGES),
    CatalogueEntry::hosted(
        "deepinfra",
        &[ServedDialect::openai("https://api.deepinfra.com/v1/openai", "https://deepinfra.com/docs/openai_api")],
        "DEEPINFRA_API_KEY",
    )
    .stops(ROUTER)
    .note("usage unasked in the last chunk", PAGES),
    CatalogueEntry::hosted(
        "openrouter",
        &[
            ServedDialect::openai(OPENROUTER, "https://openrouter.ai/docs/api-reference/overview"),
            ServedDialect::responses(OPENROUTER, "https://openrouter.ai/docs/api-reference/responses-api/overview"),
            ServedDialect::anthropic(
                OPENROUTER,
                "https://openrouter.ai/docs/api/api-reference/anthropic-messages/create-messages",
            )
            .key_in(KeyIn::Bearer),
        ],
        "OPENROUTER_API_KEY",
    )
    .note(
        "answers 200 and comments before its own upstream commits; usage with cost; errors inside the stream",
        RECORDED,
    ),
    CatalogueEntry::hosted(
        "novita",
        &[ServedDialect::openai("https://api.novita.ai/openai", "https://novita.ai/docs/guides/llm-api")],
        "NOVITA_API_KEY",
    )
    .bills_full("its own documentation, against a router's, 2026"),
    CatalogueEntry::hosted(
        "hyperbolic",
        &[ServedDialect::openai("https://api.hyperbolic.xyz/v1", "https://docs.hyperbolic.xyz/docs/rest-api")],
        "HYPERBOLIC_API_KEY",
    )
    .stops(ROUTER),
    CatalogueEntry::hosted(
        "nebius",
        &[ServedDialect::openai("https://api.studio.nebius.com/v1", "https://docs.nebius.com/studio/inference/api")],
        "NEBIUS_API_KEY",
    ),
    CatalogueEntry::hosted(
        "perplexity",
        &[
            ServedDialect::openai("https://api.perplexity.ai", "https://docs.perplexity.ai/api-reference"),
            ServedDialect::responses(
                "https://api.perplexity.ai/v1",
                "https://docs.perplexity.ai/docs/agent-api/openai-compatibility",
            ),
        ],
        "PERPLEXITY_API_KEY",
    )
    .bills_full(ROUTER)
    .note(
        "charges for each search: a lost race is never free; chat completions are said to have ended in September 2026",
        PAGES,
    ),
    CatalogueEntry::hosted(
        "cohere",
        &[ServedDialect::openai("https://api.cohere.ai/compatibility/v1", "https://docs.cohere.com/docs/compatibility-api")],
        "COHERE_API_KEY",
    )
    .stops(ROUTER),
    CatalogueEntry::hosted(
        "minimax",
        &[
            ServedDialect::openai(
                "https://api.minimax.io/v1",
                "https://platform.minimax.io/docs/api-reference/text-openai-api",
            ),
            ServedDialect::anthropic(
                "https://api.minimax.io/anthropic/v1",
                "https://platform.minimax.io/docs/api-reference/text-anthropic-api",
            ),
        ],
        "MINIMAX_API_KEY",
    )
    .note("errors come as 200 with `base_resp.status_code`; the first chunk has an empty role and reasoning", PAGES),
    CatalogueEntry::hosted(
        "zai",
        &[ServedDialect::openai("https://api.z.ai/api/paas/v4", "https://docs.z.ai/api-reference/introduction")],
        "ZAI_API_KEY",
    )
    .takes_thoughts("https://docs.z.ai/guides/capabilities/thinking-mode, 2026")
    .note("reasoning in `reasoning_content`", RECORDED),
    CatalogueEntry::hosted(
        "alibaba",
        &[
            ServedDialect::openai(
                COMPATIBLE,
                "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
            ),
            ServedDialect::anthropic(
                "https://dashscope-intl.aliyuncs.com/apps/anthropic/v1",
                "https://www.alibabacloud.com/help/doc-detail/2980295.html",
            ),
        ],
        "DASHSCOPE_API_KEY",
    )
    .note("the address is that of Singapore; reasoning in `reasoning_content`", RECORDED),
    CatalogueEntry::hosted(
        "huggingface",
        &[ServedDialect::openai("https://router.huggingface.co/v1", "https://huggingface.co/docs/inference-providers")],
        "HF_TOKEN",
    )
    .note("a router: two upstreams behind it may be the same machine as one named directly", RECORDED),
    CatalogueEntry::hosted(
        "moonshot",
        &[ServedDialect::openai("https://api.moonshot.ai/v1", "https://platform.moonshot.ai/docs/api/chat")],
        "MOONSHOT_API_KEY",
    )
    .takes_thoughts(
        "https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model, 2026: wanted back within a run of tools",
    )
    .continues(
        Continues::With("partial"),
        "https://platform.moonshot.ai/docs/api/partial, 2026: `partial: true` in the message",
    ),
    CatalogueEntry::hosted(
        "snowflake",
        &[ServedDialect::openai("", "https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api")],
        "SNOWFLAKE_PAT",
    )
    .max_completion_tokens("https://github.com/anomalyco/opencode/issues/29900, 2026")
    .omits_finish_reason("https://github.com/truera/trulens/pull/2240, 2026: not returned by Cortex's REST API")
    .note("base_url is https://ACCOUNT.snowflakecomputing.com/api/v2/cortex/v1; no finish reason, so a cut answer cannot be told", PAGES),
];
