"""The OpenAI Python SDK: chat completions, completions, embeddings, models, files and batches; its client for Azure; Cohere's SDK."""

import json

import cohere
import kit
import openai
import pydantic
from kit import check, scripted
from openai.types.chat import ChatCompletion, ChatCompletionChunk

client = openai.OpenAI(base_url=kit.URL + "/v1", api_key=kit.TOKEN, max_retries=0, timeout=60)
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": kit.WEATHER}}]


def ask(**members):
    return client.chat.completions.create(**{"model": kit.MODEL, "messages": HELLO, "max_tokens": 24} | members)


@check
def models_list_and_retrieve():
    ids = [model.id for model in client.models.list()]
    assert kit.MODEL in ids, ids
    assert client.models.retrieve(kit.MODEL).object == "model"


@check
def chat_whole_with_headers():
    raw = client.chat.completions.with_raw_response.create(model=kit.MODEL, messages=HELLO, max_tokens=24)
    for header in ("x-photofinish-race", "x-photofinish-upstream", "x-photofinish-ttft-ms", "x-photofinish-attempts"):
        assert raw.headers.get(header), f"no {header}"
    answer = raw.parse()
    ChatCompletion.model_validate(answer.to_dict())
    (choice,) = answer.choices
    assert answer.object == "chat.completion" and answer.id and answer.created > 0 and answer.model
    assert choice.message.role == "assistant" and choice.message.content and choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.prompt_tokens > 0 and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage
    if kit.SCRIPTED:
        kit.has(choice.message.content, "system=Be brief.", "user=Say hello", "max=24")
        assert (usage.prompt_tokens, usage.completion_tokens) == (42, 7), usage
        if "ollama" not in kit.DIALECTS:
            assert usage.prompt_tokens_details.cached_tokens == 4, usage


def stream(usage):
    options = {"stream_options": {"include_usage": True}} if usage else {}
    text, finish, usages, roles = "", [], [], []
    for chunk in ask(stream=True, **options):
        ChatCompletionChunk.model_validate(chunk.to_dict())
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            text += choice.delta.content or ""
            roles += [choice.delta.role] if choice.delta.role else []
            finish += [choice.finish_reason] if choice.finish_reason else []
    assert text and roles and set(roles) == {"assistant"}, (text, roles)
    assert len(finish) == 1 and finish[0] in ("stop", "length"), finish
    return usages


@check
def chat_stream():
    assert not stream(usage=False)


@check
def chat_stream_with_usage():
    (usage,) = stream(usage=True)
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0, usage


@check
def chat_stream_helper():
    with client.chat.completions.stream(model=kit.MODEL, messages=HELLO, max_tokens=24) as events:
        kinds = set()
        try:
            for event in events:
                kinds.add(event.type)
            final = events.get_final_completion()
        except openai.LengthFinishReasonError as error:  # the helper raises this for an answer cut by max_tokens
            final = error.completion
    assert {"chunk", "content.delta"} <= kinds, kinds
    assert final.choices[0].message.content


@check
def chat_abort():
    endless = ask(model=kit.LONG_MODEL, messages=[{"role": "user", "content": "count to 2000"}], max_tokens=4000, stream=True)
    for chunk in endless:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    endless.close()


@check
def a_spent_budget_is_asked_once():
    def spend(options):
        spent = openai.OpenAI(base_url=kit.URL + "/v1", api_key=kit.SPENT_TOKEN, http_client=openai.DefaultHttpxClient(**options))
        spent.chat.completions.create(model="spent", messages=HELLO, max_tokens=24)

    kit.refused_once(openai.RateLimitError, spend)


@check
def chat_errors():
    def raised(kind, message, **members):
        try:
            ask(**members)
        except kind as error:
            assert error.body["message"] and (not message or message in error.body["message"]), error.body
            return error
        raise AssertionError(f"no {kind.__name__}")

    raised(openai.BadRequestError, None, messages=None)
    raised(openai.BadRequestError, None, messages="hello")
    raised(openai.NotFoundError, "no-such-model", model="no-such-model")
    if kit.SCRIPTED:
        raised(openai.BadRequestError, "told to fail", messages=[{"role": "user", "content": "fail now"}])
    if not kit.TRIES_WRONG_TOKEN:
        return
    stranger = openai.OpenAI(base_url=kit.URL + "/v1", api_key="wrong", max_retries=0)
    try:
        stranger.chat.completions.create(model=kit.MODEL, messages=HELLO)
    except openai.AuthenticationError:
        return
    raise AssertionError("no AuthenticationError")


@scripted
def chat_tools_parallel_stream_round_trip():
    messages = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    with client.chat.completions.stream(model=kit.MODEL, messages=messages, tools=TOOLS) as events:
        choice = events.get_final_completion().choices[0]
    second_turn(messages, choice)


@scripted
def chat_tools_parallel_whole_round_trip():
    messages = [{"role": "user", "content": "The weather of Paris and Rome?"}]
    second_turn(messages, ask(messages=messages, tools=TOOLS, tool_choice="auto", parallel_tool_calls=True).choices[0])


def second_turn(messages, choice):
    calls = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls", choice
    assert [(call.function.name, json.loads(call.function.arguments)["city"]) for call in calls] == [("weather", "Paris"), ("weather", "Rome")]
    assert len({call.id for call in calls}) == 2 and all(call.id for call in calls)
    messages.append(choice.message.to_dict())
    messages += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, ("sunny", "cloudy"))]
    answer = ask(messages=messages, tools=TOOLS).choices[0]
    assert answer.finish_reason == "stop"
    kit.has(answer.message.content, "calls=2", "sunny", "cloudy", "tools=1")


