// A tensor of an answer: numbers, text, an image, or bars.

import { h, name, put, visible } from "../dom";
import { classes } from "./answer";
import { soundShaped, toWave } from "./audio";
import { choice, labelled } from "./control";
import { type Datatype, decode, isFloat, numberAt, splitBytes, utf8 } from "./datatype";
import { layoutOf, toPixels } from "./image";
import { count, spelled } from "./signature";
import type { Tensor } from "./values";

/** What is shown of a tensor: the rest is in the file. */
export const maxCells = 1000;
const maxText = 100_000;
const maxBars = 100;

type View = { label: string; make: () => Node[] };

/** shown is an output with the ways to look at it, the likeliest first. */
export function shown(t: Tensor & { classes: boolean }): HTMLElement {
  const views = viewsOf(t);
  const body = h("div", { class: "try-output" });
  const select = choice(views.map((v) => v.label));
  const show = (): void => put(body, ...views[select.selectedIndex]!.make());
  select.addEventListener("change", show);
  show();
  const what = t.classes ? "classes" : `${t.datatype} ${spelled(t.shape)}`;
  return h(
    "section",
    { class: "try-result" },
    h("h4", {}, name(t.name), ` ${what}`),
    views.length > 1 ? labelled("Show as", select) : null,
    body,
    t.classes ? null : saved(t),
  );
}

function viewsOf(t: Tensor & { classes: boolean }): View[] {
  if (t.classes) return [{ label: "Bars", make: () => classBars(t) }, table(t)];
  if (t.datatype === "BYTES") return [...pictures(t), { label: "Text", make: () => texts(t) }, table(t)];
  const layout = layoutOf(t.shape, "");
  const views = [table(t)];
  if (t.datatype !== "BOOL" && count(t.shape) > 1) views.push({ label: "Bars", make: () => numberBars(t) });
  if (layout && count(t.shape) > 0) {
    const image: View = {
      label: "Image",
      make: () => {
        const { pixels, how } = toPixels(t, layout);
        const canvas = h("canvas", {
          class: "try-preview",
          width: pixels.width,
          height: pixels.height,
          role: "img",
          "aria-label": `${visible(t.name)} as an image`,
        });
        canvas.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(pixels.data), pixels.width, pixels.height), 0, 0);
        return [canvas, h("p", { class: "try-note" }, how)];
      },
    };
    if (layout.channels >= 0) views.unshift(image);
    else views.push(image);
  }
  if (soundShaped(t.datatype, t.shape)) views.push({ label: "Sound", make: () => sound(t) });
  return views;
}

/** sound is a player of a tensor's samples; how many there are in a second nobody says but the user. */
function sound(t: Tensor): Node[] {
  const rate = h("input", { type: "number", min: 3000, max: 192000, value: 16000 });
  const player = h("audio", { controls: true, "aria-label": `${visible(t.name)} as a sound` });
  const said = h("p", { class: "try-note", role: "status" });
  const load = (): void => {
    const hertz = Number(rate.value);
    if (player.src) URL.revokeObjectURL(player.src);
    if (!(hertz >= 3000 && hertz <= 192000)) return void (said.textContent = `expected a rate from 3000 to 192000 Hz, got ${rate.value}`);
    player.src = URL.createObjectURL(new Blob([new Uint8Array(toWave(t, hertz))], { type: "audio/wav" }));
    said.textContent = `${(count(t.shape) / hertz).toFixed(2)} s`;
  };
  rate.addEventListener("change", load);
  load();
  return [labelled("Samples a second", rate), player, said];
}

