"""The Google Gen AI SDK for Python: content, streams, chats, token counts and models. Not for Vertex AI."""

import asyncio
import base64

import kit
import pydantic
from google import genai
from google.genai import errors, types
from kit import check, scripted

client = genai.Client(api_key=kit.TOKEN, http_options=types.HttpOptions(base_url=kit.URL, timeout=60_000))
BRIEF = {"system_instruction": "Be brief.", "max_output_tokens": 24}
DECLARED = types.Tool(function_declarations=[
    types.FunctionDeclaration(name="weather", description="The weather of a city", parameters_json_schema=kit.WEATHER)])
FINISHED = (types.FinishReason.STOP, types.FinishReason.MAX_TOKENS)
MANUAL = types.AutomaticFunctionCallingConfig(disable=True)


def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny" if city == "Paris" else "cloudy"


class City(pydantic.BaseModel):
    city: str
    celsius: int


def ask(contents="Say hello", **config):
    return client.models.generate_content(model=kit.MODEL, contents=contents, config=BRIEF | config)


def good(response):
    (candidate,) = response.candidates
    assert candidate.finish_reason in FINISHED and candidate.content.role == "model", candidate
    usage = response.usage_metadata
    assert usage.prompt_token_count > 0 and usage.candidates_token_count > 0, usage
    assert usage.total_token_count >= usage.prompt_token_count + usage.candidates_token_count, usage
    return response.text


@check
def a_spent_budget_is_asked_once():
    def spend(options):
        spent = genai.Client(api_key=kit.SPENT_TOKEN, http_options=types.HttpOptions(base_url=kit.URL, client_args=options))
        spent.models.generate_content(model="spent", contents="Say hello", config=BRIEF)

    kit.refused_once(errors.ClientError, spend)


@check
def models_list_and_get():
    assert f"models/{kit.MODEL}" in [model.name for model in client.models.list()]
    found = client.models.get(model=kit.MODEL)
    assert found.name == f"models/{kit.MODEL}" and "generateContent" in found.supported_actions, found


@check
def content_whole_with_headers():
    response = ask()
    text = good(response)
    assert text and response.model_version and response.response_id, response
    headers = {name.lower() for name in response.sdk_http_response.headers}
    assert {"x-photofinish-race", "x-photofinish-upstream"} <= headers, headers
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "max=24")
        assert response.usage_metadata.candidates_token_count == 7, response.usage_metadata


@check
def content_stream():
    chunks = list(client.models.generate_content_stream(model=kit.MODEL, contents="Say hello", config=BRIEF))
    text = "".join(chunk.text or "" for chunk in chunks)
    finishes = [chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates and chunk.candidates[0].finish_reason]
    assert text and len(finishes) == 1 and finishes[0] in FINISHED, finishes
    assert chunks[-1].usage_metadata.candidates_token_count > 0, chunks[-1]
    if kit.SCRIPTED:
        kit.has(text, "user=Say hello", "max=24")


@check
def content_async_whole_and_streamed():
    async def run():
        whole = await client.aio.models.generate_content(model=kit.MODEL, contents="Say hello", config=BRIEF)
        stream = await client.aio.models.generate_content_stream(model=kit.MODEL, contents="Say hello", config=BRIEF)
        return good(whole), "".join([chunk.text or "" async for chunk in stream])

    whole, streamed = asyncio.run(run())
    assert whole and streamed


@check
def content_abort():
    stream = client.models.generate_content_stream(model=kit.LONG_MODEL, contents="count to 2000", config={"max_output_tokens": 4000})
    for chunk in stream:
        if chunk.text:
            break
    stream.close()


@check
def chat_of_two_turns():
    chat = client.chats.create(model=kit.MODEL, config=BRIEF)
    assert good(chat.send_message("Say hello"))
    last = "".join(chunk.text or "" for chunk in chat.send_message_stream("Again"))
    assert last and len(chat.get_history()) >= 4, chat.get_history()
    if kit.SCRIPTED:
        kit.has(last, "user=Again")


@check
def count_tokens():
    total = client.models.count_tokens(model=kit.MODEL, contents="Say hello").total_tokens
    # If no upstream can count, the gateway returns its own estimate.
    assert total == 11 if kit.SCRIPTED and kit.DIALECTS == ["gemini"] else total > 0


def raised(code, status, call):
    try:
        call()
    except errors.APIError as error:
        assert (error.code, error.status) == (code, status) and error.message, error
        return error
    raise AssertionError(f"no error {code}")


