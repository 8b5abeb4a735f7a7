// The page: a header, and one of the views by what stands behind the # of the address.

import { about, onKeyNeeded, setKey } from "./api";
import { h, put, say, visible } from "./dom";
import { feed } from "./feed";
import { chatPage } from "./pages/chat";
import { logPage } from "./pages/log";
import { modelPage } from "./pages/model";
import { modelsPage } from "./pages/models";
import { requestsPage } from "./pages/requests";

/** A view fills the main element and returns what ends it. */
export type View = (main: HTMLElement, rest: string) => () => void;

const views: Record<string, { title: string; view: View }> = {
  models: { title: "Models", view: (main, rest) => (rest ? modelPage(main, rest) : modelsPage(main)) },
  chat: { title: "Chat", view: chatPage },
  requests: { title: "Requests", view: requestsPage },
  log: { title: "Log", view: logPage },
};

const main = h("main", { id: "main", tabindex: -1 });
let end: (() => void) | undefined;

function route(): void {
  const [, where = "models", rest = ""] = /^#\/([a-z]*)\/?(.*)$/.exec(location.hash) ?? [];
  const entry = views[where] ?? views["models"];
  end?.();
  put(main);
  let decoded = "";
  try {
    decoded = decodeURIComponent(rest);
  } catch {
    // a broken address shows the list
  }
  document.title = `Neso: ${visible(decoded) || entry!.title}`;
  for (const a of links)
    a.hash.split("/")[1] === (views[where] ? where : "models") ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  end = entry!.view(main, decoded);
}

function askForKey(why: string): Promise<void> {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", name: "key", autocomplete: "off", required: true });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "key-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "key-title" }, "This server asks for a key"),
        h("p", { role: "status" }, why),
        h("label", {}, "Key ", input),
        h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Use this key")),
        h("p", { class: "note" }, "It stays in this tab, and is forgotten when the tab is closed."),
      ),
    );
    dialog.addEventListener("cancel", (e) => e.preventDefault());
    dialog.addEventListener("close", () => {
      setKey(input.value.trim());
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** theme is that of the system, or what the user has chosen instead. */
const themes = ["system", "light", "dark"];

function themeButton(): HTMLElement {
  const button = h("button", { type: "button", class: "theme" });
  const use = (theme: string): void => {
    document.documentElement.dataset["theme"] = theme;
    say(button, `Theme: ${theme}`);
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(localStorage.getItem("neso-theme") ?? "system") + 1) % themes.length]!;
    localStorage.setItem("neso-theme", next);
    use(next);
  });
  use(localStorage.getItem("neso-theme") ?? "system");
  return button;
}

const links = Object.entries(views).map(([at, v]) => h("a", { href: `#/${at}` }, v.title));
const live = h("p", { role: "status", class: "live" });

onKeyNeeded(askForKey);
document.body.append(
  h("a", { class: "skip", href: "#main", click: (e) => (e.preventDefault(), main.focus()) }, "To the content"),
  h("header", {}, h("strong", { class: "brand" }, "Neso"), h("nav", { "aria-label": "Pages" }, ...links), live, themeButton()),
  main,
);
const chat = links.find((a) => a.hash === "#/chat")!;
chat.hidden = true;
let run = 0;
feed.follow(() => {
  if (feed.server && feed.server.started !== run) {
    run = feed.server.started; // each run of the server may have other routes
    void about().then(
      (a) => (chat.hidden = !a.openai),
      () => (run = 0),
    );
  }
  live.classList.toggle("bad", feed.trouble !== "");
  say(live, feed.trouble ? `Not live: ${visible(feed.trouble)}` : "Live");
});
void feed.run();
addEventListener("hashchange", route);
route();
