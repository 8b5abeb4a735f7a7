// A conversation with a model over OpenAI's route of chats.

import { events } from "../try/events";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** What the user wishes of the text; members that are absent are not sent. */
export interface Wishes {
  temperature?: number;
  max_tokens?: number;
  seed?: number;
  stop?: string[];
}

/** body is what is sent. */
export function body(model: string, messages: Message[], wishes: Wishes): string {
  return JSON.stringify({ model, messages, ...wishes, stream: true, stream_options: { include_usage: true } });
}

/** What a reply has beside its text. */
export interface Told {
  finish: string;
  prompt?: number | undefined;
  tokens?: number | undefined;
  calls: string[];
}

interface Chunk {
  error?: { message?: unknown };
  choices?: {
    delta?: { content?: string | null; tool_calls?: { function?: { name?: string; arguments?: string } }[] };
    finish_reason?: string | null;
  }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null;
}

/** read hands on the pieces of a reply as they come, and returns what else it has told. */
export async function read(stream: ReadableStream<Uint8Array>, piece: (text: string) => void): Promise<Told> {
  const told: Told = { finish: "", calls: [] };
  let whole = false;
  for await (const event of events(stream)) {
    if (event === "[DONE]") {
      whole = true;
      break;
    }
    const chunk = JSON.parse(event) as Chunk;
    if (chunk.error) throw new Error(String(chunk.error.message ?? "the server says that it has failed"));
    for (const c of chunk.choices ?? []) {
      if (c.delta?.content) piece(c.delta.content);
      for (const call of c.delta?.tool_calls ?? []) told.calls.push(`${call.function?.name ?? ""}(${call.function?.arguments ?? ""})`);
      told.finish = c.finish_reason ?? told.finish;
    }
    if (chunk.usage) {
      told.prompt = chunk.usage.prompt_tokens;
      told.tokens = chunk.usage.completion_tokens;
    }
  }
  if (!whole) throw new Error("the stream has ended before the reply has");
  return told;
}

/**
 * wishes reads the fields of the form; what is empty is not asked for. Strings to stop at stand on a line
 * each, where \n is the end of a line.
 */
export function wishes(fields: { temperature: string; most: string; seed: string; stop: string }): Wishes {
  const w: Wishes = {};
  const number = (what: string, text: string, least: number, most: number, whole: boolean): number | undefined => {
    if (text.trim() === "") return undefined;
    const v = Number(text);
    if (!Number.isFinite(v) || v < least || v > most || (whole && !Number.isSafeInteger(v))) {
      throw new Error(`${what}: expected a ${whole ? "whole " : ""}number from ${least} to ${most}, got ${text}`);
    }
    return v;
  };
  const temperature = number("Temperature", fields.temperature, 0, 2, false);
  const most = number("Most tokens", fields.most, 1, 2 ** 31 - 1, true);
  const seed = number("Seed", fields.seed, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, true);
  if (temperature !== undefined) w.temperature = temperature;
  if (most !== undefined) w.max_tokens = most;
  if (seed !== undefined) w.seed = seed;
  const stop = fields.stop.split("\n").filter((s) => s !== "");
  if (stop.length) w.stop = stop.map((s) => s.replaceAll("\\n", "\n"));
  return w;
}

/**
 * readable shows what cannot be seen and what turns the direction of writing. What joins or orders letters
 * stays: texts need it, and none reaches beyond its own paragraph.
 */
export function readable(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
