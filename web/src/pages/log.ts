// The end of the server's log.

import { h, put, visible } from "../dom";
import { feed } from "../feed";

const levels = ["verbose", "info", "warning", "error"];

export function logPage(main: HTMLElement): () => void {
  const level = h("select", { id: "level" }, ...levels.map((l) => h("option", { value: l, selected: l === "verbose" }, l)));
  const filter = h("input", { type: "search", id: "log-filter", autocomplete: "off", spellcheck: false });
  const lines = h("ol", { class: "log", tabindex: 0, "aria-label": "Log" });
  const note = h("p", { class: "note" });
  put(
    main,
    h("h1", {}, "Log"),
    h("div", { class: "row" }, h("label", { for: "level" }, "From level"), level, h("label", { for: "log-filter" }, "Containing"), filter),
    note,
    lines,
  );
  let shown: unknown;
  const draw = (force: boolean): void => {
    if (feed.log === null) {
      put(note, "The log is shown to who has a key for all models, and on the machine of the server.");
      put(lines);
      return;
    }
    if (!force && shown === feed.log) return;
    shown = feed.log;
    const least = levels.indexOf(level.value);
    const want = filter.value.toLowerCase();
    const below = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    put(
      lines,
      ...feed.log
        .filter((l) => levels.indexOf(l.level) >= least && (!want || l.text.toLowerCase().includes(want)))
        .map((l) => h("li", { "data-level": l.level }, visible(l.text))),
    );
    put(note, "The last 500 lines, cut after 2,048 bytes.");
    if (below) lines.scrollTop = lines.scrollHeight;
  };
  const again = (): void => draw(true);
  level.addEventListener("change", again);
  filter.addEventListener("input", again);
  return feed.follow(() => draw(false));
}
