"""Continue's program with its provider for Ollama, which asks for chat completions."""

import continue_checks
import kit

continue_checks.run("ollama", kit.URL)
