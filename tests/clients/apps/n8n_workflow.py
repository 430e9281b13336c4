"""n8n: workflows with its OpenAI model, by `n8n execute`: a chain over chat completions and over the Responses API, an agent with a
tool, and embeddings."""

import json
import os

import agent_checks
import cli
import kit

HOME = cli.HOME / "n8n"
HOME.mkdir()
ENV = {"N8N_USER_FOLDER": str(HOME), "N8N_DIAGNOSTICS_ENABLED": "false", "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
       "N8N_ENCRYPTION_KEY": "secret", "N8N_RUNNERS_ENABLED": "false",
       "PATH": f"{cli.KITS}/node24/node_modules/.bin:{os.environ['PATH']}"}


def n8n(*words):
    return cli.run(cli.KITS / "n8n/node_modules/.bin/n8n", *words, seconds=200, **ENV)


def put(kind, name, value):
    path = cli.HOME / f"{name}.json"
    path.write_text(json.dumps([value]))
    n8n(f"import:{kind}", f"--input={path}")


def node(name, kind, version, parameters, **more):
    return {"id": name, "name": name, "type": kind, "typeVersion": version, "position": [0, 0], "parameters": parameters, **more}


def workflow(name, text, last, is_responses):
    model = {"model": {"__rl": True, "mode": "id", "value": kit.MODEL}, "responsesApiEnabled": is_responses, "options": {}}
    key = {"openAiApi": {"id": "photofinish", "name": "Photofinish"}}
    nodes = [node("start", "n8n-nodes-base.manualTrigger", 1, {}), last(text),
             node("model", "@n8n/n8n-nodes-langchain.lmChatOpenAi", 1.3, model, credentials=key)]
    links = {"start": {"main": [[{"node": "ask", "type": "main", "index": 0}]]},
             "model": {"ai_languageModel": [[{"node": "ask", "type": "ai_languageModel", "index": 0}]]}}
    if "agent" in name:
        code = {"description": "The weather of a city.", "jsCode": "return 'sunny'"}
        nodes.append(node("weather", "@n8n/n8n-nodes-langchain.toolCode", 1.3, code))
        links["weather"] = {"ai_tool": [[{"node": "ask", "type": "ai_tool", "index": 0}]]}
    put("workflow", name, {"id": name, "name": name, "active": False, "settings": {}, "nodes": nodes, "connections": links})
    return name


def chain(text):
    return node("ask", "@n8n/n8n-nodes-langchain.chainLlm", 1.7, {"promptType": "define", "text": text})


def agent(text):
    return node("ask", "@n8n/n8n-nodes-langchain.agent", 2.2, {"promptType": "define", "text": text})


def execute(name):
    out = n8n("execute", f"--id={name}", "--rawOutput")
    data = json.loads(out[out.index("{"):])["data"]["resultData"]
    assert data["lastNodeExecuted"] == "ask" and not data.get("error"), data.get("error")
    return json.dumps(data["runData"]["ask"][0]["data"]["main"][0][0]["json"])


put("credentials", "key", {"id": "photofinish", "name": "Photofinish", "type": "openAiApi", "data": {"apiKey": kit.TOKEN, "url": kit.URL + "/v1"}})
agent_checks.run(lambda text: execute(workflow("chat", text, chain, False)), lambda text: execute(workflow("responses", text, chain, True)),
                 lambda text: execute(workflow("agent", text, agent, False)))