@scripted
def chat_tool_choice():
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        answer = ask(messages=[{"role": "user", "content": "The weather?"}], tools=TOOLS, tool_choice=choice)
        assert answer.choices[0].message.tool_calls


@scripted
def chat_image_and_options():
    content = [{"type": "text", "text": "What is this?"},
               {"type": "image_url", "image_url": {"url": "data:image/png;base64," + kit.PNG}}]
    answer = ask(messages=[HELLO[0], {"role": "user", "content": content}], temperature=0.5, stop=["END"])
    said = answer.choices[0].message.content
    kit.has(said, "images=1", "temperature=0.5")
    if "responses" not in kit.DIALECTS:  # Responses has no stop sequences
        kit.has(said, "stops=END")


@scripted
def chat_document():
    if "ollama" in kit.DIALECTS:  # Ollama does not support documents
        return
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + kit.PDF}}
    answer = ask(messages=[{"role": "user", "content": [{"type": "text", "text": "Read it"}, file]}])
    kit.has(answer.choices[0].message.content, "files=1")


@scripted
def chat_structured_output():
    class City(pydantic.BaseModel):
        city: str
        celsius: int

    parsed = client.chat.completions.parse(model=kit.MODEL, messages=HELLO, response_format=City).choices[0].message.parsed
    assert parsed == City(city="Paris", celsius=21)


@scripted
def chat_reasoning():
    message = ask(reasoning_effort="low", max_tokens=4000).choices[0].message
    assert (message.to_dict().get("reasoning_content") or "").startswith("The user asks"), message


@scripted
def chat_seed_is_carried_or_named():
    asked = {"model": kit.MODEL, "messages": HELLO, "seed": 7}
    dropped = client.chat.completions.with_raw_response.create(**asked).headers.get("x-photofinish-dropped") or ""
    if kit.cannot_say("openai", "gemini", "ollama"):
        assert dropped == "", dropped
    if kit.cannot_say("responses", "anthropic", "bedrock"):
        assert dropped == "seed", dropped
        try:
            client.chat.completions.create(**asked, extra_headers={"x-photofinish-lossy": "refuse"})
        except openai.BadRequestError as error:
            kit.has(error.body["message"], "seed")
            return
        raise AssertionError("no BadRequestError")


@check
def completions_whole_and_stream():
    if "openai" not in kit.DIALECTS:
        return refused(lambda: client.completions.create(model=kit.MODEL, prompt="Once"))
    whole = client.completions.create(model=kit.MODEL, prompt="Once", max_tokens=8)
    assert whole.object == "text_completion" and whole.choices[0].text and whole.choices[0].finish_reason, whole
    assert whole.usage.completion_tokens > 0
    chunks = list(client.completions.create(model=kit.MODEL, prompt="Once", max_tokens=8, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


@check
def embeddings():
    if not {"openai", "gemini", "ollama"} & set(kit.DIALECTS):
        # Bedrock's dialect has embeddings, and the scripted model is none that makes them.
        code = "photofinish_invalid_request" if "bedrock" in kit.DIALECTS else "photofinish_no_upstream"
        return refused(lambda: client.embeddings.create(model=kit.MODEL, input="hello"), code)
    answer = client.embeddings.create(model=kit.EMBEDDER, input=["hello", "world"])
    assert len(answer.data) == 2 and all(isinstance(number, float) for one in answer.data for number in one.embedding)
    # Gemini counts no tokens of embeddings.
    assert answer.usage.prompt_tokens > 0 or "gemini" in kit.DIALECTS


@scripted
def files_and_batches():
    sent = b'{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {}}\n' * 50_000
    file = client.files.create(file=("a.jsonl", sent), purpose="batch")
    assert file.id == "file-1" and [one.id for one in client.files.list()] == ["file-1"]
    assert sent in client.files.content(file.id).read()
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    assert client.batches.retrieve(batch.id).status == "validating" and [one.id for one in client.batches.list()] == ["batch-1"]
    assert client.batches.cancel(batch.id).status == "cancelling"
    assert client.files.delete(file.id).deleted
    direct = openai.OpenAI(base_url=kit.URL + "/providers/script-openai/v1", api_key=kit.TOKEN, max_retries=0)
    assert direct.files.retrieve("file-1").bytes > len(sent)


@check
def as_azures_client():
    azure = openai.AzureOpenAI(azure_endpoint=kit.URL, api_key=kit.TOKEN, api_version="2024-10-21", max_retries=0, timeout=60)
    answer = azure.chat.completions.create(model=kit.MODEL, messages=HELLO, max_tokens=24)
    assert answer.choices[0].message.content
    chunks = list(azure.chat.completions.create(model=kit.MODEL, messages=HELLO, max_tokens=24, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert kit.MODEL in [model.id for model in azure.models.list()]


@scripted
def rerank_by_coheres_sdk():
    if "openai" not in kit.DIALECTS:
        return
    for ranker in (cohere.ClientV2(kit.TOKEN, base_url=kit.URL), cohere.Client(kit.TOKEN, base_url=kit.URL)):
        answer = ranker.rerank(model=kit.MODEL, query="which", documents=["a", "b", "c"], top_n=2)
        assert [one.index for one in answer.results] == [0, 1] and answer.results[0].relevance_score == 1


def refused(call, code="photofinish_no_upstream"):
    """This surface has no translation, and the gateway reports that."""
    try:
        call()
    except openai.BadRequestError as error:
        assert error.code == code, error.body
        return
    raise AssertionError("served by an upstream that cannot")


kit.run()
