// Images as tensors, and tensors as images.

import { type Datatype, encodeNumbers, numberAt } from "./datatype";
import type { Tensor } from "./values";

/** Pixels are RGBA, row by row, as a canvas has them. */
export interface Pixels {
  width: number;
  height: number;
  data: Uint8ClampedArray;
}

/** Where an image's height, width and channels stand in a shape. channels is -1 where there is no such dimension. */
export interface Layout {
  height: number;
  width: number;
  channels: number;
}

const isChannels = (n: number | undefined): boolean => n === 1 || n === 3 || n === 4;
const isSide = (n: number | undefined): boolean => n !== undefined && (n < 0 || n >= 8);

/** layoutOf finds the image in a shape; undefined where there is none. Dimensions in front of it are 1 or free. */
export function layoutOf(dims: number[], format: string): Layout | undefined {
  const n = dims.length;
  const alone = (k: number): boolean => dims.slice(0, n - k).every((d) => d === 1 || d < 0);
  const channelsFirst = n >= 3 && alone(3) && isSide(dims[n - 2]) && isSide(dims[n - 1]);
  const channelsLast = n >= 3 && alone(3) && isSide(dims[n - 3]) && isSide(dims[n - 2]);
  if (format === "NCHW" && channelsFirst) return { channels: n - 3, height: n - 2, width: n - 1 };
  if (format === "NHWC" && channelsLast) return { channels: n - 1, height: n - 3, width: n - 2 };
  if (channelsLast && isChannels(dims[n - 1])) return { channels: n - 1, height: n - 3, width: n - 2 };
  if (channelsFirst && isChannels(dims[n - 3])) return { channels: n - 3, height: n - 2, width: n - 1 };
  if (n >= 2 && alone(2) && isSide(dims[n - 2]) && isSide(dims[n - 1])) return { channels: -1, height: n - 2, width: n - 1 };
  return undefined;
}

export const fits = ["stretch", "crop", "pad"] as const;
export type Fit = (typeof fits)[number];

/**
 * resize makes an image of that size: each new pixel is the mean of what it covers, or between its
 * neighbours where the new image is larger. What is added around it is black.
 */
export function resize(p: Pixels, width: number, height: number, fit: Fit): Pixels {
  const out: Pixels = { width, height, data: new Uint8ClampedArray(width * height * 4) };
  for (let i = 3; i < out.data.length; i += 4) out.data[i] = 255;
  let [scaleX, scaleY] = [p.width / width, p.height / height];
  if (fit === "crop") scaleX = scaleY = Math.min(scaleX, scaleY);
  if (fit === "pad") scaleX = scaleY = Math.max(scaleX, scaleY);
  const columns = covered(width, p.width, scaleX);
  const rows = covered(height, p.height, scaleY);
  rows.forEach((row, y) =>
    columns.forEach((column, x) => {
      const sum = [0, 0, 0];
      let total = 0;
      for (const [sy, wy] of row) {
        for (const [sx, wx] of column) {
          const at = (sy * p.width + sx) * 4;
          const weight = wx * wy;
          const alpha = p.data[at + 3]! / 255;
          for (let c = 0; c < 3; c++) sum[c]! += p.data[at + c]! * weight * alpha;
          total += weight;
        }
      }
      const to = (y * width + x) * 4;
      if (total > 0) for (let c = 0; c < 3; c++) out.data[to + c] = sum[c]! / total;
    }),
  );
  return out;
}

/** covered says of each new pixel which old ones it covers, and how much of each. */
function covered(to: number, from: number, scale: number): [number, number][][] {
  const shift = (from - to * scale) / 2; // the middle stays the middle
  return Array.from({ length: to }, (_, i) => {
    const list: [number, number][] = [];
    if (scale >= 1) {
      const [begin, end] = [Math.max(i * scale + shift, 0), Math.min((i + 1) * scale + shift, from)];
      for (let s = Math.floor(begin); s < end; s++) {
        const weight = Math.min(s + 1, end) - Math.max(s, begin);
        if (weight > 1e-9) list.push([s, weight]);
      }
      return list;
    }
    const middle = (i + 0.5) * scale + shift - 0.5;
    if (middle < -0.5 || middle > from - 0.5) return list;
    const low = Math.floor(middle);
    const part = middle - low;
    list.push([Math.min(Math.max(low, 0), from - 1), 1 - part], [Math.min(Math.max(low + 1, 0), from - 1), part]);
    return list;
  });
}

