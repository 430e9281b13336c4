"""Continue's program over the Messages API."""

import continue_checks
import kit

continue_checks.run("anthropic", kit.URL + "/v1")
