"""Copilot's program over chat completions."""

import copilot_checks
import kit

copilot_checks.run(COPILOT_PROVIDER_BASE_URL=kit.URL + "/v1")
