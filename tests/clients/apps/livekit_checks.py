"""An agent of LiveKit over one of its LLMs, in text: its session asks, runs tools and is interrupted as in a call."""

import asyncio
import time

import agent_checks
import kit
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.utils import http_context


def run(model, **more):
    """`model` makes the LLM, of the model of this name."""

    async def turn(text, tools=()):
        session = AgentSession(llm=model(kit.MODEL))
        await session.start(Agent(instructions="Be brief.", tools=list(tools)))
        result = await session.run(user_input=text)
        said = [event.item.text_content for event in result.events if event.type == "message" and event.item.role == "assistant"]
        await session.aclose()
        return said[-1]

    async def interrupted():
        session = AgentSession(llm=model(kit.LONG_MODEL))
        await session.start(Agent(instructions="Be brief."))
        speech = session.generate_reply(user_input="count to 2000")
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await session.interrupt(force=True)
        await speech
        assert speech.interrupted, "it was over"
        assert time.monotonic() - began < 5
        await session.aclose()

    def go(turn):
        async def with_http():
            http_context._new_session_ctx()
            try:
                return await turn
            finally:
                await http_context._close_http_ctx()

        return asyncio.run(with_http())

    @kit.check
    def a_caller_who_interrupts():
        go(interrupted())

    async def weather(city: str):
        """The weather of a city.

        Args:
            city: The name of the city.
        """
        return agent_checks.weather(city)

    tool = function_tool(weather)
    agent_checks.run(lambda text: go(turn(text)), use_tool=lambda text: go(turn(text, [tool])), **more)
