"""Pydantic AI over Anthropic's messages."""

import kit
import pydantic_ai_checks
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

pydantic_ai_checks.run(AnthropicModel(kit.MODEL, provider=AnthropicProvider(base_url=kit.URL, api_key=kit.TOKEN)))
