// Answers: of infer, JSON with bytes behind it, and the events of a stream.

import type { Call } from "./call";
import { decode, encode, isDatatype, joinBytes } from "./datatype";
import { type Json, member, parse, quote } from "./json";
import { nested, type Tensor } from "./values";

/** One response of a model. */
export interface Answer {
  outputs: (Tensor & { classes: boolean })[];
  parameters: [string, Json][];
  version: string;
}

/** read takes the answer of infer apart; headLength is the length of its JSON where bytes follow. */
export function read(call: Call, data: Uint8Array, headLength: string | null): Answer {
  const length = headLength === null ? data.length : Number(headLength);
  if (!Number.isInteger(length) || length < 0 || length > data.length)
    throw new Error(`the answer's JSON is said to have ${quote(headLength ?? "")} bytes of ${data.length}`);
  const head = parse(new TextDecoder().decode(data.subarray(0, length)));
  let at = length;
  const list = member(head, "outputs");
  const outputs = (list?.kind === "array" ? list.items : []).map((o) => {
    const name = textOf(member(o, "name"));
    const shapeList = member(o, "shape");
    const shape = shapeList?.kind === "array" ? shapeList.items.map((n) => Number(textOf(n))) : [];
    const size = member(member(o, "parameters"), "binary_data_size");
    const datatype = textOf(member(o, "datatype"));
    if (!isDatatype(datatype)) throw new Error(`output ${quote(name)}: expected a datatype, got ${quote(datatype)}`);
    const bytes = size ? data.slice(at, (at += Number(textOf(size)))) : elements(datatype, member(o, "data"));
    return { name, datatype, shape, data: bytes, classes: call.outputs.some((x) => x.name === name && x.classes > 0) };
  });
  const more = member(head, "parameters");
  return { outputs, parameters: more?.kind === "object" ? more.members : [], version: textOf(member(head, "model_version")) };
}

const textOf = (j: Json | undefined): string => (j?.kind === "string" || j?.kind === "number" ? j.text : "");

function elements(d: Tensor["datatype"], j: Json | undefined): Uint8Array {
  const all = j?.kind === "array" ? nested(j).elements : [];
  return d === "BYTES" ? joinBytes(all.map((s) => new TextEncoder().encode(s))) : encode(d, all);
}

/** event takes one event of a stream apart: an output with one element is a bare value, others are flat lists. */
export function event(call: Call, text: string): Answer {
  const j = parse(text);
  const error = member(j, "error");
  if (error && j.kind === "object" && j.members.length === 1) throw new Error(textOf(error));
  const outputs: Answer["outputs"] = [];
  const rest: [string, Json][] = [];
  for (const [name, value] of j.kind === "object" ? j.members : []) {
    const spec = call.outputs.find((o) => o.name === name)?.spec;
    if (!spec) {
      if (name !== "model_name" && name !== "model_version") rest.push([name, value]);
      continue;
    }
    const list: Json = value.kind === "array" ? value : { kind: "array", items: [value] };
    outputs.push({ name, datatype: spec.datatype, shape: [list.items.length], data: elements(spec.datatype, list), classes: false });
  }
  return { outputs, parameters: rest, version: textOf(member(j, "model_version")) };
}

/** One class of the classification extension. */
export interface Class {
  value: number;
  text: string;
  index: number;
  label: string;
}

/** classes reads "value:index:label" elements; a label may contain colons. */
export function classes(t: Tensor): Class[] {
  return decode(t.datatype, t.data).map((element) => {
    const [text = "", index = "", ...label] = element.split(":");
    return { value: Number(text), text, index: Number(index), label: label.join(":") };
  });
}
