// One model: what it does, what it consists of, and a form to try it.

import { type About, about, ApiError, getJSON, publicURL, request } from "../api";
import { h, name, put, say, used, visible } from "../dom";
import { bars, legend, line } from "../draw";
import { feed, type Row } from "../feed";
import { bytes, count, time } from "../format";
import { graph } from "../graph";
import { type EnsembleStep, type ModelConfig, type ModelMetadata, pathOf } from "../model";
import { mountTry } from "../try/index";
import { state } from "./models";
import { failures, slowest } from "./requests";

interface Detail {
  name: string;
  version: string;
  state: string;
  reason?: string;
  load: number;
  file?: string;
  given?: string;
  config?: string;
  json?: { ensemble_scheduling?: { step?: EnsembleStep[] } };
  instances?: Instance[];
  batches?: { size: number; count: number; input: number; infer: number; output: number }[];
}

interface Instance {
  name: string;
  kind: string;
  device: number;
  passive?: boolean;
  batches: number;
  down?: boolean;
  fails?: boolean;
  took: number;
  process?: number;
  memory?: number;
  cpu?: number;
  threads?: number;
}

const pollEvery = 2000;

export function modelPage(main: HTMLElement, model: string): () => void {
  const page = new ModelPage(model);
  put(main, page.element);
  page.begin();
  return () => page.end();
}

class ModelPage {
  readonly element: HTMLElement;
  private readonly problem = h("p", { role: "status", class: "bad" });
  private readonly outcome = h("p", { role: "status" });
  private readonly actions = h("p", { class: "actions" });
  private readonly talk = h("p", { hidden: true });
  private readonly versions = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Versions" });
  private readonly charts = h("div", { class: "tiles" });
  private readonly batching = h("div", { class: "columns" });
  // What scrolls stays, and what is in it is drawn anew: else it would lose the focus each time.
  private readonly drawing = scroller("Ensemble");
  private readonly instances = scroller("Instances");
  private readonly batches = scroller("Batches");
  private readonly requests = h("div");
  private readonly configs = h("div", { class: "columns" });
  private readonly trial = h("section", { id: "try", "aria-label": "Try it" });
  private details: Detail[] = [];
  private used = new Map<string, { cpu: number; at: number; share: number }>();
  private last: unknown[] = [];
  private configured = "";
  private tried = "";
  private ended = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private unfollow: (() => void) | undefined;
  private unmount: (() => void) | undefined;

  constructor(private readonly model: string) {
    this.element = h(
      "div",
      {},
      h("h1", {}, name(model)),
      this.problem,
      this.actions,
      this.talk,
      this.outcome,
      this.versions,
      this.charts,
      this.batching,
      titled("Ensemble", this.drawing),
      titled("Instances", this.instances),
      titled("Batches since the load", this.batches),
      this.trial,
      this.requests,
      this.configs,
    );
  }

  begin(): void {
    this.unfollow = feed.follow(() => this.draw());
    void this.poll();
    void about().then(
      (a) => {
        this.offer(a);
        if (a.openai) void this.offerTalk();
      },
      () => undefined,
    );
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.unfollow?.();
    this.unmount?.();
  }

  private rows(): Row[] {
    return [...feed.rows.values()].filter((r) => r.name === this.model);
  }

  private async poll(): Promise<void> {
    try {
      this.details = await getJSON<Detail[]>(`model?name=${encodeURIComponent(this.model)}`);
      if (this.ended) return;
      say(this.problem, "");
      this.drawDetails();
      await this.tryOut();
    } catch (e) {
      if (!this.ended) say(this.problem, e instanceof ApiError ? visible(e.message) : "the server does not answer");
    }
    if (!this.ended) this.timer = setTimeout(() => void this.poll(), pollEvery);
  }

  /** tryOut mounts the form once for each load of the model. */
  private async tryOut(): Promise<void> {
    const ready = this.details.findLast((d) => d.state === "READY");
    const of = ready ? JSON.stringify([ready.version, ready.config, ready.load]) : "";
    if (of === this.tried) return;
    this.tried = of;
    this.unmount?.();
    this.unmount = undefined;
    if (!ready) return put(this.trial);
    const at = `api/v2/models/${pathOf(this.model)}`;
    try {
      const [metadata, config, server] = await Promise.all([getJSON<ModelMetadata>(at), getJSON<ModelConfig>(`${at}/config`), about()]);
      if (this.ended) return;
      if (!server.use) {
        return put(
          this.trial,
          h("h2", {}, "Try it"),
          h("p", { class: "note" }, "Without keys, this page is for reading only on other machines than the server's."),
        );
      }
      this.unmount = mountTry(this.trial, {
        name: this.model,
        version: metadata.versions?.at(-1) ?? "",
        config,
        metadata,
        url: publicURL(server),
        keys: server.keys,
      });
    } catch (e) {
      this.tried = "";
      put(this.trial, h("p", { class: "note" }, "It cannot be tried: ", visible(e instanceof Error ? e.message : String(e))));
    }
  }

