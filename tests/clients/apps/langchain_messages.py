"""LangChain's ChatAnthropic."""

import kit
import langchain_checks
from langchain_anthropic import ChatAnthropic

OPTIONS = {"base_url": kit.URL, "api_key": kit.TOKEN, "max_retries": 0, "timeout": 60}
langchain_checks.run(lambda model, most: ChatAnthropic(model=model, max_tokens=most, **OPTIONS), {"method": "json_schema"})
