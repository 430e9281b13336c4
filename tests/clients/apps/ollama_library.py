"""Ollama's library for Python: chat, generate, embed, and what it asks about models."""

import asyncio
import base64

import kit
import ollama
import pydantic
from kit import check, scripted

HEADERS = {"authorization": f"Bearer {kit.TOKEN}"}
client = ollama.Client(host=kit.URL, headers=HEADERS, timeout=60)
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello"}]
WEATHER = [{"role": "user", "content": "The weather of Paris and Rome?"}]
SHORT = {"num_predict": 24, "temperature": 0.5}


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    return "sunny" if city == "Paris" else "cloudy"


class City(pydantic.BaseModel):
    city: str
    celsius: int


def ask(messages=TURNS, **more):
    return client.chat(model=kit.MODEL, messages=messages, **{"options": SHORT} | more)


def finished(response):
    assert response.done and response.done_reason in ("stop", "length"), response
    assert response.prompt_eval_count > 0 and response.eval_count > 0 and response.created_at, response
    return response


def good(response):
    message = finished(response).message
    assert message.role == "assistant", message
    return message.content


@check
def models_list_and_show():
    assert kit.MODEL in [model.model for model in client.list().models]
    shown = client.show(kit.MODEL)
    assert {"completion", "tools"} <= set(shown.capabilities), shown


@check
def chat_whole():
    response = ask()
    text = good(response)
    assert text and response.model
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "max=24", "temperature=0.5")
        assert response.eval_count == 7 and response.total_duration >= 0, response


@check
def chat_stream():
    lines = list(ask(stream=True))
    assert not any(line.done for line in lines[:-1])
    finished(lines[-1])
    text = "".join(line.message.content or "" for line in lines)
    assert text
    if kit.SCRIPTED:
        kit.has(text, "user=Say hello", "max=24")


@check
def chat_async_whole_and_streamed():
    async def run():
        other = ollama.AsyncClient(host=kit.URL, headers=HEADERS)
        whole = await other.chat(model=kit.MODEL, messages=TURNS, options=SHORT)
        stream = await other.chat(model=kit.MODEL, messages=TURNS, options=SHORT, stream=True)
        return good(whole), "".join([line.message.content or "" async for line in stream])

    whole, streamed = asyncio.run(run())
    assert whole and streamed


@check
def chat_abort():
    stream = client.chat(model=kit.LONG_MODEL, messages=[{"role": "user", "content": "count to 2000"}], options={"num_predict": 4000}, stream=True)
    for line in stream:
        if line.message.content:
            break
    stream.close()


@check
def generate_whole_and_streamed():
    asked = {"model": kit.MODEL, "prompt": "Say hello", "system": "Be brief.", "options": SHORT}
    text = finished(client.generate(**asked)).response
    lines = list(client.generate(**asked, stream=True))
    finished(lines[-1])
    assert text and "".join(line.response for line in lines)
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "max=24")


@check
def model_loaded_and_unloaded():
    # Without a prompt: Ollama's clients load and unload a model so.
    assert client.generate(model=kit.MODEL).done_reason == "load"
    assert client.chat(model=kit.MODEL, messages=[], keep_alive=0).done_reason == "unload"


@scripted
def embeddings():
    if kit.DIALECTS == ["ollama"]:
        answer = client.embed(model=kit.MODEL, input=["hello", "world"])
        assert len(answer.embeddings) == 2 and answer.prompt_eval_count > 0, answer


def raised(status, call):
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status and error.error, (error.status_code, error.error)
        return error
    raise AssertionError(f"no error {status}")


@check
def errors():
    unknown = {"model": "no-such-model", "messages": TURNS}
    kit.has(raised(404, lambda: client.chat(**unknown)).error, "no-such-model")
    raised(404, lambda: list(client.chat(**unknown, stream=True)))
    raised(404, lambda: client.generate(model="no-such-model", prompt="Say hello"))
    raised(404, lambda: client.show("no-such-model"))
    if not kit.TRIES_WRONG_TOKEN:
        return
    stranger = ollama.Client(host=kit.URL, headers={"authorization": "Bearer wrong"})
    raised(401, lambda: stranger.chat(model=kit.MODEL, messages=TURNS))


@scripted
def upstream_error():
    failing = [{"role": "user", "content": "fail now"}]
    kit.has(raised(400, lambda: ask(failing)).error, "told to fail")
    kit.has(raised(400, lambda: list(ask(failing, stream=True))).error, "told to fail")


def second_turn(message, calls):
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})], calls
    results = [{"role": "tool", "tool_name": call.function.name, "content": weather(**call.function.arguments)} for call in calls]
    kit.has(good(ask([*WEATHER, message, *results], tools=[weather])), "calls=2", "sunny", "cloudy", "tools=1")


@scripted
def tools_whole_round_trip():
    message = ask(WEATHER, tools=[weather]).message
    second_turn(message, message.tool_calls)


@scripted
def tools_stream_round_trip():
    calls = [call for line in ask(WEATHER, tools=[weather], stream=True) for call in line.message.tool_calls or []]
    second_turn({"role": "assistant", "content": "", "tool_calls": calls}, calls)


@scripted
def image_and_stop():
    stops = {} if "responses" in kit.DIALECTS else {"stop": ["END"]}  # Responses has no stop sequences
    asked = [{"role": "user", "content": "What is this?", "images": [base64.b64decode(kit.PNG)]}]
    kit.has(good(ask(asked, options=SHORT | stops)), "images=1", f"stops={'END' if stops else ''}")


@scripted
def structured_output():
    assert City.model_validate_json(good(ask(format=City.model_json_schema()))) == City(city="Paris", celsius=21)


@scripted
def thinking():
    message = ask(think=True, options={"num_predict": 4000}).message
    assert message.thinking.startswith("The user asks"), message
    kit.has(message.content, "user=Say hello")


kit.run()
