"""Haystack over chat completions, with its agent."""

import agent_checks
import kit
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret


def model(**more):
    return OpenAIChatGenerator(model=kit.MODEL, api_base_url=kit.URL + "/v1", api_key=Secret.from_token(kit.TOKEN), max_retries=0,
                               timeout=60, **more)


def ask(text):
    return model().run([ChatMessage.from_user(text)])["replies"][0].text


def stream(text):
    pieces = []
    model(streaming_callback=lambda chunk: pieces.append(chunk.content)).run([ChatMessage.from_user(text)])
    return "".join(pieces)


def use_tool(text):
    agent = Agent(chat_generator=model(), tools=[create_tool_from_function(agent_checks.weather)])
    return agent.run(messages=[ChatMessage.from_user(text)])["messages"][-1].text


agent_checks.run(ask, stream, use_tool)
