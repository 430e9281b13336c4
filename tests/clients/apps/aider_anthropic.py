"""`aider` over messages."""

import aider_checks
import kit

aider_checks.run("anthropic", ANTHROPIC_API_BASE=kit.URL, ANTHROPIC_API_KEY=kit.TOKEN)
