// Server-sent events of an answer, read as they come. For answers that end: `EventSource` would ask again.

/** @param {Response} answer @param {(data: string) => void} each */
export async function readEvents(answer, each) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (reader) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value.replaceAll("\r", "");
    const events = rest.split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length > 0) each(data.join("\n"));
    }
  }
}
