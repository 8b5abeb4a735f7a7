// Requests that failed, and the slowest.

import { h, name, put, say, visible } from "../dom";
import { legend, timeline } from "../draw";
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
    all.map((r) => [clock(r.at), model(r), r.id ? name(r.id) : "–", time(r.took), timeline(r)]),
    "There was no request of late.",
  );
}

function model(r: Ended): HTMLElement {
  return h("span", {}, h("a", { href: `#/models/${encodeURIComponent(r.model)}` }, name(r.model)), ` ${r.version}`, r.internal && " (from a model)");
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
      h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ...heads.map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((c) => h("td", {}, c)))))),
    ),
  );
}

export function requestsPage(main: HTMLElement): () => void {
  const slow = h("div");
  const failed = h("div");
  const skipped = h("p", { class: "note" });
  put(main, h("h1", {}, "Requests"), slow, legend(), h("p", { class: "note" }, "Times of an ensemble are sums over its steps, which run beside each other."), failed, skipped);
  let last: unknown[] = [];
  return feed.follow(() => {
    say(skipped, feed.skipped ? `${count(feed.skipped)} more failures came too fast to be kept.` : "");
    if (last[0] === feed.slow && last[1] === feed.failures) return;
    last = [feed.slow, feed.failures];
    put(slow, slowest(feed.slow));
    put(failed, failures(feed.failures));
  });
}
