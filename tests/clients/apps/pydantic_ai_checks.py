"""The checks of Pydantic AI, the same for each of its models."""

import asyncio

import agent_checks
from pydantic_ai import Agent


def run(model):
    def agent(**more):
        return Agent(model, system_prompt="Be brief.", retries=0, **more)

    def ask(text):
        return agent().run_sync(text).output

    def stream(text):
        async def run():
            async with agent().run_stream(text) as result:
                return await result.get_output()

        return asyncio.run(run())

    def use_tool(text):
        return agent(tools=[agent_checks.weather]).run_sync(text).output

    def structured(text):
        return agent(output_type=agent_checks.City).run_sync(text).output

    agent_checks.run(ask, stream, use_tool, structured)
