"""Cline's program over chat completions."""

import cline_checks
import kit

cline_checks.run("openai-compatible", kit.URL + "/v1")
