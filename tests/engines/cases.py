"""The requests: what clients of inference servers send, over four surfaces. A server that does not know a member
ignores or refuses it, and the gateway must then do the same."""

import dataclasses

PATHS = {"chat": "/chat/completions", "completions": "/completions", "responses": "/responses", "messages": "/messages"}
LONG = "The quick brown fox jumps over the lazy dog. " * 40
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
              "additionalProperties": False}
SAID = "Say a word, then the next: é 你 😀"
# The smallest answers with a text in them; a random model writes no end.
FEW = 12


@dataclasses.dataclass(frozen=True)
class Case:
    surface: str
    name: str
    members: dict

    def body(self, model, stream, usage):
        options = {"stream_options": {"include_usage": True}} if usage else {}
        return {"model": model} | self.members | ({"stream": True} if stream else {}) | options

    def forms(self):
        """Streaming or not, and whether the client asks for the usage of a stream."""
        yield "whole", False, False
        yield "stream", True, False
        if self.surface in ("chat", "completions"):
            yield "stream with usage", True, True


def chat(too_long):
    def case(name, text=SAID, **members):
        return Case("chat", name, {"messages": [{"role": "user", "content": text}], "max_tokens": FEW, "temperature": 0, "seed": 1} | members)

    function = {"name": "weather", "description": "The weather of a city", "parameters": PARAMETERS}
    tools = [{"type": "function", "function": function}]
    yield case("text")
    yield case("conversation", messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One?"},
                                         {"role": "assistant", "content": "Two."}, {"role": "user", "content": SAID}])
    yield case("seed", temperature=0.9, seed=7, top_p=0.9)
    yield case("n", n=2, temperature=0.9, seed=7)
    yield case("logprobs", logprobs=True, top_logprobs=3)
    yield case("n with logprobs", n=2, logprobs=True, top_logprobs=2, temperature=0.9, seed=7)
    yield case("stop", stop=["e", "a", "o"], max_tokens=40)
    yield case("stop in the answer", stop=["e", "a", "o"], max_tokens=40, include_stop_str_in_output=True)
    yield case("logit bias", logit_bias={"10": 5, "11": -100})
    yield case("tools", tools=tools)
    yield case("tools: none", tools=tools, tool_choice="none")
    yield case("a forced tool", tools=tools, tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=60)
    yield case("a forced tool, cut", tools=tools, tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=4)
    yield case("a required tool", tools=tools, tool_choice="required", max_tokens=60)
    yield case("schema", response_format={"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": PARAMETERS}}, max_tokens=60)
    yield case("JSON", response_format={"type": "json_object"}, max_tokens=20)
    yield case("token ids", return_token_ids=True)
    yield case("token ids and logprobs", return_token_ids=True, logprobs=True, top_logprobs=1, return_tokens_as_token_ids=True)
    yield case("prompt logprobs", prompt_logprobs=1)
    yield case("beam search", use_beam_search=True, n=2)
    yield case("echo", echo=True, add_generation_prompt=False)
    yield case("a long prompt", LONG)
    yield case("one token", max_tokens=1)
    yield case("max_completion_tokens", max_tokens=None, max_completion_tokens=3)
    yield case("too long", too_long)
    yield case("temperature out of range", temperature=-3)
    yield case("n out of range", n=0)
    yield case("an unknown role", messages=[{"role": "nobody", "content": "x"}])
    yield case("an unknown member", no_such_member=1)


def completions(too_long):
    def case(name, prompt=SAID, **members):
        return Case("completions", name, {"prompt": prompt, "max_tokens": FEW, "temperature": 0, "seed": 1} | members)

    yield case("text")
    yield case("seed", temperature=0.9, seed=7)
    yield case("n", n=2, temperature=0.9, seed=7)
    yield case("logprobs", logprobs=3)
    yield case("stop", stop=["e", "a", "o"], max_tokens=40)
    yield case("echo", echo=True)
    yield case("echo with logprobs", echo=True, logprobs=2)
    yield case("echo with prompt logprobs", echo=True, logprobs=1, prompt_logprobs=1)
    yield case("prompt logprobs", prompt_logprobs=1)
    yield case("beam search", use_beam_search=True, n=2)
    yield case("token ids", return_token_ids=True)
    yield case("several prompts", ["One", "Two and three"])
    yield case("tokens", [1, 20, 30, 40])
    yield case("a long prompt", LONG)
    yield case("too long", too_long)
    yield case("logprobs out of range", logprobs=-7)


def responses(too_long):
    def case(name, **members):
        return Case("responses", name, {"input": SAID, "max_output_tokens": FEW, "temperature": 0} | members)

    tools = [{"type": "function", "name": "weather", "description": "The weather of a city", "parameters": PARAMETERS, "strict": True}]
    yield case("text")
    yield case("conversation", instructions="Be brief.", input=[{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."},
                                                                {"role": "user", "content": SAID}])
    yield case("metadata", metadata={"a": "b"}, user="somebody")
    yield case("logprobs", top_logprobs=2, include=["message.output_text.logprobs"])
    yield case("tools", tools=tools)
    yield case("a forced tool", tools=tools, tool_choice={"type": "function", "name": "weather"}, max_output_tokens=60)
    yield case("schema", text={"format": {"type": "json_schema", "name": "place", "strict": True, "schema": PARAMETERS}}, max_output_tokens=60)
    yield case("a long prompt", input=LONG)
    yield case("too long", input=too_long)
    yield case("temperature out of range", temperature=-3)


def messages(too_long):
    def case(name, text=SAID, **members):
        return Case("messages", name, {"messages": [{"role": "user", "content": text}], "max_tokens": FEW, "temperature": 0} | members)

    tools = [{"name": "weather", "description": "The weather of a city", "input_schema": PARAMETERS}]
    yield case("text")
    yield case("conversation", system="Be brief.", messages=[{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."},
                                                             {"role": "user", "content": [{"type": "text", "text": SAID}]}])
    yield case("stop", stop_sequences=["e", "a", "o"], max_tokens=40)
    yield case("tools", tools=tools)
    yield case("a forced tool", tools=tools, tool_choice={"type": "tool", "name": "weather"}, max_tokens=60)
    yield case("a required tool", tools=tools, tool_choice={"type": "any"}, max_tokens=60)
    yield case("a long prompt", LONG)
    yield case("too long", too_long)
    yield case("temperature out of range", temperature=-3)


def cases(window):
    """`window`: tokens of the model's context, if they are known."""
    too_long = "word " * (window + 100) if window else None
    for made in (chat, completions, responses, messages):
        yield from (case for case in made(too_long) if case.name != "too long" or window)
