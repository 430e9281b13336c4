"""LiveKit Agents over the WebSocket of the Responses API, whose address has its whole path."""

import kit
import livekit_checks
from livekit.plugins import openai

livekit_checks.run(lambda model: openai.responses.LLM(model=model, base_url=kit.URL + "/v1/responses", api_key=kit.TOKEN))
