// Elements. Whatever comes from the server becomes text or the value of an attribute,
// never markup.

export type Child = Node | string | number | null | undefined | false;

type Listener = (e: Event) => void;

/** Attributes by name; a function is a listener for the event of the name, false and undefined leave the attribute out. */
export type Attributes = Record<string, string | number | boolean | Listener | undefined>;

const svgNames = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "polyline", "polygon", "defs", "marker", "tspan", "title"]);

/** h makes an element. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  set(e, attributes ?? {});
  e.append(...shown(children));
  return e;
}

/** svg makes an element of a drawing. */
export function svg(tag: string, attributes?: Attributes, ...children: Child[]): SVGElement {
  if (!svgNames.has(tag)) throw new Error(`no element of a drawing: ${tag}`);
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag) as SVGElement;
  set(e, attributes ?? {});
  e.append(...shown(children));
  return e;
}

/** put replaces what an element contains. */
export function put(e: Element, ...children: Child[]): void {
  e.replaceChildren(...shown(children));
}

/** used says that the user is within an element: what is drawn anew then would take the focus away. */
export function used(e: Element): boolean {
  return e.contains(document.activeElement);
}

/** say changes a text, and touches the page only where it differs. */
export function say(e: Element, text: string): void {
  if (e.textContent !== text) e.textContent = text;
}

function set(e: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") e.addEventListener(name, value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== undefined && value !== false) e.setAttribute(name, String(value));
  }
}

function shown(children: Child[]): (Node | string)[] {
  const all: (Node | string)[] = [];
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    all.push(typeof c === "number" ? String(c) : c);
  }
  return all;
}

/**
 * name shows text of somebody else's: isolated, so that marks which turn the direction
 * of writing end with it, and with what cannot be seen made visible.
 */
export function name(text: string): HTMLElement {
  return h("bdi", { class: "name" }, visible(text));
}

/** visible replaces control characters and marks of direction by what can be seen. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    return `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
