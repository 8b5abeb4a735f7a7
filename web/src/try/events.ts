// Server-sent events of a body.

const maxEvent = 64 << 20;

/** events yields the data of each event as it comes. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value ?? new Uint8Array(), { stream: !done });
      const lines = rest.split(/\r?\n/);
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
      if (done) return;
      if (rest.length > maxEvent) throw new Error(`an event of the stream is longer than ${maxEvent} characters`);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
