"""The checks of LangChain, the same for each of its chat models."""

import asyncio

import kit
import pydantic
from kit import check, scripted
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

TURNS = [SystemMessage("Be brief."), HumanMessage("Say hello")]


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny" if city == "Paris" else "cloudy"


class City(pydantic.BaseModel):
    """A city."""

    city: str
    celsius: int


def run(make, structured):
    """`make` returns the chat model for a name and a maximum of tokens; `structured` are the options of structured
    output."""
    chat = make(kit.MODEL, 24)

    @check
    def invoke():
        answer = chat.invoke(TURNS)
        assert answer.text and answer.usage_metadata["input_tokens"] > 0 and answer.usage_metadata["output_tokens"] > 0, answer
        if kit.SCRIPTED:
            kit.has(answer.text, "system=Be brief.", "user=Say hello", "max=24")

    @check
    def stream():
        whole = None
        for chunk in chat.stream(TURNS):
            whole = chunk if whole is None else whole + chunk
        assert whole.text and whole.usage_metadata["output_tokens"] > 0, whole

    @check
    def batch_of_four_at_once():
        answers = asyncio.run(chat.abatch([[HumanMessage(f"Say {number}")] for number in range(4)]))
        assert len(answers) == 4 and all(answer.text for answer in answers)

    @check
    def abort():
        for chunk in make(kit.LONG_MODEL, 4000).stream("count to 2000"):
            if chunk.text:
                break

    @scripted
    def tools_round_trip():
        turns = [HumanMessage("The weather of Paris and Rome?")]
        bound = make(kit.MODEL, 4000).bind_tools([weather])
        first = bound.invoke(turns)
        assert [call["args"]["city"] for call in first.tool_calls] == ["Paris", "Rome"], first
        streamed = None
        for chunk in bound.stream(turns):
            streamed = chunk if streamed is None else streamed + chunk
        assert [call["args"]["city"] for call in streamed.tool_calls] == ["Paris", "Rome"], streamed
        results = [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
        kit.has(bound.invoke([*turns, first, *results]).text, "calls=2", "sunny", "cloudy")

    @scripted
    def structured_output():
        assert make(kit.MODEL, 4000).with_structured_output(City, **structured).invoke("Say hello") == City(city="Paris", celsius=21)

    @scripted
    def image():
        content = [{"type": "text", "text": "What is this?"}, {"type": "image", "base64": kit.PNG, "mime_type": "image/png"}]
        kit.has(chat.invoke([HumanMessage(content)]).text, "images=1")

    kit.run()
