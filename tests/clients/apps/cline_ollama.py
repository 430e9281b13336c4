"""Cline's program in its Ollama mode."""

import cline_checks
import kit

cline_checks.run("ollama", kit.URL)
