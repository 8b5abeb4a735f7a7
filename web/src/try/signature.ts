// What a model takes and gives, from its configuration.

import type { Model, TensorConfig } from "../model";
import { type Datatype, isDatatype } from "./datatype";

export interface TensorSpec {
  name: string;
  datatype: Datatype;
  /** With the dimension of the batch in front, where the model batches; -1 is free. */
  dims: number[];
  optional: boolean;
  /** Of an output: its elements are classes with labels. */
  labels: boolean;
  /** "NCHW" or "NHWC", where the configuration says it. */
  format: string;
}

export interface Signature {
  model: string;
  /** Where clients reach the server: "http://host:8000". */
  url: string;
  /** Whether the server asks for keys. */
  keys: boolean;
  inputs: TensorSpec[];
  outputs: TensorSpec[];
  decoupled: boolean;
  batched: boolean;
  /** Requests belong to a sequence. */
  sequence: "" | "number" | "string";
  /** Why the model cannot be tried; empty if it can. */
  obstacle: string;
}

/** signatureOf reads a model's configuration. */
export function signatureOf(model: Model): Signature {
  const c = model.config;
  const batched = Number(c.max_batch_size ?? 0) > 0;
  const spec = (t: TensorConfig): TensorSpec => {
    const datatype = { TYPE_STRING: "BYTES" }[t.data_type] ?? String(t.data_type).replace(/^TYPE_/, "");
    const dims = (t.dims ?? []).map(Number);
    return {
      name: t.name,
      datatype: isDatatype(datatype) ? datatype : "BYTES",
      dims: batched && !t.is_shape_tensor ? [-1, ...dims] : dims,
      optional: t.optional === true,
      labels: Boolean(t.label_filename),
      format: (t.format ?? "").replace("FORMAT_", ""),
    };
  };
  return {
    model: model.name,
    url: model.url.replace(/\/+$/, ""),
    keys: model.keys,
    inputs: (c.input ?? []).map(spec),
    outputs: (c.output ?? []).map(spec),
    decoupled: c.model_transaction_policy?.decoupled === true,
    batched,
    sequence: !c.sequence_batching ? "" : textID(c.sequence_batching) ? "string" : "number",
    obstacle: reachable(model.name)
      ? ""
      : "A URL cannot have this model's name as it is, and HTTP looks names up as they stand there: only gRPC reaches it.",
  };
}

function textID(batching: Record<string, unknown>): boolean {
  const inputs = (batching["control_input"] ?? []) as { control?: { kind?: string; data_type?: string }[] }[];
  return inputs.some((i) => i.control?.some((c) => c.kind === "CONTROL_SEQUENCE_CORRID" && c.data_type === "TYPE_STRING"));
}

/** reachable reports whether the path of a URL can have a name as it is (RFC 3986, pchar). */
export function reachable(name: string): boolean {
  return /^[A-Za-z0-9\-._~!$&'()*+,;=:@]+$/.test(name) && name !== "." && name !== "..";
}

/** plainName reports whether no client escapes anything in a name. */
export function plainName(name: string): boolean {
  return /^[A-Za-z0-9\-._]+$/.test(name);
}

/** count is the number of elements of a shape; -1 where a dimension is free. */
export function count(shape: number[]): number {
  return shape.some((n) => n < 0) ? -1 : shape.reduce((a, b) => a * b, 1);
}

/** spelled is a shape as people write it. */
export function spelled(shape: number[]): string {
  return `[${shape.map((n) => (n < 0 ? "any" : String(n))).join(", ")}]`;
}
