"""LiveKit Agents over chat completions."""

import kit
import livekit_checks
from livekit.plugins import openai

livekit_checks.run(lambda model: openai.LLM(model=model, base_url=kit.URL + "/v1", api_key=kit.TOKEN, prompt_cache_key="call-1"))
