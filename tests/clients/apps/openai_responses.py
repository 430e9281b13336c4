"""The OpenAI Python SDK: the Responses API."""

import json

import kit
import openai
import pydantic
from kit import check, scripted
from openai.types.responses import Response

client = openai.OpenAI(base_url=kit.URL + "/v1", api_key=kit.TOKEN, max_retries=0, timeout=60)
TOOLS = [{"type": "function", "name": "weather", "description": "The weather", "parameters": kit.WEATHER, "strict": True}]


def ask(**members):
    return client.responses.create(**{"model": kit.MODEL, "input": "Say hello", "max_output_tokens": 24, "store": False} | members)


def good(response, text=True):
    if not kit.BARE_RESPONSES:
        Response.model_validate(response.to_dict())
    assert response.object == "response" and response.id and response.created_at > 0 and response.model
    assert response.status in ("completed", "incomplete"), response.status
    usage = response.usage
    assert usage.input_tokens > 0 and usage.total_tokens == usage.input_tokens + usage.output_tokens, usage
    assert not text or response.output_text, response.output


@check
def responses_whole():
    response = ask(instructions="Be brief.")
    good(response)
    if kit.SCRIPTED:
        kit.has(response.output_text, "system=Be brief.", "user=Say hello", "max=24")


@check
def responses_stream_events_in_order():
    kinds, numbers, text, items = [], [], "", {}
    for event in ask(stream=True):
        kinds.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_item.added":
            items[event.output_index] = event.item.id
        if event.type == "response.output_text.delta":
            assert kit.BARE_RESPONSES or items[event.output_index] == event.item_id, "a delta names its item"
            text += event.delta
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert kit.BARE_RESPONSES or numbers == sorted(set(numbers)), numbers
    good(event.response)
    assert event.response.output_text == text


@check
def responses_stream_helper():
    if kit.BARE_RESPONSES:
        return
    with client.responses.stream(model=kit.MODEL, input="Say hello", max_output_tokens=24) as events:
        kinds = {event.type for event in events}
        if "response.incomplete" in kinds:
            return  # the helper has no final answer if `max_output_tokens` has cut it
        final = events.get_final_response()
    assert {"response.output_text.delta", "response.output_item.done"} <= kinds, kinds
    good(final)


@check
def responses_turns():
    answer = {"type": "output_text", "text": "Two", "annotations": []}
    turns = [{"role": "user", "content": "One"},
             {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [answer]},
             {"role": "user", "content": [{"type": "input_text", "text": "Three"}]}]
    response = ask(input=turns)
    good(response)
    if kit.SCRIPTED:
        kit.has(response.output_text, "user=Three")


@check
def responses_abort():
    endless = ask(model=kit.LONG_MODEL, input="count to 2000", max_output_tokens=4000, stream=True)
    for event in endless:
        if event.type == "response.output_text.delta":
            break
    endless.close()


@check
def responses_errors():
    for members, kind in (({"input": 7}, openai.BadRequestError), ({"model": "no-such-model"}, openai.NotFoundError)):
        try:
            ask(**members)
        except kind as error:
            assert error.body["message"], error.body
        else:
            raise AssertionError(f"no {kind.__name__}")


@scripted
def responses_upstream_error():
    try:
        ask(input="fail now")
    except openai.BadRequestError as error:
        kit.has(error.body["message"], "told to fail")
    else:
        raise AssertionError("no BadRequestError")


@scripted
def responses_tools_round_trip():
    turns = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    with client.responses.stream(model=kit.MODEL, input=turns, tools=TOOLS) as events:
        kinds = [event.type for event in events]
        first = events.get_final_response()
    assert kinds.count("response.function_call_arguments.done") == 2, kinds
    second_turn(turns, first)


@scripted
def responses_tools_whole_round_trip():
    turns = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    second_turn(turns, ask(input=turns, tools=TOOLS, tool_choice="required", max_output_tokens=None))


def second_turn(turns, first):
    good(first, text=False)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, json.loads(call.arguments)["city"]) for call in calls] == [("weather", "Paris"), ("weather", "Rome")], calls
    assert len({call.call_id for call in calls}) == 2
    turns += [item.to_dict() for item in first.output]
    turns += [{"type": "function_call_output", "call_id": call.call_id, "output": text} for call, text in zip(calls, ("sunny", "cloudy"))]
    response = ask(input=turns, tools=TOOLS)
    kit.has(response.output_text, "calls=2", "sunny", "cloudy")


@scripted
def responses_custom_tool_round_trip():
    tool = {"type": "custom", "name": "note", "description": "Keeps a note"}
    turns = [{"role": "user", "content": "Note the weather"}]
    for stream in (False, True):
        if stream:
            with client.responses.stream(model=kit.MODEL, input=turns, tools=[tool]) as events:
                first = events.get_final_response()
        else:
            first = ask(input=turns, tools=[tool], max_output_tokens=None)
        (call,) = [item for item in first.output if item.type == "custom_tool_call"]
        assert (call.name, call.input) == ("note", 'it is sunny\nin "Paris"'), call
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "noted"}
    response = ask(input=turns + [item.to_dict() for item in first.output] + [output], tools=[tool])
    kit.has(response.output_text, "calls=1", "results=noted")


@scripted
def responses_image_and_document():
    content = [{"type": "input_text", "text": "What is this?"},
               {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + kit.PNG}]
    if "ollama" not in kit.DIALECTS:  # Ollama does not support documents
        content.append({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64," + kit.PDF})
    response = ask(input=[{"role": "user", "content": content}], temperature=0.5)
    kit.has(response.output_text, "images=1", f"files={len(content) - 2}", "temperature=0.5")


@scripted
def responses_structured_output():
    class City(pydantic.BaseModel):
        city: str
        celsius: int

    parsed = client.responses.parse(model=kit.MODEL, input="Say hello", text_format=City).output_parsed
    assert parsed == City(city="Paris", celsius=21)


@scripted
def responses_reasoning_handed_back():
    first = ask(reasoning={"effort": "low", "summary": "auto"}, include=["reasoning.encrypted_content"], max_output_tokens=4000)
    reasoning = [item for item in first.output if item.type == "reasoning"]
    assert reasoning and reasoning[0].summary[0].text.startswith("The user asks"), first.output
    turns = [{"role": "user", "content": "Say hello"}] + [item.to_dict() for item in first.output] + [{"role": "user", "content": "Again"}]
    good(ask(input=turns))


kit.run()
