// Drawings.

import { h, name, svg } from "./dom";
import { count, time } from "./format";
import type { Ended, Step } from "./feed";

/** line draws what was in the last seconds. */
export function line(values: number[], label: string, shown: (v: number) => string): HTMLElement {
  const width = 240;
  const height = 48;
  const most = Math.max(...values, 1e-9);
  const step = width / Math.max(1, 119);
  const from = width - (values.length - 1) * step;
  const points = values.map((v, i) => `${(from + i * step).toFixed(1)},${(height - 2 - (v / most) * (height - 4)).toFixed(1)}`);
  const now = values.at(-1) ?? 0;
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, label, " ", h("strong", {}, shown(now))),
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${label}: now ${shown(now)}, at most ${shown(Math.max(...values, 0))}`,
      },
      svg("polyline", { points: points.join(" "), class: "trace", "vector-effect": "non-scaling-stroke" }),
    ),
  );
}

/** bars is a table of numbers with a bar each. */
export function bars(title: string, numbers: Record<string, number>, shown: (v: number) => string = (v) => `${count(v)}/s`): HTMLElement {
  const entries = Object.entries(numbers);
  const most = Math.max(...entries.map(([, v]) => v), 1e-9);
  return h(
    "table",
    { class: "bars" },
    h("caption", {}, title),
    h(
      "tbody",
      {},
      ...entries.map(([k, v]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, k),
          h("td", {}, h("meter", { min: 0, max: most, value: v, "aria-label": `${k}: ${shown(v)}` })),
          h("td", {}, shown(v)),
        ),
      ),
    ),
  );
}

/** phases are the parts of a request's time, in their order. */
export const phases = ["prepare", "queue", "input", "infer", "output", "respond"] as const;

/** timeline draws where the time of a request went. */
export function timeline(r: Ended): SVGElement {
  const total = Math.max(r.composed ? r.phases.reduce((a, b) => a + b, 0) : r.took, 1e-9);
  const text = phases.map((p, i) => `${p} ${time(r.phases[i])}`).join(", ");
  const parts: SVGElement[] = [];
  let at = 0;
  r.phases.forEach((v, i) => {
    const width = (v / total) * 300;
    if (width > 0)
      parts.push(
        svg(
          "rect",
          { x: at.toFixed(2), y: 0, width: Math.max(0.5, width).toFixed(2), height: 14, class: `phase-${phases[i]}` },
          svg("title", {}, `${phases[i]} ${time(v)}`),
        ),
      );
    at += width;
  });
  return svg("svg", { viewBox: "0 0 300 14", preserveAspectRatio: "none", class: "timeline", role: "img", "aria-label": text }, ...parts);
}

/** spans draws the steps and the calls of a request below each other, each where it was in the time of the whole;
    null where there are none. */
export function spans(r: Ended): HTMLElement | null {
  return r.steps?.length ? list(r.steps, r.left ?? 0, Math.max(r.took, 1e-9)) : null;
}

function list(steps: Step[], left: number, whole: number): HTMLElement {
  return h("ol", { class: "spans" }, ...steps.map((s) => h("li", {}, ...span(s, whole))), left ? h("li", {}, `${count(left)} more`) : null);
}

function span(s: Step, whole: number): (Node | string)[] {
  const at = (ms: number): string => Math.min(300, (ms / whole) * 300).toFixed(2);
  const parts: SVGElement[] = [
    svg("rect", { x: at(s.from), y: 6, width: at(Math.max(s.took, whole / 300)), height: 2, class: "phase-respond" }),
  ];
  let from = s.from;
  const text: string[] = [];
  s.phases.forEach((v, i) => {
    const phase = phases[i + 1]!;
    text.push(`${phase} ${time(v)}`);
    if (v > 0)
      parts.push(
        svg(
          "rect",
          { x: at(from), y: 0, width: at(Math.max(v, whole / 600)), height: 14, class: `phase-${phase}` },
          svg("title", {}, `${phase} ${time(v)}`),
        ),
      );
    from += v;
  });
  const label = `from ${time(s.from)} on, took ${time(s.took)}: ${text.join(", ")}`;
  return [
    h(
      "span",
      { class: "span-name" },
      s.model ? name(s.model) : "a model of others",
      s.version && ` ${s.version}`,
      s.failed && h("strong", { class: "bad" }, " failed"),
    ),
    " ",
    h("small", {}, `${time(s.from)} + ${time(s.took)}`),
    svg("svg", { viewBox: "0 0 300 14", preserveAspectRatio: "none", class: "timeline", role: "img", "aria-label": label }, ...parts),
    ...(s.steps?.length || s.left ? [list(s.steps ?? [], s.left ?? 0, whole)] : []),
  ];
}

/** legend says what the colours of a timeline are. */
export function legend(): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    ...phases.map((p) =>
      h(
        "li",
        {},
        svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, class: `phase-${p}` })),
        p,
      ),
    ),
  );
}
