"""Continue's program over chat completions."""

import continue_checks
import kit

continue_checks.run("openai", kit.URL + "/v1")
