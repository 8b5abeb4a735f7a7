// Sounds as tensors.

import { type Datatype, encodeNumbers, isFloat, numberAt } from "./datatype";
import { count, spelled, type TensorSpec } from "./signature";
import { maxElements, resolve, type Tensor } from "./values";

/** soundShaped reports whether a shape can be that of samples: one dimension is long or free, the others are 1 or free. */
export function soundShaped(datatype: Datatype, dims: number[]): boolean {
  if (!isFloat(datatype) && datatype !== "INT16") return false;
  const long = dims.at(-1);
  return long !== undefined && (long < 0 || long >= 1000) && dims.slice(0, -1).every((d) => d === 1 || d < 0);
}

/** mono is the mean of channels. */
export function mono(channels: Float32Array[]): Float32Array {
  const out = new Float32Array(channels[0]?.length ?? 0);
  for (const c of channels) for (let i = 0; i < out.length; i++) out[i]! += c[i]! / channels.length;
  return out;
}

/** toTensor makes a tensor of samples from -1 to 1; a fixed length cuts them, or adds silence. */
export function toTensor(spec: TensorSpec, said: (number | undefined)[], samples: Float32Array): { tensor: Tensor; how: string } {
  let how = `${samples.length} samples`;
  const want = count(spec.dims.map((d, i) => (d < 0 ? (said[i] ?? (i < spec.dims.length - 1 ? 1 : -1)) : d)));
  let kept: Float32Array = samples;
  if (want > maxElements || samples.length > maxElements)
    throw new Error(`expected at most ${maxElements} samples, got ${Math.max(want, samples.length)}`);
  if (want >= 0 && want !== samples.length) {
    kept = new Float32Array(want);
    kept.set(samples.subarray(0, want));
    how +=
      want < samples.length
        ? `, cut to ${want} for the shape ${spelled(spec.dims)}`
        : `, with silence up to ${want} for the shape ${spelled(spec.dims)}`;
  }
  const shape = resolve(spec, said, kept.length);
  const values = spec.datatype === "INT16" ? Float64Array.from(kept, (x) => x * 32767) : kept;
  return { tensor: { name: spec.name, datatype: spec.datatype, shape, data: encodeNumbers(spec.datatype, values) }, how };
}

/** toWave is a file (WAV, 16 bits) of samples from -1 to 1, or of INT16. */
export function toWave(t: Tensor, rate: number): Uint8Array {
  const view = new DataView(t.data.buffer, t.data.byteOffset, t.data.byteLength);
  const n = count(t.shape);
  const samples = Float64Array.from({ length: n }, (_, i) => numberAt(t.datatype, view, i) * (t.datatype === "INT16" ? 1 : 32767));
  const out = new Uint8Array(44 + 2 * n);
  const head = new DataView(out.buffer);
  const put = (at: number, text: string): void => out.set(new TextEncoder().encode(text), at);
  put(0, "RIFF");
  head.setUint32(4, 36 + 2 * n, true);
  put(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true); // samples as they are
  head.setUint16(22, 1, true); // one channel
  head.setUint32(24, rate, true);
  head.setUint32(28, 2 * rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  put(36, "data");
  head.setUint32(40, 2 * n, true);
  out.set(encodeNumbers("INT16", samples), 44);
  return out;
}
