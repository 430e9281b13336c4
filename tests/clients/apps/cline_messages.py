"""Cline's program over the Messages API."""

import cline_checks
import kit

cline_checks.run("anthropic", kit.URL + "/v1")
