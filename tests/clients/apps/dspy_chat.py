"""DSPy over chat completions."""

import agent_checks
import dspy
import kit

MODEL = dspy.LM(f"openai/{kit.MODEL}", api_base=kit.URL + "/v1", api_key=kit.TOKEN, cache=False, num_retries=0, timeout=60)


def ask(text):
    return MODEL(text)[0]


agent_checks.run(ask)