  private draw(): void {
    const rows = this.rows();
    put(this.versions, versionTable(rows));
    const latest = rows.findLast((r) => r.state === "READY") ?? rows.at(-1);
    const past =
      latest &&
      [...feed.past.entries()].find(
        ([k]) => (JSON.parse(k) as string[])[1] === this.model && (JSON.parse(k) as string[])[2] === latest.version,
      )?.[1];
    put(
      this.charts,
      h("div", { class: "tile" }, line(past?.requests ?? [], "Requests/s", count)),
      h("div", { class: "tile" }, line(past?.p99 ?? [], "p99", time)),
      latest && phaseTable(latest),
    );
    put(
      this.batching,
      latest?.sizes ? bars("Batches by size", latest.sizes) : null,
      latest?.closed ? bars("Why batches were closed", latest.closed) : null,
      latest?.causes ? bars("Why requests failed", latest.causes) : null,
      latest?.hits || latest?.misses ? bars("Response cache", { hits: latest.hits ?? 0, misses: latest.misses ?? 0 }) : null,
    );
    const steps = this.details.findLast((d) => d.json?.ensemble_scheduling)?.json?.ensemble_scheduling?.step;
    if (steps)
      fill(
        this.drawing,
        graph(steps, latest, (m) => [...feed.rows.values()].findLast((r) => r.name === m && r.state === "READY")),
      );
    if ((this.last[0] === feed.slow && this.last[1] === feed.failures) || used(this.requests)) return;
    this.last = [feed.slow, feed.failures];
    put(
      this.requests,
      slowest(feed.slow.filter((r) => r.model === this.model)),
      legend(),
      failures(feed.failures.filter((r) => r.model === this.model)),
    );
  }

  private drawDetails(): void {
    const instances = this.details.flatMap((d) => d.instances ?? []);
    fill(this.instances, instances.length ? this.instanceTable(instances) : null);
    fill(this.batches, batchTable(this.details));
    const newest = this.details.findLast((d) => d.config !== undefined);
    const of = JSON.stringify([newest?.given, newest?.config]);
    if (!newest || of === this.configured || used(this.configs)) return;
    this.configured = of;
    put(
      this.configs,
      h(
        "section",
        {},
        h("h2", {}, "Configuration as given"),
        newest.given === undefined
          ? h("p", { class: "note" }, "There is no configuration file: the server has made it.")
          : code(newest.file ?? "config.pbtxt", newest.given),
      ),
      h("section", {}, h("h2", {}, "Configuration as completed"), code("completed", newest.config ?? "")),
    );
  }

  private instanceTable(all: Instance[]): HTMLElement {
    const rows = all.map((i) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name(i.name)),
        h("td", {}, i.kind.replace("KIND_", "") + (i.kind === "KIND_GPU" ? ` ${i.device}` : "")),
        h(
          "td",
          { "data-state": i.down || i.fails ? "UNAVAILABLE" : "READY" },
          i.passive ? "passive" : i.down ? "down" : i.fails ? "failing" : i.batches ? "busy" : "idle",
        ),
        h("td", {}, time(i.took || undefined)),
        h("td", {}, i.process ?? "in the server"),
        h("td", {}, this.share(i)),
        h("td", {}, bytes(i.memory)),
        h("td", {}, i.threads ?? "–"),
      ),
    );
    return table(["Instance", "Kind", "State", "Batch takes", "Process", "CPU", "Memory", "Threads"], rows);
  }

  /** share is what of a processor a worker has used since the poll before. */
  private share(i: Instance): string {
    if (!i.process || i.cpu === undefined) return "–";
    const id = `${i.name} ${i.process}`;
    const now = performance.now();
    const before = this.used.get(id);
    if (before && now - before.at < pollEvery / 2) return `${Math.round(before.share * 100)} %`;
    const share = before ? Math.max(0, (1000 * (i.cpu - before.cpu)) / (now - before.at)) : 0;
    this.used.set(id, { cpu: i.cpu, at: now, share });
    return before ? `${Math.round(share * 100)} %` : "–";
  }

  private offer(a: About): void {
    if (this.ended) return;
    if (!a.manage) {
      const why = a.mode === "explicit" ? "" : `Models are loaded and unloaded here with --model-control-mode=explicit; it is ${a.mode}.`;
      return put(this.actions, why && h("small", { class: "note" }, why));
    }
    const button = (text: string, what: string, done: string): HTMLElement =>
      h("button", { type: "button", click: () => void this.change(text, what, done) }, text);
    put(this.actions, button("Load", "load", "loaded"), button("Reload", "load", "reloaded"), button("Unload", "unload", "unloaded"));
  }

  private async offerTalk(): Promise<void> {
    const offered = await getJSON<{ chat: string[] | null }>("chats").catch(() => null);
    if (!offered?.chat?.includes(this.model)) return;
    put(this.talk, h("a", { href: `#/chat/${encodeURIComponent(this.model)}` }, "Chat with it"));
    this.talk.hidden = false;
  }

  private async change(text: string, what: string, done: string): Promise<void> {
    if (
      !(await confirmed(
        `${text} ${visible(this.model)}?`,
        what === "unload"
          ? "Requests to it fail from then on; those in flight are answered."
          : "A version that serves goes on until the new one is ready.",
        text,
      ))
    )
      return;
    say(this.outcome, `${text}…`);
    try {
      await request(`api/v2/repository/models/${pathOf(this.model)}/${what}`, { method: "POST", body: "{}" });
      say(this.outcome, `It is ${done}.`);
    } catch (e) {
      say(this.outcome, visible(e instanceof Error ? e.message : String(e)));
    }
  }
}

