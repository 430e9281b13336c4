"""Pydantic AI over chat completions."""

import kit
import pydantic_ai_checks
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

pydantic_ai_checks.run(OpenAIChatModel(kit.MODEL, provider=OpenAIProvider(base_url=kit.URL + "/v1", api_key=kit.TOKEN)))