export const scales = ["0 to 255", "0 to 1", "-1 to 1", "ImageNet", "0 to N"] as const;
export type Scale = (typeof scales)[number];

export interface Normalisation {
  scale: Scale;
  /** The greatest value of "0 to N". */
  most: number;
  invert: boolean;
  bgr: boolean;
}

// The means and standard deviations of ImageNet's training images, from 0 to 1.
const mean = [0.485, 0.456, 0.406];
const deviation = [0.229, 0.224, 0.225];

function normalised(byte: number, channel: number, n: Normalisation): number {
  const x = (n.invert ? 255 - byte : byte) / 255;
  switch (n.scale) {
    case "0 to 255":
      return x * 255;
    case "0 to 1":
      return x;
    case "-1 to 1":
      return x * 2 - 1;
    case "ImageNet":
      return (x - mean[channel]!) / deviation[channel]!;
    case "0 to N":
      return x * n.most;
  }
}

/** toTensor makes a tensor of an image that has its size already. */
export function toTensor(name: string, datatype: Datatype, shape: number[], layout: Layout, p: Pixels, n: Normalisation): Tensor {
  const { width, height } = p;
  const channels = layout.channels < 0 ? 1 : shape[layout.channels]!;
  const first = layout.channels >= 0 && layout.channels < layout.height;
  const values = new Float64Array(width * height * channels);
  for (let i = 0; i < width * height; i++) {
    const rgb = [p.data[4 * i]!, p.data[4 * i + 1]!, p.data[4 * i + 2]!];
    for (let c = 0; c < channels; c++) {
      const from = n.bgr && c < 3 ? 2 - c : c;
      const byte = channels < 3 ? 0.299 * rgb[0]! + 0.587 * rgb[1]! + 0.114 * rgb[2]! : c === 3 ? 255 : rgb[from]!;
      values[first ? c * width * height + i : i * channels + c] = normalised(byte, c === 3 ? 0 : from, n);
    }
  }
  return { name, datatype, shape, data: encodeNumbers(datatype, values) };
}

/** toPixels shows the first image of a tensor; how says what was taken for black and white. */
export function toPixels(t: Tensor, layout: Layout): { pixels: Pixels; how: string } {
  const [height, width] = [t.shape[layout.height]!, t.shape[layout.width]!];
  const channels = layout.channels < 0 ? 1 : t.shape[layout.channels]!;
  const first = layout.channels >= 0 && layout.channels < layout.height;
  const view = new DataView(t.data.buffer, t.data.byteOffset, t.data.byteLength);
  const n = width * height * channels;
  let [least, most] = [0, 255];
  if (t.datatype !== "UINT8") {
    [least, most] = [Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const x = numberAt(t.datatype, view, i);
      if (Number.isFinite(x)) [least, most] = [Math.min(least, x), Math.max(most, x)];
    }
    if (least >= 0 && most <= 1) [least, most] = [0, 1];
    else if (least >= 0 && most <= 255 && most > 1) [least, most] = [0, 255];
    else if (!(most > least)) most = least + 1;
  }
  const data = new Uint8ClampedArray(width * height * 4);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) {
      const from = channels >= 3 ? c : 0;
      const x = numberAt(t.datatype, view, first ? from * width * height + i : i * channels + from);
      data[4 * i + c] = ((x - least) / (most - least)) * 255;
    }
    data[4 * i + 3] = 255;
  }
  return { pixels: { width, height, data }, how: `${least} is black, ${most} is white` };
}
