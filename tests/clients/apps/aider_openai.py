"""`aider` over chat completions."""

import aider_checks
import kit

aider_checks.run("openai", OPENAI_API_BASE=kit.URL + "/v1", OPENAI_API_KEY=kit.TOKEN)
