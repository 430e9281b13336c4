"""Parses every answer of a folder with the official SDK of its surface. Exits with 1 and lists the answers that cannot
be parsed.

An answer's file ends with its surface: `.chat`, `.messages`, `.responses`, `.completions` are streams; with `.json`
after it, they are whole. The SDK receives it through its own HTTP client, with a transport that answers from the
file. Answers that the gateway wrote itself are also checked against the SDK's types. Files with the prefix `native-`
come from a vendor, and some are older than the types.
"""

import pathlib
import sys

import anthropic
import openai
from pydantic import TypeAdapter

try:
    import httpx2 as httpx
except ImportError:
    import httpx


def client(kind, body, content_type):
    def answer(request):
        return httpx.Response(200, headers={"content-type": content_type}, content=body)

    return kind(api_key="sk-none", base_url="http://nobody.invalid/v1", max_retries=0,
                http_client=httpx.Client(transport=httpx.MockTransport(answer)))


NATIVE = False


def strictly(model, value):
    """Checks the declared types. The SDKs build their models without checks."""
    if NATIVE:
        return
    TypeAdapter(model).validate_python(value.model_dump(warnings=False, exclude_unset=True))


def chat_stream(body):
    with client(openai.OpenAI, body, "text/event-stream").chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], stream=True) as stream:
        for chunk in stream:
            # Its types have free-form calls only in whole answers.
            if b'"type":"custom"' not in body:
                strictly(openai.types.chat.ChatCompletionChunk, chunk)


def chat_whole(body):
    answer = client(openai.OpenAI, body, "application/json").chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}])
    strictly(openai.types.chat.ChatCompletion, answer)


def completions_stream(body):
    for chunk in client(openai.OpenAI, body, "text/event-stream").completions.create(model="m", prompt="x", stream=True):
        assert chunk.choices is not None


def completions_whole(body):
    assert client(openai.OpenAI, body, "application/json").completions.create(model="m", prompt="x").choices


def responses_stream(body):
    with client(openai.OpenAI, body, "text/event-stream").responses.stream(model="m", input="x") as stream:
        # `get_final_response` does not support incomplete answers.
        ends = [event.response for event in stream if event.type in ("response.completed", "response.incomplete")]
    assert len(ends) == 1, f"{len(ends)} ends"
    strictly(openai.types.responses.Response, ends[0])


def responses_whole(body):
    answer = client(openai.OpenAI, body, "application/json").responses.create(model="m", input="x")
    strictly(openai.types.responses.Response, answer)


def messages_stream(body):
    with client(anthropic.Anthropic, body, "text/event-stream").messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
        for event in stream:
            pass
        answer = stream.get_final_message()
    strictly(anthropic.types.Message, answer)


def messages_whole(body):
    answer = client(anthropic.Anthropic, body, "application/json").messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
    strictly(anthropic.types.Message, answer)


def main():
    global NATIVE
    failed, parsed = [], 0
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        whole, NATIVE = path.suffix == ".json", path.name.startswith("native-")
        surface = (path.with_suffix("") if whole else path).suffix[1:]
        parse = globals().get(f"{surface}_{'whole' if whole else 'stream'}")
        if parse is None:  # a surface of another vendor
            continue
        try:
            parse(path.read_bytes())
            parsed += 1
        except Exception as error:  # any error of an SDK
            failed.append(f"{path.name}: {type(error).__name__}: {str(error)[:600]}")
    print("\n".join(failed))
    print(f"{parsed} answers parsed by openai {openai.__version__} and anthropic {anthropic.__version__}")
    sys.exit(1 if failed else 0)


main()
