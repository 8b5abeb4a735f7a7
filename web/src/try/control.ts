// Labelled controls of the form.

import { type Child, h } from "../dom";

let serial = 0;

/** id makes an identifier of its own in the page. */
export function id(what: string): string {
  return `try-${what}-${++serial}`;
}

/** labelled is a control below its label. */
export function labelled(label: Child, control: HTMLElement, hint?: string): HTMLElement {
  control.id ||= id("control");
  const parts: Child[] = [h("label", { for: control.id }, label), control];
  if (hint) {
    const at = id("hint");
    control.setAttribute("aria-describedby", at);
    parts.push(h("small", { id: at }, hint));
  }
  return h("div", { class: "try-control" }, ...parts);
}

/** checkbox is a box with its label beside it. */
export function checkbox(label: Child, checked = false): { box: HTMLInputElement; element: HTMLElement } {
  const box = h("input", { type: "checkbox", checked });
  return { box, element: h("label", { class: "try-check" }, box, " ", label) };
}

/** choice is a list to choose from. */
export function choice<T extends string>(options: readonly T[], chosen?: T): HTMLSelectElement {
  const select = h("select", {}, ...options.map((o) => h("option", { value: o }, o)));
  if (chosen) select.value = chosen;
  return select;
}

/**
 * drop is a control for a file, which may be dropped on it too. took is called with each file; an
 * error that it throws is shown.
 */
export function drop(label: string, accept: string, took: (file: File) => Promise<string>): HTMLElement {
  const input = h("input", { type: "file", accept });
  const said = h("p", { class: "try-note", role: "status" });
  const zone = h("div", { class: "try-drop" }, labelled(label, input, "or drop it here"), said);
  const take = (file: File | undefined): void => {
    if (!file) return;
    said.textContent = "reading";
    took(file).then(
      (how) => (said.textContent = how),
      (e: unknown) => (said.textContent = `this file cannot be taken: ${e instanceof Error ? e.message : String(e)}`),
    );
  };
  input.addEventListener("change", () => take(input.files?.[0]));
  zone.addEventListener("dragover", (e) => (e.preventDefault(), zone.classList.add("over")));
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (e) => {
    e.preventDefault();
    zone.classList.remove("over");
    take(e.dataTransfer?.files[0]);
  });
  return zone;
}