function confirmed(title: string, text: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { "aria-labelledby": "sure" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "sure" }, title),
        h("p", {}, text),
        h(
          "p",
          { class: "actions" },
          h("button", { value: "yes", class: "primary" }, yes),
          h("button", { value: "no", autofocus: true }, "Cancel"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function versionTable(rows: Row[]): HTMLElement {
  return h(
    "table",
    { class: "plain" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...["Version", "State", "Req/s", "Fail/s", "Requests", "Failed", "Waiting", "Instances", "Restarts", "Memory", "Reason"].map((t) =>
          h("th", { scope: "col" }, t),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      ...rows.map((r) => {
        const cell = h("td", { class: "state" });
        state(cell, r);
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, r.version || "–"),
          cell,
          ...[
            count(r.requests),
            count(r.failures),
            count(r.total),
            count(r.failed),
            count(r.pending),
            count(r.instances),
            count(r.restarts ?? 0),
            bytes(r.memory),
          ].map((t) => h("td", {}, t)),
          h("td", { class: "name" }, visible(r.reason ?? "")),
        );
      }),
    ),
  );
}

function phaseTable(r: Row): HTMLElement {
  const all = [
    ["whole", r.request],
    ["queue", r.queue],
    ["input", r.input],
    ["infer", r.infer],
    ["output", r.output],
    ["first response", r.first],
  ] as const;
  return h(
    "table",
    { class: "plain tile" },
    h("caption", {}, "Latency"),
    h("thead", {}, h("tr", {}, ...["Phase", "p50", "p90", "p99"].map((t) => h("th", { scope: "col" }, t)))),
    h(
      "tbody",
      {},
      ...all
        .filter(([k, p]) => p || k !== "first response")
        .map(([k, p]) => h("tr", {}, h("th", { scope: "row" }, k), ...[0, 1, 2].map((i) => h("td", {}, time(p?.[i]))))),
    ),
  );
}

function batchTable(details: Detail[]): HTMLElement | null {
  const batches = details.findLast((d) => d.batches?.length)?.batches;
  if (!batches) return null;
  const rows = batches
    .slice(0, 64)
    .map((b) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, b.size),
        ...[count(b.count), time(b.input), time(b.infer), time(b.output)].map((t) => h("td", {}, t)),
      ),
    );
  return table(["Size", "Executions", "Input", "Infer", "Output"], rows);
}

function table(heads: string[], rows: HTMLElement[]): HTMLElement {
  return h(
    "table",
    { class: "plain" },
    h("thead", {}, h("tr", {}, ...heads.map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...rows),
  );
}

function scroller(label: string): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
}

/** titled is an element below its title; neither is there before it is filled. */
function titled(title: string, e: HTMLElement): HTMLElement {
  return h("section", { hidden: true }, h("h2", {}, title), e);
}

function fill(e: HTMLElement, what: Node | null): void {
  put(e, what);
  e.parentElement!.hidden = !what;
}

function code(label: string, text: string): HTMLElement {
  const shown = text.split("\n").map(visible).join("\n");
  return h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label }, shown);
}
