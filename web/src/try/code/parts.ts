// What stands in the lines of a call, and what in files beside them.

import { type Call, type Wire, wire, written } from "../call";

/** More bytes than these are read from a file. */
export const maxInline = 24 << 10;

export interface File {
  name: string;
  data: Uint8Array;
}

export interface Prepared {
  call: Call;
  wire: Wire;
  address: string;
  /** The file that a part, or the JSON of a stream, is read from; undefined where the lines have it. */
  fileOf: Map<Uint8Array | "head", string>;
  files: File[];
}

/** prepare decides what goes into files. Their names are ours: input-1.bin is the first input. */
export function prepare(call: Call): Prepared {
  const w = wire(call);
  const p: Prepared = { call, wire: w, address: call.url + w.path, fileOf: new Map(), files: [] };
  const add = (part: Uint8Array | "head", name: string, data: Uint8Array): void => {
    p.fileOf.set(part, name);
    p.files.push({ name, data });
  };
  const head = new TextEncoder().encode(w.head);
  if (head.length > maxInline) add("head", "request.json", head);
  if (!call.stream) {
    call.inputs.forEach((t, i) => {
      if (!written(t) && t.data.length > maxInline) add(t.data, `input-${i + 1}.bin`, t.data);
    });
  }
  return p;
}

/** headLength is the number of bytes of the JSON, which the server is told where bytes follow. */
export function headLength(w: Wire): number {
  return new TextEncoder().encode(w.head).length;
}
