"""LangChain's ChatOpenAI over chat completions, and its embeddings."""

import kit
import langchain_checks
from kit import check
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

OPTIONS = {"base_url": kit.URL + "/v1", "api_key": kit.TOKEN, "max_retries": 0, "timeout": 60}


@check
def embeddings():
    if "openai" in kit.DIALECTS:
        # Without the length check, which would load a tokenizer from the network.
        embedder = OpenAIEmbeddings(model=kit.EMBEDDER, check_embedding_ctx_length=False, **OPTIONS)
        assert len(embedder.embed_documents(["hello", "world"])) == 2


langchain_checks.run(lambda model, most: ChatOpenAI(model=model, max_tokens=most, stream_usage=True, **OPTIONS),
                     {"method": "json_schema"})
