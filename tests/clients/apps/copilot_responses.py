"""Copilot's program over the Responses API."""

import copilot_checks
import kit

copilot_checks.run(COPILOT_PROVIDER_BASE_URL=kit.URL + "/v1", COPILOT_PROVIDER_WIRE_API="responses")
