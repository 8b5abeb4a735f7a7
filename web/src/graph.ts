// An ensemble as a graph: its steps from the left to the right, the tensors between them.

import { svg, visible } from "./dom";
import type { Row } from "./feed";
import { count, time } from "./format";
import type { EnsembleStep } from "./model";

interface Node {
  label: string;
  under: string;
  layer: number;
  x: number;
  y: number;
  kind: "step" | "end";
}

const width = 190;
const height = 48;
const gapX = 130;
const gapY = 26;

/** graph draws an ensemble; rowOf finds what a step's model does at present. */
export function graph(steps: EnsembleStep[], own: Row | undefined, rowOf: (model: string) => Row | undefined): SVGElement {
  const nodes: Node[] = [];
  const made = new Map<string, number>(); // tensor to the step that makes it
  const edges: { from: number; to: number; tensor: string; rate: string }[] = [];
  const rates = new Map(own?.edges?.map((e) => [JSON.stringify([e.from, e.to, e.tensor]), e.rate]));
  const rate = (from: number, to: number, tensor: string): string => `${count(rates.get(JSON.stringify([from, to, tensor])) ?? 0)}/s`;
  const input = nodes.push({ label: "request", under: `${count(own?.requests ?? 0)}/s`, layer: 0, x: 0, y: 0, kind: "end" }) - 1;
  const at = steps.map((s) => {
    const r = rowOf(s.model_name);
    const under = `${count(r?.requests ?? 0)}/s` + (r?.request ? ` · p50 ${time(r.request[0])}` : "");
    return nodes.push({ label: s.model_name, under, layer: 1, x: 0, y: 0, kind: "step" }) - 1;
  });
  steps.forEach((s, i) => Object.values(s.output_map ?? {}).forEach((t) => made.set(t, i)));
  const used = new Set<string>();
  steps.forEach((s, i) =>
    Object.values(s.input_map ?? {}).forEach((t) => {
      used.add(t);
      const from = made.get(t) ?? -1;
      edges.push({ from: at[from] ?? input, to: at[i]!, tensor: t, rate: rate(from, i, t) });
    }),
  );
  for (let pass = 0; pass < steps.length; pass++) {
    for (const e of edges) nodes[e.to]!.layer = Math.max(nodes[e.to]!.layer, Math.min(nodes[e.from]!.layer + 1, steps.length));
  }
  const last = Math.max(...nodes.map((n) => n.layer)) + 1;
  const output = nodes.push({ label: "response", under: time(own?.request?.[0]), layer: last, x: 0, y: 0, kind: "end" }) - 1;
  for (const [t, from] of made) if (!used.has(t)) edges.push({ from: at[from]!, to: output, tensor: t, rate: rate(from, -1, t) });
  const filled: number[] = [];
  for (const n of nodes) {
    const row = filled[n.layer] ?? 0;
    filled[n.layer] = row + 1;
    n.x = n.layer * (width + gapX) + 4;
    n.y = row * (height + gapY) + 14;
  }
  const w = (last + 1) * (width + gapX) - gapX + 8;
  const tall = Math.max(...filled.map((n) => n ?? 0)) * (height + gapY) + 14;
  const between = new Map<string, number>();
  return svg(
    "svg",
    {
      width: w,
      height: tall,
      viewBox: `0 0 ${w} ${tall}`,
      class: "graph",
      role: "img",
      "aria-label": edges
        .map((e) => `${visible(nodes[e.from]!.label)} to ${visible(nodes[e.to]!.label)}: ${visible(e.tensor)}, ${e.rate}`)
        .join("; "),
    },
    ...edges.map((e) => {
      const a = nodes[e.from]!;
      const b = nodes[e.to]!;
      const pair = `${e.from} ${e.to}`;
      const n = between.get(pair) ?? 0;
      between.set(pair, n + 1);
      const [x1, y1, x2, y2] = [a.x + width, a.y + height / 2 + n * 13, b.x, b.y + height / 2 + n * 13];
      const bend = (x1 + x2) / 2;
      return svg(
        "g",
        {},
        svg("path", { d: `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`, class: "edge" }),
        svg(
          "text",
          { x: bend, y: (y1 + y2) / 2 - 3, class: "edge-label" },
          `${cut(e.tensor, 12)} ${e.rate}`,
          svg("title", {}, visible(e.tensor)),
        ),
      );
    }),
    ...nodes.map((n) =>
      svg(
        "g",
        {},
        svg("rect", { x: n.x, y: n.y, width, height, rx: 6, class: `node ${n.kind}` }),
        svg("text", { x: n.x + width / 2, y: n.y + 20, class: "node-label" }, cut(n.label, 24), svg("title", {}, visible(n.label))),
        svg("text", { x: n.x + width / 2, y: n.y + 38, class: "node-under" }, n.under),
      ),
    ),
  );
}

function cut(text: string, most: number): string {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}
