"""The OpenAI Agents SDK, over the Responses API."""

import asyncio

import agent_checks
import kit
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
OPTIONS = {"base_url": kit.URL + "/v1", "api_key": kit.TOKEN, "max_retries": 0, "timeout": 60}


def agent(**more):
    model = OpenAIResponsesModel(kit.MODEL, AsyncOpenAI(**OPTIONS))
    return Agent(name="assistant", instructions="Be brief.", model=model, **more)


def ask(text):
    return Runner.run_sync(agent(), text).final_output


def stream(text):
    async def run():
        result = Runner.run_streamed(agent(), text)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(run())


def use_tool(text):
    return Runner.run_sync(agent(tools=[function_tool(agent_checks.weather)]), text).final_output


def structured(text):
    return Runner.run_sync(agent(output_type=agent_checks.City), text).final_output


agent_checks.run(ask, stream, use_tool, structured)
