"""LlamaIndex over chat completions, with its function agent."""

import asyncio

import agent_checks
import kit
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

MODEL = OpenAILike(model=kit.MODEL, api_base=kit.URL + "/v1", api_key=kit.TOKEN, is_chat_model=True, is_function_calling_model=True,
                   max_retries=0, timeout=60)


def ask(text):
    return MODEL.chat([ChatMessage(role="user", content=text)]).message.content


def stream(text):
    return "".join(chunk.delta or "" for chunk in MODEL.stream_chat([ChatMessage(role="user", content=text)]))


def use_tool(text):
    async def run():
        return str(await FunctionAgent(tools=[agent_checks.weather], llm=MODEL).run(text))

    return asyncio.run(run())


agent_checks.run(ask, stream, use_tool)
