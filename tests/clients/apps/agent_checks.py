"""The checks of the agent frameworks: a question, a streamed one, a tool that the framework runs, and structured output."""

import pydantic

import kit
from kit import check, scripted


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    return "sunny" if city == "Paris" else "cloudy"


class City(pydantic.BaseModel):
    """A city."""

    city: str
    celsius: int


def run(ask, stream=None, use_tool=None, structured=None):
    """Each takes a text. `ask` and `stream` give the answer's text, `use_tool` the text after `weather` has run, and
    `structured` a `City`."""

    @check
    def question():
        text = ask("Say hello")
        assert text
        if kit.SCRIPTED:
            kit.has(text, "user=", "Say hello")

    if stream:
        @check
        def streamed_question():
            text = stream("Say hello")
            assert text
            if kit.SCRIPTED:
                kit.has(text, "user=", "Say hello")

    if use_tool:
        @scripted
        def tool_run_for_the_model():
            kit.has(use_tool("What is the weather?"), "sunny")

    if structured:
        @scripted
        def structured_output():
            assert structured("Say hello") == City(city="Paris", celsius=21)

    kit.run()
