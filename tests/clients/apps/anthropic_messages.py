"""The Anthropic Python SDK: messages, token counts and models."""

import anthropic
import kit
import pydantic
from anthropic.types import Message
from kit import check, scripted

client = anthropic.Anthropic(base_url=kit.URL, api_key=kit.TOKEN, max_retries=0, timeout=60)
HELLO = [{"role": "user", "content": "Say hello"}]
TOOLS = [{"name": "weather", "description": "The weather of a city", "input_schema": kit.WEATHER}]
ASK = {"model": kit.MODEL, "messages": HELLO, "max_tokens": 24}


def ask(**members):
    return client.messages.create(**ASK | members)


def good(message):
    Message.model_validate(message.to_dict())
    assert message.type == "message" and message.role == "assistant" and message.id and message.model
    assert message.stop_reason in ("end_turn", "max_tokens", "tool_use", "stop_sequence"), message.stop_reason
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0, message.usage
    assert message.content, message
    return "".join(block.text for block in message.content if block.type == "text")


@check
def messages_whole_with_headers():
    raw = client.messages.with_raw_response.create(**ASK, system="Be brief.")
    assert raw.headers["x-photofinish-race"] and raw.headers["x-photofinish-upstream"]
    message = raw.parse()
    text = good(message)
    assert text
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "max=24")
        cached = message.usage.cache_read_input_tokens or 0
        assert message.usage.input_tokens + cached == 42 and message.usage.output_tokens == 7, message.usage


@check
def a_spent_budget_is_asked_once():
    def spend(options):
        spent = anthropic.Anthropic(base_url=kit.URL, api_key=kit.SPENT_TOKEN, http_client=anthropic.DefaultHttpxClient(**options))
        spent.messages.create(**ASK | {"model": "spent"})

    kit.refused_once(anthropic.RateLimitError, spend)


@check
def messages_bearer_token():
    good(anthropic.Anthropic(base_url=kit.URL, auth_token=kit.TOKEN, api_key=None, max_retries=0).messages.create(**ASK))


@check
def messages_stream_events_in_order():
    kinds, text, final = [], "", None
    for event in ask(stream=True):
        kinds.append(event.type)
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
        if event.type == "message_delta":
            final = event
    kinds = [kind for kind in kinds if kind != "ping"]
    assert kinds[:3] == ["message_start", "content_block_start", "content_block_delta"], kinds
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    assert text and final.delta.stop_reason and final.usage.output_tokens > 0


@check
def messages_stream_helper():
    with client.messages.stream(**ASK) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert good(message) == text and text


@check
def messages_abort():
    with client.messages.stream(**ASK | {"model": kit.LONG_MODEL, "max_tokens": 4000,
                                         "messages": [{"role": "user", "content": "count to 2000"}]}) as stream:
        for text in stream.text_stream:
            if text:
                break


@check
def count_tokens():
    count = client.messages.count_tokens(model=kit.MODEL, messages=HELLO, system="Be brief.")
    # If no upstream can count, the gateway returns its own estimate.
    assert count.input_tokens == 11 if kit.SCRIPTED and kit.DIALECTS == ["anthropic"] else count.input_tokens > 0


@check
def models_list():
    assert kit.MODEL in [model.id for model in client.models.list()]


@check
def messages_errors():
    def raised(kind, **members):
        try:
            ask(**members)
        except kind as error:
            assert error.body["type"] == "error" and error.body["error"]["message"] and error.body["error"]["type"], error.body
            return error
        raise AssertionError(f"no {kind.__name__}")

    raised(anthropic.BadRequestError, max_tokens=None)
    raised(anthropic.BadRequestError, messages="hello")
    raised(anthropic.NotFoundError, model="no-such-model")
    if kit.SCRIPTED:
        error = raised(anthropic.BadRequestError, messages=[{"role": "user", "content": "fail now"}])
        kit.has(str(error.body), "told to fail")
    if not kit.TRIES_WRONG_TOKEN:
        return
    try:
        anthropic.Anthropic(base_url=kit.URL, api_key="wrong", max_retries=0).messages.create(**ASK)
    except anthropic.AuthenticationError:
        return
    raise AssertionError("no AuthenticationError")


def second_turn(messages, first):
    good(first)
    assert first.stop_reason == "tool_use", first.stop_reason
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})], calls
    assert len({call.id for call in calls}) == 2
    messages.append({"role": "assistant", "content": [block.to_dict() for block in first.content]})
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in zip(calls, ("sunny", "cloudy"))]
    messages.append({"role": "user", "content": results})
    kit.has(good(ask(messages=messages, tools=TOOLS)), "calls=2", "sunny", "cloudy", "tools=1")


@scripted
def messages_tools_stream_round_trip():
    messages = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    with client.messages.stream(**ASK | {"messages": messages}, tools=TOOLS) as stream:
        second_turn(messages, stream.get_final_message())


@scripted
def messages_tools_whole_round_trip():
    messages = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    second_turn(messages, ask(messages=messages, tools=TOOLS, tool_choice={"type": "any"}))


@scripted
def messages_image_document_options():
    content = [{"type": "text", "text": "What is this?"},
               {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": kit.PNG}}]
    if "ollama" not in kit.DIALECTS:  # Ollama does not support documents
        content.append({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": kit.PDF}})
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    said = good(ask(messages=[{"role": "user", "content": content}], system=system, extra_body={"temperature": 0.5}))
    kit.has(said, "system=Be brief.", "images=1", f"files={len(content) - 2}", "temperature=0.5")


@scripted
def messages_stop_sequences():
    if "responses" not in kit.DIALECTS:  # Responses has no stop sequences
        kit.has(good(ask(stop_sequences=["END"])), "stops=END")


@scripted
def messages_thinking_handed_back():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = ask(thinking=thinking, max_tokens=4000)
    good(first)
    assert first.content[0].type == "thinking" and first.content[0].thinking.startswith("The user asks"), first.content
    turns = HELLO + [{"role": "assistant", "content": [block.to_dict() for block in first.content]}, {"role": "user", "content": "Again"}]
    said = good(ask(messages=turns, thinking=thinking, max_tokens=4000))
    kit.has(said, "user=Again")
    if kit.DIALECTS in (["anthropic"], ["bedrock"]):
        kit.has(said, "reasoned=1")


@scripted
def messages_structured_output():
    class City(pydantic.BaseModel):
        city: str
        celsius: int

    parsed = client.messages.parse(**ASK, output_format=City).parsed_output
    assert parsed == City(city="Paris", celsius=21)


kit.run()
