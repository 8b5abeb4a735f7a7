// Requests that failed, and the slowest.

import { h, name, put, say, used, visible } from "../dom";
import { legend, spans, timeline } from "../draw";
import { type Ended, feed } from "../feed";
import { clock, count, time } from "../format";

/** failures is a table of requests that failed. */
export function failures(all: Ended[]): HTMLElement {
  return table(
    "Requests that failed",
    ["When", "Model", "Reason", "After", "Error"],
    all.map((r) => [clock(r.at), model(r), r.reason ?? "", time(r.took), h("span", { class: "name" }, visible(r.error ?? ""))]),
    "No request has failed of late.",
  );
}

/** slowest is a table of requests with where their time went. */
export function slowest(all: Ended[]): HTMLElement {
  return table(
    "The slowest requests of the last minute or two",
    ["When", "Model", "Request", "Took", "Where the time went"],
    all.map((r) => [clock(r.at), model(r), r.id ? name(r.id) : "–", time(r.took), where(r)]),
    "There was no request of late.",
  );
}

/** The requests whose steps or calls the user has opened, by their number. */
const opened = new Set<number>();

/** where says where the time of a request went; of an ensemble's, for each step, and for what a model has called. */
function where(r: Ended): HTMLElement {
  const steps = spans(r);
  if (!steps) return h("div", {}, timeline(r));
  const n = r.steps!.length + (r.left ?? 0);
  const details = h(
    "details",
    { open: opened.has(r.number) },
    h("summary", {}, `${n} ${r.composed ? "step" : "call"}${n === 1 ? "" : "s"}`),
    steps,
  );
  details.addEventListener("toggle", () => (details.open ? opened.add(r.number) : opened.delete(r.number)));
  return h("div", {}, timeline(r), details);
}

function model(r: Ended): HTMLElement {
  return h(
    "span",
    {},
    h("a", { href: `#/models/${encodeURIComponent(r.model)}` }, name(r.model)),
    ` ${r.version}`,
    r.internal && " (from a model)",
  );
}

function table(title: string, heads: string[], rows: (Node | string)[][], none: string): HTMLElement {
  if (!rows.length) return h("div", {}, h("h2", {}, title), h("p", { class: "note" }, none));
  return h(
    "div",
    {},
    h("h2", {}, title),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      h(
        "table",
        { class: "plain" },
        h("thead", {}, h("tr", {}, ...heads.map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((c) => h("td", {}, c))))),
      ),
    ),
  );
}

export function requestsPage(main: HTMLElement): () => void {
  const slow = h("div");
  const failed = h("div");
  const skipped = h("p", { class: "note" });
  put(
    main,
    h("h1", {}, "Requests"),
    slow,
    legend(),
    h(
      "p",
      { class: "note" },
      "Times of an ensemble are sums over its steps, which run beside each other. " +
        "Those of a model that calls others have these calls in them. A table holds still while you are in it.",
    ),
    failed,
    skipped,
  );
  const last: [Ended[]?, Ended[]?] = [];
  return feed.follow(() => {
    say(skipped, feed.skipped ? `${count(feed.skipped)} more failures came too fast to be kept.` : "");
    if (last[0] !== feed.slow && !used(slow)) put(slow, slowest((last[0] = feed.slow)));
    if (last[1] !== feed.failures && !used(failed)) put(failed, failures((last[1] = feed.failures)));
  });
}
