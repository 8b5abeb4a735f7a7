// Datatypes of tensors: elements as text, exactly, to little-endian bytes and back.

export const datatypes = [
  "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES",
] as const; // prettier-ignore
export type Datatype = (typeof datatypes)[number];

const sizes: Record<Datatype, number> = {
  BOOL: 1, UINT8: 1, UINT16: 2, UINT32: 4, UINT64: 8, INT8: 1, INT16: 2, INT32: 4, INT64: 8, FP16: 2, BF16: 2, FP32: 4, FP64: 8, BYTES: 0,
}; // prettier-ignore

/** sizeOf is the number of bytes of an element; 0 for BYTES, whose elements have lengths of their own. */
export function sizeOf(d: Datatype): number {
  return sizes[d];
}

export function isDatatype(s: string): s is Datatype {
  return (datatypes as readonly string[]).includes(s);
}

export function isFloat(d: Datatype): boolean {
  return d === "FP16" || d === "BF16" || d === "FP32" || d === "FP64";
}

export function isInteger(d: Datatype): boolean {
  return d.includes("INT");
}

/** rangeOf is the least and the greatest of a datatype of whole numbers. */
export function rangeOf(d: Datatype): [bigint, bigint] {
  const bits = BigInt(sizeOf(d) * 8);
  return d.startsWith("U") ? [0n, (1n << bits) - 1n] : [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n];
}

/** narrow rounds to a float with fewer bits, half to even, and returns its bits. */
export function narrow(x: number, exponentBits: number, mantissaBits: number): number {
  const bias = 2 ** (exponentBits - 1) - 1;
  const infinity = (2 ** exponentBits - 1) * 2 ** mantissaBits;
  const sign = x < 0 || Object.is(x, -0) ? 2 ** (exponentBits + mantissaBits) : 0;
  if (Number.isNaN(x)) return infinity + 2 ** (mantissaBits - 1);
  const a = Math.abs(x);
  if (a === Infinity) return sign + infinity;
  let exponent = a === 0 ? 1 - bias : Math.max(Math.floor(Math.log2(a)), 1 - bias);
  if (a >= 2 ** (exponent + 1)) exponent++; // log2 may round
  if (a < 2 ** exponent && exponent > 1 - bias) exponent--;
  const scaled = a / 2 ** (exponent - mantissaBits);
  let n = Math.floor(scaled);
  if (scaled - n > 0.5 || (scaled - n === 0.5 && n % 2 === 1)) n++;
  const subnormal = n < 2 ** mantissaBits;
  const bits = subnormal ? n : (exponent + bias) * 2 ** mantissaBits + (n - 2 ** mantissaBits);
  return sign + Math.min(bits, infinity);
}

/** widen is the reverse of narrow. */
export function widen(bits: number, exponentBits: number, mantissaBits: number): number {
  const mantissa = bits % 2 ** mantissaBits;
  const exponent = Math.floor(bits / 2 ** mantissaBits) % 2 ** exponentBits;
  const sign = bits >= 2 ** (exponentBits + mantissaBits) ? -1 : 1;
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return mantissa ? NaN : sign * Infinity;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias);
}

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

function toFloat(text: string): number {
  const words: Record<string, number> = {
    nan: NaN,
    inf: Infinity,
    infinity: Infinity,
    "+inf": Infinity,
    "-inf": -Infinity,
    "-infinity": -Infinity,
  };
  const word = words[text.toLowerCase()];
  if (word !== undefined) return word;
  if (!decimal.test(text)) throw new Error(`expected a number, got ${shortened(text)}`);
  return Number(text);
}

function toInteger(d: Datatype, text: string): bigint {
  const [least, most] = rangeOf(d);
  const whole = /^([+-]?\d{1,40})(?:\.0*)?$/.exec(text)?.[1];
  const n = whole === undefined ? undefined : BigInt(whole.replace("+", ""));
  if (n === undefined || n < least || n > most) throw new Error(`expected a whole number from ${least} to ${most}, got ${shortened(text)}`);
  return n;
}

function toBool(text: string): number {
  if (text === "true" || text === "1") return 1;
  if (text === "false" || text === "0") return 0;
  throw new Error(`expected true or false, got ${shortened(text)}`);
}

