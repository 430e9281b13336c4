"""Copilot's program over the Messages API."""

import copilot_checks
import kit

copilot_checks.run(COPILOT_PROVIDER_BASE_URL=kit.URL, COPILOT_PROVIDER_TYPE="anthropic")
