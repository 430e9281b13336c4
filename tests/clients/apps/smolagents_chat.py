"""Hugging Face's smolagents over chat completions."""

import agent_checks
import kit
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

MODEL = OpenAIServerModel(kit.MODEL, api_base=kit.URL + "/v1", api_key=kit.TOKEN)


def messages(text):
    return [{"role": "user", "content": [{"type": "text", "text": text}]}]


def ask(text):
    return MODEL.generate(messages(text)).content


def stream(text):
    return "".join(delta.content or "" for delta in MODEL.generate_stream(messages(text)))


def use_tool(text):
    agent = ToolCallingAgent(tools=[tool(agent_checks.weather)], model=MODEL, max_steps=3, verbosity_level=0)
    agent.run(text, return_full_result=True)
    return " ".join(str(getattr(step, "observations", "")) for step in agent.memory.steps)


agent_checks.run(ask, stream, use_tool)
