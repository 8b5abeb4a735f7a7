// The ways to give an input: each is a panel of the form, and makes a tensor of what it
// holds.

import { h } from "../dom";
import { mono, soundShaped, toTensor as fromSound } from "./audio";
import { checkbox, choice, drop, labelled } from "./control";
import { isInteger } from "./datatype";
import { Drawing } from "./draw";
import { fits, type Fit, layoutOf, type Layout, type Normalisation, type Pixels, resize, scales, type Scale, toTensor } from "./image";
import { count, spelled, type TensorSpec } from "./signature";
import { type Fill, fills, filled, fixed, fromFile, fromNumbers, fromTexts, type Tensor } from "./values";

export type Said = (number | undefined)[];

export interface Mode {
  label: string;
  panel: HTMLElement;
  value(said: Said): Tensor;
}

/** modesOf are the ways to give an input, the likeliest first. */
export function modesOf(spec: TensorSpec, batched: boolean): Mode[] {
  const layout = spec.datatype === "BYTES" ? undefined : layoutOf(spec.dims, spec.format);
  const images = layout ? [drawMode(spec, layout), imageMode(spec, layout)] : [];
  const typed = spec.datatype === "BYTES" ? [textMode(spec), numbersMode(spec, "JSON")] : [numbersMode(spec, "Numbers")];
  const files = soundShaped(spec.datatype, spec.dims) ? [soundMode(spec), fileMode(spec)] : [fileMode(spec)];
  const rest = [...files, fillMode(spec, batched)];
  if (!images.length && files.length === 1 && count(spec.dims.map((d) => Math.abs(d))) > maxPrepared) typed.unshift(...rest.splice(-1));
  // Free dimensions are rarely those of an image.
  if (!layout || (spec.dims[layout.height]! < 0 && layout.channels < 0)) return [...typed, ...images, ...rest];
  const colours = layout.channels >= 0 && spec.dims[layout.channels] !== 1;
  return [...(colours ? images.reverse() : images), ...typed, ...rest];
}

/** So many elements are prepared to be edited. */
const maxPrepared = 4096;

function numbersMode(spec: TensorSpec, label: string): Mode {
  const area = h("textarea", { rows: 3, spellcheck: false, autocomplete: "off" });
  const n = count(spec.dims.map((d) => (d < 0 ? 1 : d)));
  const one = spec.datatype === "BOOL" ? "true" : spec.datatype === "BYTES" ? '"text"' : "1";
  const list = Array(n > maxPrepared ? 0 : n).fill(one);
  area.value = spec.datatype === "BYTES" ? `[${list.join(", ")}]` : list.join(" ");
  const what = spec.datatype === "BYTES" ? "A list in JSON" : "Spaces, commas or lines between them, or nested lists in JSON";
  return {
    label,
    panel: labelled("Elements", area, `${what}; shape ${spelled(spec.dims)}`),
    value: (said) => fromNumbers(spec, said, area.value),
  };
}

function textMode(spec: TensorSpec): Mode {
  const area = h("textarea", { rows: 3 });
  const lines = checkbox("Each line is an element");
  const fixedOne = count(spec.dims) === 1;
  return {
    label: "Text",
    panel: h("div", {}, labelled("Text", area), fixedOne ? null : lines.element),
    value: (said) => fromTexts(spec, said, area.value, lines.box.checked),
  };
}

function fillMode(spec: TensorSpec, batched: boolean): Mode {
  const select = choice(fills);
  return {
    label: "Fill",
    panel: labelled("With", select),
    value: (said) => filled(spec, fixed(spec, said, batched), select.value as Fill),
  };
}

function fileMode(spec: TensorSpec): Mode {
  let data: Uint8Array | undefined;
  const what = spec.datatype === "BYTES" ? "A file, which becomes one element" : `A file of ${spec.datatype} elements, little-endian`;
  return {
    label: "File",
    panel: drop(what, "", async (file) => {
      data = new Uint8Array(await file.arrayBuffer());
      return `${file.name}: ${data.length} bytes`;
    }),
    value: (said) => fromFile(spec, said, data ?? missing("a file")),
  };
}

function soundMode(spec: TensorSpec): Mode {
  let file: File | undefined;
  let samples: Float32Array | undefined;
  const rate = h("input", { type: "number", min: 3000, max: 192000, value: 16000 });
  const load = async (): Promise<string> => {
    if (!file) return "";
    samples = undefined;
    const hertz = Number(rate.value);
    if (!(hertz >= 3000 && hertz <= 192000)) throw new Error(`expected a rate from 3000 to 192000 Hz, got ${rate.value}`);
    const context = new OfflineAudioContext(1, 1, hertz); // decodes to its own rate
    const sound = await context.decodeAudioData(await file.arrayBuffer());
    samples = mono(Array.from({ length: sound.numberOfChannels }, (_, i) => sound.getChannelData(i)));
    return `${file.name}: ${fromSound(spec, [], samples).how} at ${hertz} Hz, ${sound.duration.toFixed(2)} s`;
  };
  const zone = drop("A sound", "audio/*,video/*", (f) => ((file = f), load()));
  const said = h("p", { class: "try-note", role: "status" });
  const say = (how: unknown): void => void (said.textContent = String(how));
  rate.addEventListener("change", () => void load().then(say, say));
  return {
    label: "Sound",
    panel: h("div", {}, labelled("Samples a second", rate, "What the model was trained with; channels are mixed"), zone, said),
    value: (dims) => fromSound(spec, dims, samples ?? missing("a sound")).tensor,
  };
}