/** scroll is a box for what may be wide, which keys reach. */
function scroll(label: string, ...children: Node[]): HTMLElement {
  return h("div", { class: "try-scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

function table(t: Tensor): View {
  return {
    label: "Table",
    make: () => {
      const n = count(t.shape);
      const width = Math.max(1, t.shape.at(-1) ?? 1);
      const columns = Math.min(width, Math.max(50, Math.floor((maxCells * width) / Math.max(n, 1))));
      const rows = Math.min(Math.ceil(n / width), Math.floor(maxCells / columns));
      const elements = decode(t.datatype, t.data, rows * width);
      const head = h("tr", {}, h("td"), ...Array.from({ length: columns }, (_, i) => h("th", { scope: "col" }, i)));
      const body = Array.from({ length: rows }, (_, r) =>
        h(
          "tr",
          {},
          t.shape.length > 1 ? h("th", { scope: "row" }, index(r, t.shape)) : h("td"),
          ...elements.slice(r * width, r * width + columns).map((e) => h("td", {}, h("bdi", {}, visible(shortened(e))))),
        ),
      );
      const cells = rows * columns;
      return [
        n > cells ? h("p", { class: "try-note" }, `The first ${rows} x ${columns} of ${n} elements.`) : "",
        n === 0
          ? h("p", {}, "There are no elements.")
          : scroll(visible(t.name), h("table", { class: "try-table" }, h("thead", {}, head), h("tbody", {}, ...body))),
      ].filter((x): x is HTMLElement => typeof x !== "string");
    },
  };
}

const shortened = (s: string): string => (s.length > 300 ? `${s.slice(0, 300)}…` : s);

/** index is where row r of the last dimension stands. */
function index(r: number, shape: number[]): string {
  const at: number[] = [];
  for (let i = shape.length - 2; i >= 0; i--) {
    at.unshift(r % shape[i]!);
    r = Math.floor(r / shape[i]!);
  }
  return at.length ? at.join(", ") : "";
}

function texts(t: Tensor): Node[] {
  const all = splitBytes(t.data, maxCells);
  const nodes: Node[] = [];
  let left = maxText;
  for (const e of all) {
    const s = utf8(e);
    if (left <= 0) break;
    nodes.push(
      s === undefined
        ? h("p", {}, `${e.length} bytes that are no text`)
        : h("pre", { class: "try-text", dir: "auto" }, lines(s.slice(0, left))),
    );
    left -= s?.length ?? 0;
  }
  const n = count(t.shape);
  if (left <= 0 || n > all.length)
    nodes.push(h("p", { class: "try-note" }, `Shown are ${nodes.length} of ${n} elements, and ${maxText} characters at most.`));
  return nodes;
}

/** lines is text with its lines and tabs, and what is not seen made visible. */
export function lines(s: string): string {
  return s.split(/(\r?\n|\t)/).map((p, i) => (i % 2 ? p : visible(p))).join(""); // prettier-ignore
}

/** pictures of BYTES: files of images. */
function pictures(t: Tensor): View[] {
  const first = splitBytes(t.data, 1)[0];
  const magic = first && String.fromCharCode(...first.subarray(0, 12));
  if (!first || !magic || !/^(?:\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP|BM)/s.test(magic)) return [];
  const make = (): Node[] => {
    const canvas = h("canvas", { class: "try-preview", width: 1, height: 1, role: "img", "aria-label": `${visible(t.name)} as an image` });
    const said = h("p", { class: "try-note", role: "status" });
    createImageBitmap(new Blob([new Uint8Array(first)])).then(
      (b) => {
        [canvas.width, canvas.height] = [b.width, b.height];
        canvas.getContext("2d")!.drawImage(b, 0, 0);
        said.textContent = `${b.width} x ${b.height} pixels`;
        b.close();
      },
      () => (said.textContent = "this image cannot be read"),
    );
    return [canvas, said];
  };
  return [{ label: "Image", make }];
}

interface Bar {
  label: string;
  value: number;
  text: string;
}

function bars(all: Bar[], caption: string): HTMLElement {
  const finite = all.map((b) => b.value).filter(Number.isFinite);
  const most = Math.max(0, ...finite);
  const least = Math.min(0, ...finite);
  const top = least >= 0 && most <= 1 ? 1 : most || 1;
  const row = (b: Bar): HTMLElement =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("bdi", {}, visible(b.label))),
      h(
        "td",
        {},
        h(
          "meter",
          { min: least, max: top, value: Number.isFinite(b.value) ? b.value : least, "aria-label": `${visible(b.label)}: ${b.text}` },
          b.text,
        ),
      ),
      h("td", {}, b.text),
    );
  return h("table", { class: "try-bars" }, h("caption", {}, caption), h("tbody", {}, ...all.map(row)));
}

/** classBars shows "value:index:label" elements, for each of the batch. */
function classBars(t: Tensor): Node[] {
  const all = classes(t);
  const each = t.shape.at(-1) || 1;
  const groups = Array.from({ length: Math.min(Math.ceil(all.length / each), 20) }, (_, i) => all.slice(i * each, (i + 1) * each));
  return groups.map((group, i) =>
    bars(
      group.slice(0, maxBars).map((c) => ({ label: c.label || `class ${c.index}`, value: c.value, text: c.text })),
      groups.length > 1 ? `Best classes of element ${i} of the batch` : "Best classes",
    ),
  );
}

function numberBars(t: Tensor): Node[] {
  const view = new DataView(t.data.buffer, t.data.byteOffset, t.data.byteLength);
  const n = Math.min(count(t.shape), maxBars);
  const texts = decode(t.datatype, t.data, n);
  const all = texts.map((text, i) => ({ label: String(i), value: numberAt(t.datatype, view, i), text: brief(t.datatype, text) }));
  return [bars(all, n < count(t.shape) ? `The first ${n} of ${count(t.shape)} elements` : "All elements")];
}

const brief = (d: Datatype, text: string): string => (isFloat(d) && text.length > 9 ? Number(text).toPrecision(6) : text);

/** saved is a link to the whole tensor, as bytes. */
function saved(t: Tensor): HTMLElement {
  const make = (): void => {
    const link = h("a", { href: URL.createObjectURL(new Blob([new Uint8Array(t.data)])), download: "output.bin" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  return h("button", { type: "button", class: "try-small", click: make }, `Save its ${t.data.length} bytes`);
}
