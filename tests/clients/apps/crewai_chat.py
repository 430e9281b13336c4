"""CrewAI over chat completions: a crew of one agent, with and without a tool."""

import agent_checks
import kit
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

MODEL = LLM(model=f"openai/{kit.MODEL}", base_url=kit.URL + "/v1", api_key=kit.TOKEN, max_retries=0, timeout=60)


def run(text, tools=()):
    agent = Agent(role="assistant", goal="Answer.", backstory="Brief.", llm=MODEL, tools=list(tools), max_iter=3, verbose=False)
    task = Task(description=text, expected_output="An answer.", agent=agent)
    return str(Crew(agents=[agent], tasks=[task], verbose=False).kickoff())


agent_checks.run(lambda text: MODEL.call(text), use_tool=lambda text: run(text, [tool("weather")(agent_checks.weather)]))
