// One call: tensors and wishes, and the bytes that go over HTTP.

import { decode, isFloat, rangeOf, splitBytes, utf8 } from "./datatype";
import { type Json, member, parse, quote, write } from "./json";
import { count, type Signature, type TensorSpec } from "./signature";
import { resolve, type Tensor } from "./values";

export interface Output {
  name: string;
  /** How many of the best classes are wanted in place of the values; 0 for the values. */
  classes: number;
  /** The elements come as bytes, not as JSON. */
  bytes: boolean;
}

export interface Call {
  url: string;
  model: string;
  keys: boolean;
  /** Responses come as events; tensors travel in flat JSON. */
  stream: boolean;
  inputs: Tensor[];
  /** Those of the model, in its order. */
  outputs: (Output & { spec: TensorSpec })[];
  /** Of the request, by name. */
  parameters: [string, Json][];
}

/** An HTTP request. */
export interface Wire {
  path: string;
  /** JSON; the parts stand behind it. */
  head: string;
  parts: Uint8Array[];
}

/** So many elements are written as text; longer tensors travel as bytes. */
export const maxWritten = 256;
/** An output of more elements comes as bytes, if the user does not say otherwise. */
const maxRead = 20_000;

/** written is a tensor's elements as JSON; undefined where they travel as bytes: those that JSON does not have, and many. */
export function written(t: Tensor): string[] | undefined {
  if (t.datatype === "FP16" || t.datatype === "BF16" || count(t.shape) > maxWritten || t.data.length > 16 * maxWritten) return undefined;
  return lossless(t);
}

function lossless(t: Tensor): string[] | undefined {
  if (t.datatype === "BYTES") {
    const texts = splitBytes(t.data).map(utf8);
    return texts.every((s) => s !== undefined) ? texts.map((s) => quote(s!)) : undefined;
  }
  const elements = decode(t.datatype, t.data);
  return isFloat(t.datatype) && elements.some((e) => /[NI]/.test(e)) ? undefined : elements;
}

/** mustBytes reports whether JSON does not have a datatype. */
export function mustBytes(spec: TensorSpec): boolean {
  return spec.datatype === "FP16" || spec.datatype === "BF16";
}

/** likelyBytes reports whether an output should come as bytes. */
export function likelyBytes(spec: TensorSpec): boolean {
  return mustBytes(spec) || count(spec.dims.map((d) => Math.abs(d))) > maxRead;
}

/** asBytes reports whether an output comes as bytes. */
export function asBytes(o: Output): boolean {
  return o.classes === 0 && o.bytes;
}

/** named reports whether the request has to name its outputs. */
export function named(call: Call): boolean {
  return call.outputs.some((o) => o.classes > 0 || asBytes(o));
}

/** wire makes the HTTP request of a call. */
export function wire(call: Call): Wire {
  const path = `/v2/models/${call.model}`;
  if (call.stream) return { path: `${path}/generate_stream`, head: flat(call), parts: [] };
  const parts: Uint8Array[] = [];
  const inputs = call.inputs.map((t) => {
    const elements = written(t);
    const head = `"name":${quote(t.name)},"datatype":"${t.datatype}","shape":[${t.shape.join(",")}]`;
    if (elements) return `{${head},"data":[${elements.join(",")}]}`;
    parts.push(t.data);
    return `{${head},"parameters":{"binary_data_size":${t.data.length}}}`;
  });
  const members = [`"inputs":[${inputs.join(",")}]`];
  if (named(call)) members.push(`"outputs":[${call.outputs.map(wish).join(",")}]`);
  if (call.parameters.length) members.push(`"parameters":${write({ kind: "object", members: call.parameters })}`);
  return { path: `${path}/infer`, head: `{${members.join(",")}}`, parts };
}

function wish(o: Output): string {
  const how = o.classes > 0 ? `,"parameters":{"classification":${o.classes}}` : asBytes(o) ? `,"parameters":{"binary_data":true}` : "";
  return `{"name":${quote(o.name)}${how}}`;
}

/** flat is the JSON of a stream: inputs by their names, parameters beside them. */
export function flat(call: Call): string {
  const members = call.inputs.map((t) => {
    if (t.datatype === "FP16" || t.datatype === "BF16")
      throw new Error(`${t.name}: a stream over HTTP is JSON, which does not have ${t.datatype}: only gRPC streams it`);
    const elements = t.datatype === "BYTES" || isFloat(t.datatype) ? lossless(t) : decode(t.datatype, t.data);
    if (!elements) throw new Error(`${t.name}: a stream over HTTP is JSON, which does not have these elements: only gRPC streams them`);
    return `${quote(t.name)}:${elements.length === 1 ? elements[0] : `[${elements.join(",")}]`}`;
  });
  return `{${[...members, ...call.parameters.map(([k, v]) => `${quote(k)}:${write(v)}`)].join(",")}}`;
}

/** streamed checks that a stream gives a tensor the shape that it has: one follows there from the number of elements. */
export function streamed(spec: TensorSpec, t: Tensor): void {
  const shape = resolve(spec, [], count(t.shape));
  if (shape.join() !== t.shape.join()) {
    throw new Error(
      `${t.name}: a stream over HTTP has no shapes: these elements would have [${shape.join(", ")}], not [${t.shape.join(", ")}]`,
    );
  }
}

/** body is what is sent. */
export function body(w: Wire): Uint8Array {
  const head = new TextEncoder().encode(w.head);
  const out = new Uint8Array(w.parts.reduce((n, p) => n + p.length, head.length));
  let at = 0;
  for (const p of [head, ...w.parts]) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** parameters reads those of the request, an object of strings, numbers and booleans. */
export function parameters(source: string, s: Signature): [string, Json][] {
  if (!source.trim()) return [];
  const j = parse(source);
  if (j.kind !== "object") throw new Error('expected an object, as in {"priority": 1}');
  for (const [name, value] of j.members) {
    if (!["string", "number", "boolean"].includes(value.kind))
      throw new Error(`${quote(name)}: expected a string, a number, true or false`);
    if (value.kind === "number" && !parameterNumber(value.text)) throw new Error(`${quote(name)}: ${value.text} is no number of 64 bits`);
    if (s.inputs.some((i) => i.name === name)) throw new Error(`${quote(name)} is an input, not a parameter`);
  }
  return j.members.filter(([name, value]) => member(j, name) === value);
}

function parameterNumber(text: string): boolean {
  if (!/^-?\d+$/.test(text)) return Number.isFinite(Number(text));
  return BigInt(text) >= rangeOf("INT64")[0] && BigInt(text) <= rangeOf("UINT64")[1];
}
