"""A pipeline of Pipecat over chat completions: from the caller's words to the text that would be spoken."""

import asyncio
import time

import agent_checks
import kit
from loguru import logger
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import EndFrame, InterruptionFrame, LLMContextFrame, LLMFullResponseEndFrame, LLMTextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.workers.runner import WorkerRunner

logger.remove()


class Speaker(FrameProcessor):
    """Where speech would be made: keeps the text."""

    def __init__(self):
        super().__init__()
        self.text, self.began, self.ended = [], asyncio.Event(), asyncio.Event()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.text.append(frame.text)
            self.began.set()
        if isinstance(frame, LLMFullResponseEndFrame) and self.text:
            self.ended.set()
        await self.push_frame(frame, direction)


async def call(text, tools=(), model=kit.MODEL, interrupts=False):
    llm = OpenAILLMService(
        api_key=kit.TOKEN, base_url=kit.URL + "/v1", default_headers={"x-photofinish-session": "call-1"},
        settings=OpenAILLMService.Settings(model=model, system_instruction="Be brief."))
    context = LLMContext([{"role": "user", "content": text}])
    if tools:
        context.set_tools(ToolsSchema(standard_tools=list(tools)))
    speaker, both = Speaker(), LLMContextAggregatorPair(context)
    task = PipelineTask(Pipeline([both.user(), llm, speaker, both.assistant()]), params=PipelineParams(enable_metrics=True))
    await task.queue_frame(LLMContextFrame(context))

    async def hang_up():
        await (speaker.began if interrupts else speaker.ended).wait()
        await task.queue_frames([InterruptionFrame(), EndFrame()] if interrupts else [EndFrame()])

    hanging_up = asyncio.create_task(hang_up())
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(task)
    began = time.monotonic()
    await asyncio.wait_for(asyncio.gather(runner.run(), hanging_up), 30)
    assert not interrupts or time.monotonic() - began < 10
    return "".join(speaker.text)


async def weather(params, city: str):
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    await params.result_callback(agent_checks.weather(city))


@kit.check
def a_caller_who_interrupts():
    assert asyncio.run(call("count to 2000", model=kit.LONG_MODEL, interrupts=True))


agent_checks.run(lambda text: asyncio.run(call(text)), use_tool=lambda text: asyncio.run(call(text, [weather])))
