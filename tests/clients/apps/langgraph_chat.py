"""A LangGraph agent over chat completions."""

import agent_checks
import kit
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

MODEL = ChatOpenAI(model=kit.MODEL, base_url=kit.URL + "/v1", api_key=kit.TOKEN, max_retries=0, timeout=60)


def turn(text):
    return {"messages": [{"role": "user", "content": text}]}


def last(agent, text):
    return agent.invoke(turn(text))["messages"][-1].text


def ask(text):
    return last(create_agent(MODEL, tools=[], system_prompt="Be brief."), text)


def stream(text):
    agent = create_agent(MODEL, tools=[], system_prompt="Be brief.")
    return "".join(chunk.text for chunk, _ in agent.stream(turn(text), stream_mode="messages"))


def use_tool(text):
    return last(create_agent(MODEL, tools=[tool(agent_checks.weather)]), text)


def structured(text):
    return create_agent(MODEL, tools=[], response_format=agent_checks.City).invoke(turn(text))["structured_response"]


agent_checks.run(ask, stream, use_tool, structured)