/** normalisation are the controls that say how a byte of an image becomes an element. */
function normalisation(spec: TensorSpec, layout: Layout): { panel: HTMLElement; value(): Normalisation } {
  const scale = choice(scales, isInteger(spec.datatype) ? "0 to 255" : "0 to 1");
  const most = h("input", { type: "number", value: 16, step: "any" });
  const mostRow = labelled("N", most);
  const invert = checkbox("Swap black and white");
  const bgr = checkbox("Blue, green, red");
  const show = (): void => void (mostRow.hidden = scale.value !== "0 to N");
  scale.addEventListener("change", show);
  show();
  return {
    panel: h(
      "div",
      { class: "try-row" },
      labelled("Values", scale),
      mostRow,
      invert.element,
      layout.channels < 0 || spec.dims[layout.channels] === 1 ? null : bgr.element,
    ),
    value: () => ({ scale: scale.value as Scale, most: Number(most.value), invert: invert.box.checked, bgr: bgr.box.checked }),
  };
}

const maxSide = 2048;

/** place makes a tensor of an image, of the size that the shape has, or natural where that is free. */
function place(spec: TensorSpec, layout: Layout, said: Said, p: Pixels, natural: [number, number], fit: Fit, n: Normalisation): Tensor {
  const side = (at: number, own: number): number => Math.min(spec.dims[at]! < 0 ? (said[at] ?? own) : spec.dims[at]!, maxSide);
  const [height, width] = [side(layout.height, natural[1]), side(layout.width, natural[0])];
  const shape = spec.dims.map((d, i) =>
    i === layout.height ? height : i === layout.width ? width : i === layout.channels && d < 0 ? (said[i] ?? 3) : 1,
  );
  if (layout.channels >= 0 && spec.dims[layout.channels]! > 0) shape[layout.channels] = spec.dims[layout.channels]!;
  const channels = layout.channels < 0 ? 1 : shape[layout.channels]!;
  if (channels !== 1 && channels !== 3 && channels !== 4)
    throw new Error(`expected 1, 3 or 4 channels of an image, the shape ${spelled(shape)} has ${channels}`);
  if (spec.dims.some((d, i) => d < 0 && said[i] !== undefined && said[i] !== shape[i]))
    throw new Error(`one image has the shape ${spelled(shape)}`);
  return toTensor(spec.name, spec.datatype, shape, layout, resize(p, width, height, fit), n);
}

function imageMode(spec: TensorSpec, layout: Layout): Mode {
  let pixels: Pixels | undefined;
  const fit = choice(fits);
  const how = normalisation(spec, layout);
  const preview = h("canvas", { class: "try-preview", width: 0, height: 0, hidden: true, role: "img", "aria-label": "The image" });
  return {
    label: "Image",
    panel: h(
      "div",
      {},
      drop("An image", "image/*", async (file) => {
        const bitmap = await createImageBitmap(file);
        const scale = Math.min(1, maxSide / Math.max(bitmap.width, bitmap.height));
        preview.width = Math.max(1, Math.round(bitmap.width * scale));
        preview.height = Math.max(1, Math.round(bitmap.height * scale));
        const c = preview.getContext("2d", { willReadFrequently: true })!;
        c.drawImage(bitmap, 0, 0, preview.width, preview.height);
        bitmap.close();
        pixels = c.getImageData(0, 0, preview.width, preview.height);
        preview.hidden = false;
        return `${file.name}: ${pixels.width} x ${pixels.height} pixels`;
      }),
      preview,
      labelled("Fit", fit, `into the shape ${spelled(spec.dims)}`),
      how.panel,
    ),
    value: (said) => {
      const p = pixels ?? missing("an image");
      return place(spec, layout, said, p, [p.width, p.height], fit.value as Fit, how.value());
    },
  };
}

function drawMode(spec: TensorSpec, layout: Layout): Mode {
  const drawing = new Drawing(spec.name);
  const how = normalisation(spec, layout);
  return {
    label: "Drawing",
    panel: h("div", {}, drawing.element, how.panel),
    value: (said) => place(spec, layout, said, drawing.pixels(), [28, 28], "stretch", how.value()),
  };
}

function missing(what: string): never {
  throw new Error(`expected ${what}, none has been given`);
}

/** classifiable reports whether the classification extension takes an output. */
export function classifiable(spec: TensorSpec): boolean {
  return isInteger(spec.datatype) || spec.datatype === "FP32" || spec.datatype === "FP64";
}
