// What a user types, as a tensor.

import { type Datatype, encode, encodeNumbers, isFloat, joinBytes, shortened, sizeOf } from "./datatype";
import { type Json, parse } from "./json";
import { count, spelled, type TensorSpec } from "./signature";

/** Bounds of one tensor: what a tab can hold several times. */
export const maxElements = 1 << 24;
export const maxBytes = 64 << 20;
/** The longest text that is taken apart as numbers. */
export const maxText = 8 << 20;

export interface Tensor {
  name: string;
  datatype: Datatype;
  shape: number[];
  /** Little-endian elements; those of BYTES behind their lengths. */
  data: Uint8Array;
}

interface Entered {
  elements: string[];
  /** The shape of the brackets; undefined for a plain list. */
  shape?: number[];
}

/** entered takes numbers apart: a list with spaces, commas or lines between them, or nested JSON. */
export function entered(source: string): Entered {
  if (source.length > maxText) throw new Error(`expected at most ${maxText} characters, got ${source.length}: take a file instead`);
  const s = source.trim();
  if (!s.startsWith("[")) return { elements: s ? s.split(/[\s,;]+/).filter(Boolean) : [] };
  return nested(parse(s));
}

/** nested flattens arrays within arrays, which must be of one shape. */
export function nested(j: Json): Entered {
  const elements: string[] = [];
  const shape: number[] = [];
  const walk = (j: Json, depth: number): void => {
    if (j.kind === "array") {
      if (shape.length === depth && elements.length === 0) shape.push(j.items.length);
      else if (shape[depth] !== j.items.length)
        throw new Error(
          `the brackets do not have one shape: expected ${shape[depth] ?? "no"} elements ` +
            `in each list of level ${depth + 1}, got ${j.items.length}`,
        );
      for (const item of j.items) walk(item, depth + 1);
      return;
    }
    if (depth !== shape.length) throw new Error("the brackets do not have one shape: lists and elements stand beside each other");
    if (j.kind === "number" || j.kind === "string") elements.push(j.text);
    else if (j.kind === "boolean") elements.push(String(j.value));
    else throw new Error(`expected numbers, texts, true or false, got ${j.kind === "null" ? "null" : "an object"}`);
  };
  walk(j, 0);
  return { elements, shape };
}

/**
 * resolve is the shape of n elements: what the user has said of free dimensions, or what the
 * brackets say; else the last free dimension takes what is left and others are 1.
 */
export function resolve(spec: TensorSpec, said: (number | undefined)[], n: number, brackets?: number[]): number[] {
  const wanted = spec.dims.map((d, i) => (d < 0 ? (said[i] ?? -1) : d));
  if (brackets && brackets.length === wanted.length) {
    const wrong = wanted.findIndex((d, i) => d >= 0 && d !== brackets[i]);
    if (wrong >= 0) throw new Error(`expected the shape ${spelled(wanted)}, got ${spelled(brackets)}`);
    return brackets;
  }
  const shape = [...wanted];
  let left = n;
  let free = -1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const d = shape[i]!;
    if (d < 0 && free < 0) free = i;
    else if (d < 0) shape[i] = 1;
    else left = d === 0 ? (n === 0 ? 0 : NaN) : left / d;
  }
  if (free >= 0) shape[free] = left;
  if (free >= 0 ? !Number.isInteger(left) : count(shape) !== n) {
    const expected = free >= 0 ? `a multiple of ${count(wanted.map((d) => (d < 0 ? 1 : d)))}` : String(count(shape));
    throw new Error(`expected ${expected} elements for the shape ${spelled(wanted)}, got ${n}`);
  }
  return shape;
}

/** fixed is the shape where the user has said all free dimensions, the batch excepted, which is 1 then. */
export function fixed(spec: TensorSpec, said: (number | undefined)[], batched: boolean): number[] {
  return spec.dims.map((d, i) => {
    const n = d < 0 ? (said[i] ?? (batched && i === 0 ? 1 : -1)) : d;
    if (n < 0) throw new Error(`dimension ${i + 1} of the shape ${spelled(spec.dims)} is free: say how many`);
    return n;
  });
}

/** bounded refuses what a page cannot hold. */
export function bounded(d: Datatype, shape: number[]): number {
  const n = shape.reduce((a, b) => a * b, 1);
  const size = Math.max(sizeOf(d), 1) * n;
  if (n > maxElements || size > maxBytes) {
    throw new Error(
      `a tensor of ${n} elements is too large for this page: ` +
        `expected at most ${Math.floor(Math.min(maxElements, maxBytes / Math.max(sizeOf(d), 1)))}`,
    );
  }
  return n;
}

/** fromNumbers is a tensor of what the user has typed. */
export function fromNumbers(spec: TensorSpec, said: (number | undefined)[], source: string): Tensor {
  const { elements, shape: brackets } = entered(source);
  const shape = resolve(spec, said, elements.length, brackets);
  bounded(spec.datatype, shape);
  return { name: spec.name, datatype: spec.datatype, shape, data: encode(spec.datatype, elements) };
}

/** fromTexts is a tensor of BYTES: one text, or one of each line. */
export function fromTexts(spec: TensorSpec, said: (number | undefined)[], source: string, lines: boolean): Tensor {
  const elements = lines ? source.replace(/\r?\n$/, "").split(/\r?\n/) : [source];
  const shape = resolve(spec, said, elements.length);
  bounded("BYTES", shape);
  return { name: spec.name, datatype: "BYTES", shape, data: encode("BYTES", elements) };
}

/** fromFile is a tensor of a file's bytes: the elements, or the one element of BYTES. */
export function fromFile(spec: TensorSpec, said: (number | undefined)[], file: Uint8Array): Tensor {
  const size = sizeOf(spec.datatype);
  if (file.length > maxBytes) throw new Error(`expected a file of at most ${maxBytes} bytes, got ${file.length}`);
  if (size && file.length % size) throw new Error(`expected elements of ${size} bytes each, got a file of ${file.length} bytes`);
  const shape = resolve(spec, said, size ? file.length / size : 1);
  return { name: spec.name, datatype: spec.datatype, shape, data: size ? file : joinBytes([file]) };
}

export const fills = ["zeros", "ones", "counting", "random"] as const;
export type Fill = (typeof fills)[number];

/** filled is a tensor without anything to type; random is from 0 to 1, of whole numbers 0 to 99. */
export function filled(spec: TensorSpec, shape: number[], fill: Fill, random: () => number = Math.random): Tensor {
  const n = bounded(spec.datatype, shape);
  const d = spec.datatype;
  const make: Record<Fill, (i: number) => number> = {
    zeros: () => 0,
    ones: () => 1,
    counting: (i) => i,
    random: () => (isFloat(d) ? random() : d === "BOOL" ? Math.round(random()) : Math.floor(random() * 100)),
  };
  const values = Float64Array.from({ length: n }, (_, i) => make[fill](i));
  const data = d === "BYTES" ? encode(d, Array.from(values, String)) : encodeNumbers(d, values);
  return { name: spec.name, datatype: d, shape, data };
}

/** dimension reads what the user has said of a free dimension; empty is undefined. */
export function dimension(source: string): number | undefined {
  const s = source.trim();
  if (!s) return undefined;
  if (!/^\d{1,10}$/.test(s)) throw new Error(`expected a dimension of the shape, a whole number from 0 on, got ${shortened(s)}`);
  return Number(s);
}
