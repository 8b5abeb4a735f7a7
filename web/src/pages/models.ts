// All models.

import { getJSON } from "../api";
import { h, name, put, say, visible } from "../dom";
import { line } from "../draw";
import { feed, type Row } from "../feed";
import { bytes, count, time } from "../format";
import { type Column, VirtualTable } from "../list";

interface Entry {
  name: string;
  version?: string;
  state?: string;
}

/** state shows that of a version, by a word and a mark. */
export function state(cell: HTMLElement, r: Row): void {
  say(cell, r.state);
  cell.dataset["state"] = r.state === "READY" && r.stuck ? "STUCK" : r.state;
  cell.title = visible(r.reason ?? "");
}

function number(title: string, of: (r: Row) => number | undefined, shown: (v: number | undefined) => string, more = ""): Column<Row> {
  return { title, by: (r) => of(r) ?? -1, class: `num ${more}`, fill: (cell, r) => say(cell, shown(of(r))) };
}

const columns: Column<Row>[] = [
  {
    title: "Model",
    class: "wide",
    by: (r) => r.name,
    fill: (cell, r) => {
      const to = `#/models/${encodeURIComponent(r.name)}`;
      if (cell.dataset["of"] === to) return;
      cell.dataset["of"] = to;
      put(cell, h("a", { href: to }, name(r.name)));
    },
  },
  { title: "Version", by: (r) => Number(r.version || 0), class: "num mid", fill: (cell, r) => say(cell, r.version) },
  { title: "State", by: (r) => r.state, class: "state", fill: state },
  number("Req/s", (r) => r.requests, count),
  number("Fail/s", (r) => r.failures, count, "mid"),
  number("p50", (r) => r.request?.[0], time, "mid"),
  number("p99", (r) => r.request?.[2], time),
  number("Waiting", (r) => r.pending, count, "mid"),
  number("Batch", (r) => r.batch, count, "big"),
  number("Instances", (r) => r.instances, count, "big"),
  number("Memory", (r) => r.memory, bytes, "big"),
  { title: "Backend", by: (r) => r.backend ?? "", class: "big", fill: (cell, r) => say(cell, r.backend ?? "") },
];

export function modelsPage(main: HTMLElement): () => void {
  const table = new VirtualTable("Models", columns, 3);
  const filter = h("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: false });
  const found = h("p", { role: "status", class: "note" });
  const tiles = h("div", { class: "tiles" });
  let stored: Entry[] = [];
  const draw = (): void => {
    const loaded = new Set<string>();
    const want = filter.value.toLowerCase();
    const rows: Row[] = [];
    let all = 0;
    for (const r of feed.rows.values()) {
      loaded.add(r.name);
      all++;
      if (matches(r, want)) rows.push(r);
    }
    for (const e of stored) {
      if (loaded.has(e.name)) continue;
      const r: Row = {
        name: e.name,
        version: e.version ?? "",
        state: e.state || "NOT LOADED",
        instances: 0,
        pending: 0,
        total: 0,
        failed: 0,
      };
      all++;
      if (matches(r, want)) rows.push(r);
    }
    say(found, want ? `${rows.length} of ${all} versions` : `${all} versions`);
    table.show(rows);
    summary(tiles);
  };
  filter.addEventListener("input", draw);
  put(
    main,
    h("h1", { class: "sr" }, "Models"),
    tiles,
    h("div", { class: "row" }, h("label", { for: "filter" }, "Filter by name, state or backend"), filter, found),
    table.element,
  );
  const end = feed.follow(draw);
  const look = (): void =>
    void getJSON<Entry[]>("api/v2/repository/index", { method: "POST" }).then(
      (index) => ((stored = index), draw()),
      () => undefined,
    );
  look();
  const timer = setInterval(look, 30_000);
  return () => {
    clearInterval(timer);
    end();
  };
}

function matches(r: Row, want: string): boolean {
  return (
    !want || r.name.toLowerCase().includes(want) || r.state.toLowerCase().includes(want) || (r.backend ?? "").toLowerCase().includes(want)
  );
}

function tile(title: string, value: string, more = ""): HTMLElement {
  return h("div", { class: "tile" }, h("span", {}, title), h("strong", {}, value), more && h("small", {}, more));
}

function summary(tiles: HTMLElement): void {
  let ready = 0;
  let requests = 0;
  let failures = 0;
  let pending = 0;
  let memory = 0;
  for (const r of feed.rows.values()) {
    if (r.state === "READY") ready++;
    requests += r.requests ?? 0;
    failures += r.failures ?? 0;
    pending += r.pending;
    memory += r.memory ?? 0;
  }
  const s = feed.server;
  const cache = s?.cache;
  put(
    tiles,
    h("div", { class: "tile" }, line(feed.all.requests, "Requests/s", count)),
    tile("Ready", `${ready} of ${feed.rows.size}`, s && !s.ready ? `server: ${visible(s.reason ?? "not ready")}` : ""),
    tile("Failures/s", count(failures)),
    tile("Waiting", count(pending)),
    s ? tile("Server", `${count(s.cpu)} of ${s.processors} CPUs`, bytes(s.memory)) : null,
    tile("Workers' memory", bytes(memory)),
    cache
      ? tile(
          "Response cache",
          `${count(cache.hits)} hits`,
          `${count(cache.misses)} misses, ${count(cache.entries)} entries, ${bytes(cache.used)}`,
        )
      : null,
    ...(s?.gpus ?? []).map((g, i) =>
      tile(`GPU ${i}`, `${Math.round(g.busy * 100)} %`, `${bytes(g.used)} of ${bytes(g.total)}, ${Math.round(g.power)} W`),
    ),
  );
}
