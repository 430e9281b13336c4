"""The clients of Goose, which ask models, from its SDK: over chat completions and over messages."""

import asyncio
import json

import goose
import kit
from goose import MessageContent, MessageRole, ProviderMessage
from kit import check, scripted

MODEL = goose.ProviderModelConfig(model_name=kit.MODEL, max_tokens=64)
OPENAI = goose.openai_provider(kit.TOKEN, kit.URL)
ANTHROPIC = goose.anthropic_provider(kit.TOKEN, kit.URL, [])
WEATHER = goose.ProviderTool(name="weather", description="The weather of a city.", input_schema_json=json.dumps(kit.WEATHER))


def user(text):
    return ProviderMessage(role=MessageRole.USER, content=[MessageContent.TEXT(text)])


async def texts(provider):
    stream, said = await provider.stream(MODEL, "Be brief.", [user("Say hello")], []), ""
    while (chunk := await stream.next_chunk()) is not None:
        said += chunk.text if chunk.is_text_chunk() else ""
    return said


def answered(text):
    assert text
    if kit.SCRIPTED:
        kit.has(text, "user=", "Say hello")


def said(completion):
    return "".join(part.text for part in completion.content if part.is_text())


@check
def question():
    answered(said(asyncio.run(OPENAI.complete(MODEL, "Be brief.", [user("Say hello")], []))))


@check
def streamed_question():
    answered(asyncio.run(texts(OPENAI)))


@check
def question_over_messages():
    answered(asyncio.run(texts(ANTHROPIC)))


@check
def list_of_models():
    assert kit.MODEL in [model.name for model in asyncio.run(OPENAI.list_models())]


@scripted
def tool_and_its_result():
    async def run():
        asked = user("What is the weather?")
        first = await OPENAI.complete(MODEL, "Be brief.", [asked], [WEATHER])
        calls = [part for part in first.content if part.is_tool_request()]
        assert calls and {call.name for call in calls} == {"weather"}
        sunny = json.dumps([{"type": "text", "text": "sunny"}])
        results = [MessageContent.TOOL_RESULT(call.id, True, sunny) for call in calls]
        turns = [asked, ProviderMessage(role=MessageRole.ASSISTANT, content=calls),
                 ProviderMessage(role=MessageRole.USER, content=results)]
        return said(await OPENAI.complete(MODEL, "Be brief.", turns, [WEATHER]))
    kit.has(asyncio.run(run()), "sunny")


kit.run()
