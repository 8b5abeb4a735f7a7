// JSON without loss: numbers keep the text that they were written with, so that
// 9007199254740993 stays itself.

export type Json =
  | { kind: "number"; text: string }
  | { kind: "string"; text: string }
  | { kind: "boolean"; value: boolean }
  | { kind: "null" }
  | { kind: "array"; items: Json[] }
  | { kind: "object"; members: [string, Json][] };

const maxDepth = 64;
const blank = /[ \t\r\n]*/y;
const number = /-?(?:(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/y;
const text = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const word = /true|false|null/y;

/** parse reads JSON, and NaN, Infinity and -Infinity as numbers, which the server writes. */
export function parse(source: string): Json {
  let at = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0];
    at += found?.length ?? 0;
    return found;
  };
  const fail = (expected: string): never => {
    const got = at < source.length ? JSON.stringify(source.slice(at, at + 20)) : "the end";
    throw new Error(`this is no JSON: at character ${at + 1} expected ${expected}, got ${got}`);
  };
  const sign = (s: string): boolean => {
    take(blank);
    if (!source.startsWith(s, at)) return false;
    at += s.length;
    return true;
  };
  const string = (): string => JSON.parse(take(text) ?? fail("a string in double quotes")) as string;
  const value = (depth: number): Json => {
    if (depth > maxDepth) throw new Error(`this JSON nests more than ${maxDepth} levels`);
    if (sign("[")) {
      const items: Json[] = [];
      if (sign("]")) return { kind: "array", items };
      do items.push(value(depth + 1));
      while (sign(","));
      if (!sign("]")) fail("',' or ']'");
      return { kind: "array", items };
    }
    if (sign("{")) {
      const members: [string, Json][] = [];
      if (sign("}")) return { kind: "object", members };
      do {
        take(blank);
        const key = string();
        if (!sign(":")) fail("':'");
        members.push([key, value(depth + 1)]);
      } while (sign(","));
      if (!sign("}")) fail("',' or '}'");
      return { kind: "object", members };
    }
    if (source[at] === '"') return { kind: "string", text: string() };
    const n = take(number);
    if (n) return { kind: "number", text: n };
    const w = take(word);
    if (!w) fail("a value");
    return w === "null" ? { kind: "null" } : { kind: "boolean", value: w === "true" };
  };
  const all = value(0);
  take(blank);
  if (at < source.length) fail("the end");
  return all;
}

// What a reader cannot see, or what turns the direction of what follows, and halves
// of characters: all of it may stand escaped in JSON.
const hidden = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
const half = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const unseen = new RegExp(`${hidden.source}|${half.source}`, "g");

/** quote is text as JSON, in which everything that is not seen is escaped. */
export function quote(s: string): string {
  return JSON.stringify(s).replace(unseen, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** write is the reverse of parse. */
export function write(j: Json): string {
  switch (j.kind) {
    case "number":
      return j.text;
    case "string":
      return quote(j.text);
    case "boolean":
      return String(j.value);
    case "null":
      return "null";
    case "array":
      return `[${j.items.map(write).join(",")}]`;
    case "object":
      return `{${j.members.map(([k, v]) => `${quote(k)}:${write(v)}`).join(",")}}`;
  }
}

/** member is the last member of that name of an object. */
export function member(j: Json | undefined, name: string): Json | undefined {
  return j?.kind === "object" ? j.members.filter(([k]) => k === name).at(-1)?.[1] : undefined;
}
