import assert from "node:assert/strict";
import { test } from "node:test";
import { body, read, readable, wishes } from "../src/chat/talk";

function stream(...pieces: string[]): ReadableStream<Uint8Array> {
  const text = new TextEncoder();
  return new ReadableStream({
    start(c) {
      for (const p of pieces) c.enqueue(text.encode(p));
      c.close();
    },
  });
}

const chunk = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;

test("a reply is read piece by piece, wherever its events are cut", async () => {
  const whole =
    chunk({ role: "assistant", content: "" }) +
    chunk({ content: "größe" }) +
    chunk({ content: " 三" }) +
    chunk({}, { finish_reason: "length" });
  const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })}\n\ndata: [DONE]\n\n`;
  for (const at of [1, 7, 50, 200]) {
    const pieces: string[] = [];
    const told = await read(stream(whole.slice(0, at), whole.slice(at), usage), (p) => pieces.push(p));
    assert.deepEqual(pieces, ["größe", " 三"]);
    assert.deepEqual(told, { finish: "length", calls: [], prompt: 3, tokens: 2 });
  }
});

test("a reply that fails or breaks off says so", async () => {
  await assert.rejects(
    read(stream(chunk({ content: "a" }), 'data: {"error":{"message":"no room"}}\n\n'), () => undefined),
    /no room/,
  );
  await assert.rejects(
    read(stream(chunk({ content: "a" })), () => undefined),
    /ended before/,
  );
  await assert.rejects(
    read(stream("data: nothing\n\n"), () => undefined),
    SyntaxError,
  );
});

test("calls of tools are told", async () => {
  const calls = [{ function: { name: "look", arguments: '{"a":1}' } }];
  const told = await read(stream(chunk({ tool_calls: calls }), "data: [DONE]\n\n"), () => undefined);
  assert.deepEqual(told.calls, ['look({"a":1})']);
});

test("wishes are read, and what is wrong with them is said", () => {
  const none = { temperature: "", most: " ", seed: "", stop: "\n" };
  assert.deepEqual(wishes(none), {});
  assert.deepEqual(wishes({ temperature: "0.5", most: "7", seed: "-3", stop: "END\n\\n\\n" }), {
    temperature: 0.5,
    max_tokens: 7,
    seed: -3,
    stop: ["END", "\n\n"],
  });
  for (const [field, text, error] of [
    ["temperature", "3", /Temperature: expected a number from 0 to 2, got 3/],
    ["most", "1.5", /Most tokens: expected a whole/],
    ["seed", "x", /Seed: .*got x/],
  ] as const) {
    assert.throws(() => wishes({ ...none, [field]: text }), error);
  }
  assert.deepEqual(JSON.parse(body("m", [{ role: "user", content: "x" }], { seed: 1 })), {
    model: "m",
    messages: [{ role: "user", content: "x" }],
    seed: 1,
    stream: true,
    stream_options: { include_usage: true },
  });
});

test("what turns the direction of writing is seen", () => {
  assert.equal(readable("a\u202eb\u0000\n\t\u200d"), "a\\u202eb\\u0000\n\t\u200d");
});
