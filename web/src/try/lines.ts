// The lines of a call, in the language of one's choice.

import { h, put } from "../dom";
import type { Call } from "./call";
import { code } from "./code/index";
import { id } from "./control";

let chosen = "curl";

/** linesOf shows the call as programs. */
export function linesOf(call: Call): HTMLElement {
  const { lines, files } = code(call);
  const group = id("language");
  const body = h("div");
  const show = (): void => {
    const l = lines.find((l) => l.language === chosen) ?? lines[0]!;
    const said = h("span", { role: "status" });
    const copy = (): void => {
      navigator.clipboard?.writeText(`${l.text}\n`).then(
        () => (said.textContent = " copied"),
        () => (said.textContent = " the browser does not let this page copy: mark the lines"),
      ) ?? (said.textContent = " the browser copies over HTTPS only: mark the lines");
    };
    put(
      body,
      h("pre", { class: "try-code", tabindex: 0, "aria-label": `The call in ${l.language}`, "data-language": l.language }, l.text),
      h(
        "p",
        {},
        h("button", { type: "button", click: copy }, "Copy"),
        " ",
        h("button", { type: "button", click: () => save(l.file, new TextEncoder().encode(`${l.text}\n`)) }, `Save ${l.file}`),
        said,
      ),
    );
  };
  const pick = (language: string): HTMLElement =>
    h(
      "label",
      { class: "try-check" },
      h("input", {
        type: "radio",
        name: group,
        value: language,
        checked: language === chosen,
        change: () => ((chosen = language), show()),
      }),
      ` ${language}`,
    );
  show();
  return h(
    "section",
    { class: "try-lines" },
    h("h3", {}, "The same call in a program"),
    h("fieldset", { class: "try-row" }, h("legend", {}, "Language"), ...lines.map((l) => pick(l.language))),
    files.length
      ? h(
          "p",
          {},
          "Beside it lies what is too long for lines: ",
          ...files.map((f) =>
            h("button", { type: "button", click: () => save(f.name, f.data) }, `Save ${f.name} (${f.data.length} bytes)`),
          ),
        )
      : null,
    call.keys ? h("p", { class: "try-note" }, "The key is read from the environment: NESO_KEY.") : null,
    body,
  );
}

function save(file: string, data: Uint8Array): void {
  const link = h("a", { href: URL.createObjectURL(new Blob([new Uint8Array(data)])), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
