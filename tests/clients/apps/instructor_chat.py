"""Instructor over chat completions."""

import agent_checks
import instructor
import kit
from openai import OpenAI

OPTIONS = {"base_url": kit.URL + "/v1", "api_key": kit.TOKEN, "max_retries": 0, "timeout": 60}
TOOLS = instructor.from_openai(OpenAI(**OPTIONS), mode=instructor.Mode.TOOLS)
SCHEMA = instructor.from_openai(OpenAI(**OPTIONS), mode=instructor.Mode.JSON_SCHEMA)


def messages(text):
    return [{"role": "user", "content": text}]


def ask(text):
    return TOOLS.chat.completions.create(model=kit.MODEL, response_model=None, messages=messages(text)).choices[0].message.content


def structured(text):
    options = {"model": kit.MODEL, "response_model": agent_checks.City, "max_retries": 0, "messages": messages(text)}
    # Instructor gives subclasses, which never equal the class.
    by_schema, by_tool = (client.chat.completions.create(**options).model_dump() for client in (SCHEMA, TOOLS))
    assert by_schema == by_tool
    return agent_checks.City(**by_schema)


agent_checks.run(ask, structured=structured)