@check
def content_errors():
    raised(404, "NOT_FOUND", lambda: client.models.generate_content(model="no-such-model", contents="Say hello"))
    raised(404, "NOT_FOUND", lambda: list(client.models.generate_content_stream(model="no-such-model", contents="Say hello")))
    raised(404, "NOT_FOUND", lambda: client.models.get(model="no-such-model"))
    raised(404, "NOT_FOUND", lambda: client.models.count_tokens(model="no-such-model", contents="Say hello"))
    if not kit.TRIES_WRONG_TOKEN:
        return
    stranger = genai.Client(api_key="wrong", http_options=types.HttpOptions(base_url=kit.URL))
    raised(401, "UNAUTHENTICATED", lambda: stranger.models.generate_content(model=kit.MODEL, contents="Say hello"))


@scripted
def upstream_error():
    for call in (lambda: ask("fail now"), lambda: list(client.models.generate_content_stream(model=kit.MODEL, contents="fail now"))):
        kit.has(raised(400, "INVALID_ARGUMENT", call).message, "told to fail")


@scripted
def functions_that_the_sdk_runs():
    kit.has(ask("The weather of Paris and Rome?", tools=[weather]).text, "calls=2", "sunny", "cloudy", "tools=1")
    stream = client.models.generate_content_stream(model=kit.MODEL, contents="The weather of Paris and Rome?", config=BRIEF | {"tools": [weather]})
    kit.has("".join(chunk.text or "" for chunk in stream), "calls=2", "sunny", "cloudy")


def second_turn(contents, parts):
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args) for call in calls] == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})], calls
    results = [types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": text}))
               for call, text in zip(calls, ("sunny", "cloudy"))]
    contents += [types.Content(role="model", parts=parts), types.Content(role="user", parts=results)]
    kit.has(good(ask(contents, tools=[DECLARED], automatic_function_calling=MANUAL)), "calls=2", "sunny", "cloudy", "tools=1")


@scripted
def declared_functions_round_trip():
    asked = types.Content(role="user", parts=[types.Part(text="The weather of Paris and Rome?")])
    options = {"tools": [DECLARED], "automatic_function_calling": MANUAL}
    second_turn([asked], ask([asked], **options).candidates[0].content.parts)
    stream = client.models.generate_content_stream(model=kit.MODEL, contents=[asked], config=BRIEF | options)
    second_turn([asked], [part for chunk in stream for part in chunk.candidates[0].content.parts or []])


@scripted
def function_calling_mode():
    only = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))
    answer = ask("What is the weather?", tools=[DECLARED], tool_config=only, automatic_function_calling=MANUAL)
    assert [call.name for call in answer.function_calls] == ["weather", "weather"], answer


@scripted
def image_document_and_options():
    parts = [types.Part(text="What is this?"), types.Part.from_bytes(data=base64.b64decode(kit.PNG), mime_type="image/png")]
    if "ollama" not in kit.DIALECTS:  # Ollama does not support documents
        parts.append(types.Part.from_bytes(data=base64.b64decode(kit.PDF), mime_type="application/pdf"))
    stops = {} if "responses" in kit.DIALECTS else {"stop_sequences": ["END"]}  # Responses has no stop sequences
    said = good(ask(parts, temperature=0.5, **stops))
    kit.has(said, "images=1", f"files={len(parts) - 2}", "temperature=0.5", f"stops={'END' if stops else ''}")


@scripted
def structured_output():
    assert ask(response_mime_type="application/json", response_schema=City).parsed == City(city="Paris", celsius=21)
    by_json_schema = ask(response_mime_type="application/json", response_json_schema=kit.SCHEMA)
    assert City.model_validate_json(by_json_schema.text) == City(city="Paris", celsius=21)


@scripted
def embeddings():
    if not {"openai", "gemini", "ollama"} & set(kit.DIALECTS):
        return
    config = types.EmbedContentConfig(task_type="RETRIEVAL_QUERY", output_dimensionality=2)
    # Of models with "gemini" in their name the SDK makes one embedding of all contents.
    vectors = 1 if "gemini" in kit.MODEL else 2
    answer = client.models.embed_content(model=kit.MODEL, contents=["hello", "world"], config=config)
    assert [one.values for one in answer.embeddings] == [[0.5, 0.25]] * vectors, answer


@scripted
def thoughts():
    config = {"max_output_tokens": 4000, "thinking_config": types.ThinkingConfig(include_thoughts=True, thinking_budget=1024)}
    answer = ask(**config)
    thoughts = [part.text for part in answer.candidates[0].content.parts if part.thought]
    assert "".join(thoughts).startswith("The user asks"), answer
    kit.has(answer.text, "user=Say hello")


kit.run()