/** shortened is text for a message. */
export function shortened(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

function put(view: DataView, at: number, d: Datatype, text: string): void {
  switch (d) {
    case "BOOL":
      return view.setUint8(at, toBool(text));
    case "UINT8":
    case "INT8":
      return view.setUint8(at, Number(BigInt.asUintN(8, toInteger(d, text))));
    case "UINT16":
    case "INT16":
      return view.setUint16(at, Number(BigInt.asUintN(16, toInteger(d, text))), true);
    case "UINT32":
    case "INT32":
      return view.setUint32(at, Number(BigInt.asUintN(32, toInteger(d, text))), true);
    case "UINT64":
    case "INT64":
      return view.setBigUint64(at, BigInt.asUintN(64, toInteger(d, text)), true);
    case "FP16":
      return view.setUint16(at, narrow(toFloat(text), 5, 10), true);
    case "BF16":
      return view.setUint16(at, narrow(toFloat(text), 8, 7), true);
    case "FP32":
      return view.setFloat32(at, toFloat(text), true);
    case "FP64":
      return view.setFloat64(at, toFloat(text), true);
    case "BYTES":
      throw new Error("an element of BYTES has a length of its own");
  }
}

/** encode makes the bytes of elements that are written as text. */
export function encode(d: Datatype, elements: string[]): Uint8Array {
  if (d === "BYTES") return joinBytes(elements.map((e) => new TextEncoder().encode(e)));
  const size = sizeOf(d);
  const view = new DataView(new ArrayBuffer(size * elements.length));
  elements.forEach((text, i) => {
    try {
      put(view, i * size, d, text);
    } catch (e) {
      throw new Error(`element ${i + 1}: ${(e as Error).message}`);
    }
  });
  return new Uint8Array(view.buffer);
}

/** encodeNumbers makes the bytes of computed elements: whole numbers are rounded and kept in their range. */
export function encodeNumbers(d: Datatype, elements: ArrayLike<number>): Uint8Array {
  const size = sizeOf(d);
  const view = new DataView(new ArrayBuffer(size * elements.length));
  const [least, most] = isInteger(d) ? (rangeOf(d).map(Number) as [number, number]) : [-Infinity, Infinity];
  for (let i = 0; i < elements.length; i++) {
    const x = elements[i]!;
    const at = i * size;
    if (d === "FP32") view.setFloat32(at, x, true);
    else if (d === "FP64") view.setFloat64(at, x, true);
    else if (d === "FP16") view.setUint16(at, narrow(x, 5, 10), true);
    else if (d === "BF16") view.setUint16(at, narrow(x, 8, 7), true);
    else if (d === "BOOL") view.setUint8(at, x > 0 ? 1 : 0);
    else {
      const n = Math.min(Math.max(Math.round(x), least), most);
      if (size === 1) view.setUint8(at, n & 0xff);
      else if (size === 2) view.setUint16(at, n & 0xffff, true);
      else if (size === 4) view.setUint32(at, n >>> 0, true);
      else view.setBigUint64(at, BigInt.asUintN(64, BigInt(n)), true);
    }
  }
  return new Uint8Array(view.buffer);
}

/** joinBytes writes each element of BYTES behind its length. */
export function joinBytes(elements: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(elements.reduce((n, e) => n + 4 + e.length, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const e of elements) {
    view.setUint32(at, e.length, true);
    out.set(e, at + 4);
    at += 4 + e.length;
  }
  return out;
}

/** splitBytes is the reverse of joinBytes, for at most limit elements. */
export function splitBytes(data: Uint8Array, limit = Infinity): Uint8Array[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const out: Uint8Array[] = [];
  for (let at = 0; at < data.length && out.length < limit;) {
    const end = at + 4 <= data.length ? at + 4 + view.getUint32(at, true) : Infinity;
    if (end > data.length) throw new Error(`the bytes end within element ${out.length + 1}`);
    out.push(data.subarray(at + 4, end));
    at = end;
  }
  return out;
}

/** shortest is the shortest decimal that is this float of fewer than 64 bits; rounded makes such a float of any. */
function shortest(x: number, least: number, rounded: (x: number) => number): string {
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return plain(x);
  for (let digits = least; digits < 9; digits++) {
    const short = Number(x.toPrecision(digits));
    if (rounded(short) === x) return plain(short);
  }
  return plain(Number(x.toPrecision(9)));
}

const half = (x: number): number => widen(narrow(x, 5, 10), 5, 10);
const brain = (x: number): number => widen(narrow(x, 8, 7), 8, 7);

const plain = (x: number): string => (Object.is(x, -0) ? "-0" : String(x));

/** numberAt is element i, rounded where a number of JavaScript cannot be it. */
export function numberAt(d: Datatype, view: DataView, i: number): number {
  switch (d) {
    case "BOOL":
    case "UINT8":
      return view.getUint8(i);
    case "INT8":
      return view.getInt8(i);
    case "UINT16":
      return view.getUint16(2 * i, true);
    case "INT16":
      return view.getInt16(2 * i, true);
    case "UINT32":
      return view.getUint32(4 * i, true);
    case "INT32":
      return view.getInt32(4 * i, true);
    case "UINT64":
      return Number(view.getBigUint64(8 * i, true));
    case "INT64":
      return Number(view.getBigInt64(8 * i, true));
    case "FP16":
      return widen(view.getUint16(2 * i, true), 5, 10);
    case "BF16":
      return widen(view.getUint16(2 * i, true), 8, 7);
    case "FP32":
      return view.getFloat32(4 * i, true);
    case "FP64":
      return view.getFloat64(8 * i, true);
    case "BYTES":
      return NaN;
  }
}

/** decode is the reverse of encode, for at most limit elements; bytes that are no UTF-8 are shown as such. */
export function decode(d: Datatype, data: Uint8Array, limit = Infinity): string[] {
  if (d === "BYTES")
    return splitBytes(data, limit).map((e) => utf8(e) ?? `${e.length} bytes: ${hex(e.subarray(0, 32))}${e.length > 32 ? "…" : ""}`);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const n = Math.min(Math.floor(data.length / sizeOf(d)), limit);
  const out: string[] = [];
  for (let i = 0; i < n; i++) {
    if (d === "INT64") out.push(String(view.getBigInt64(8 * i, true)));
    else if (d === "UINT64") out.push(String(view.getBigUint64(8 * i, true)));
    else if (d === "BOOL") out.push(view.getUint8(i) ? "true" : "false");
    else if (d === "FP64") out.push(plain(numberAt(d, view, i)));
    else if (d === "FP16") out.push(shortest(numberAt(d, view, i), 2, half));
    else if (d === "BF16") out.push(shortest(numberAt(d, view, i), 1, brain));
    else if (d === "FP32") out.push(shortest(numberAt(d, view, i), 6, Math.fround));
    else out.push(String(numberAt(d, view, i)));
  }
  return out;
}

/** utf8 is the text of bytes; undefined where they are none. */
export function utf8(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

export function hex(data: Uint8Array): string {
  return Array.from(data, (b) => b.toString(16).padStart(2, "0")).join(" ");
}
