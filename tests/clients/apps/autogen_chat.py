"""AutoGen's assistant over chat completions. It sends a `name` with its messages."""

import asyncio

import agent_checks
import kit
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def run(text, stream=False, **more):
    async def go():
        client = OpenAIChatCompletionClient(model=kit.MODEL, base_url=kit.URL + "/v1", api_key=kit.TOKEN, model_info=INFO, max_retries=0)
        agent = AssistantAgent("assistant", model_client=client, model_client_stream=stream, **more)
        result = await agent.run(task=text)
        await client.close()
        return result.messages[-1].content

    return asyncio.run(go())


def structured(text):
    return run(text, output_content_type=agent_checks.City)


agent_checks.run(run, lambda text: run(text, stream=True), lambda text: run(text, tools=[agent_checks.weather], reflect_on_tool_use=True),
                 structured)
