"""LiteLLM as a library, over chat completions, and its own class for a model that the gateway does not have."""

import agent_checks
import kit
import litellm
from kit import check

OPTIONS = {"api_base": kit.URL + "/v1", "api_key": kit.TOKEN, "num_retries": 0, "max_retries": 0, "timeout": 60}


def call(text, **more):
    messages = [{"role": "user", "content": text}]
    return litellm.completion(**{"model": f"openai/{kit.MODEL}", "messages": messages, **OPTIONS, **more})


def ask(text):
    return call(text).choices[0].message.content


def stream(text):
    return "".join(chunk.choices[0].delta.content or "" for chunk in call(text, stream=True))


def structured(text):
    return agent_checks.City.model_validate_json(call(text, response_format=agent_checks.City).choices[0].message.content)


@check
def unknown_model():
    try:
        call("Say hello", model="openai/no-such-model")
    except litellm.NotFoundError:
        return
    raise AssertionError("an unknown model is no NotFoundError")


agent_checks.run(ask, stream, structured=structured)
