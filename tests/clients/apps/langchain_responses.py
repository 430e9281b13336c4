"""LangChain's ChatOpenAI over the Responses API."""

import kit
import langchain_checks
from langchain_openai import ChatOpenAI

OPTIONS = {"base_url": kit.URL + "/v1", "api_key": kit.TOKEN, "max_retries": 0, "timeout": 60, "use_responses_api": True}
langchain_checks.run(lambda model, most: ChatOpenAI(model=model, max_tokens=most, **OPTIONS), {"method": "json_schema"})
