"""Semantic Kernel's chat agent over chat completions. It sends a `name` with its messages."""

import asyncio

import agent_checks
import kit
from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Weather:
    @kernel_function(name="weather", description="The weather of a city.")
    def weather(self, city: str) -> str:
        return agent_checks.weather(city)


def agent(**more):
    client = AsyncOpenAI(base_url=kit.URL + "/v1", api_key=kit.TOKEN, max_retries=0, timeout=60)
    service = OpenAIChatCompletion(ai_model_id=kit.MODEL, async_client=client)
    return ChatCompletionAgent(service=service, name="assistant", instructions="Be brief.", **more)


def ask(text, **more):
    async def run():
        return str(await agent(**more).get_response(messages=text))

    return asyncio.run(run())


def stream(text):
    async def run():
        return "".join([str(chunk) async for chunk in agent().invoke_stream(messages=text)])

    return asyncio.run(run())


agent_checks.run(ask, stream, lambda text: ask(text, plugins=[Weather()]))
