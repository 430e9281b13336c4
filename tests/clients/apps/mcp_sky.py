"""An MCP server over standard input and output with one tool, `weather`. For clients that start one."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANSWERS = {
    "initialize": lambda asked: {"protocolVersion": asked["protocolVersion"], "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "sky", "version": "1"}},
    "tools/list": lambda _: {"tools": [{"name": "weather", "description": "The weather of a city", "inputSchema": SCHEMA}]},
    "tools/call": lambda asked: {"content": [{"type": "text", "text": f"sunny in {asked['arguments']['city']}"}]},
}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = ANSWERS.get(asked["method"], lambda _: {})(asked.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
