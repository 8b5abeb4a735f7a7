// A table of many rows, of which only those in view are elements.

import { h, put, svg } from "./dom";

export interface Column<T> {
  title: string;
  /** How a cell is filled; the element is used again for other rows. */
  fill: (cell: HTMLElement, row: T) => void;
  /** By what the column sorts, the largest first; text from A to Z. Without, it does not. */
  by?: (row: T) => number | string;
  class?: string;
}

const rowHeight = 36;
const beyond = 8;

/** VirtualTable shows rows in the order that the user asks for. */
export class VirtualTable<T> {
  readonly element: HTMLElement;
  private readonly body = h("div", { role: "rowgroup", class: "vt-body" });
  private readonly scroller: HTMLElement;
  private readonly heads: HTMLElement[] = [];
  private readonly pool: HTMLElement[] = [];
  private rows: T[] = [];
  private by: number;
  private up = false;
  private asked = 0;

  constructor(
    label: string,
    private readonly columns: Column<T>[],
    by: number,
  ) {
    this.by = by;
    const head = h("div", { role: "row", class: "vt-row vt-head", "aria-rowindex": 1 });
    columns.forEach((c, i) => {
      const cell = h("div", { role: "columnheader", class: c.class });
      if (c.by) put(cell, h("button", { type: "button", click: () => this.sortBy(i) }, c.title));
      else put(cell, c.title);
      this.heads.push(cell);
      head.append(cell);
    });
    this.scroller = h(
      "div",
      { class: "vt", role: "table", "aria-label": label, tabindex: 0 },
      h("div", { role: "rowgroup", class: "vt-top" }, head),
      this.body,
    );
    this.scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.element = this.scroller;
    new ResizeObserver(() => this.later()).observe(this.scroller);
    this.mark();
  }

  /** show replaces the rows. */
  show(rows: T[]): void {
    const c = this.columns[this.by]!;
    const sign = this.up ? -1 : 1;
    this.rows = rows
      .map((row) => ({ row, by: c.by!(row) }))
      .sort((a, b) => sign * (typeof a.by === "string" || typeof b.by === "string" ? compare(String(a.by), String(b.by)) : b.by - a.by))
      .map((e) => e.row);
    this.scroller.setAttribute("aria-rowcount", String(rows.length + 1));
    this.body.style.height = `${rows.length * rowHeight}px`;
    this.draw();
  }

  private sortBy(column: number): void {
    this.up = this.by === column && !this.up;
    this.by = column;
    this.mark();
    this.show(this.rows);
  }

  private mark(): void {
    this.heads.forEach((e, i) => {
      e.querySelector("svg")?.remove();
      if (i !== this.by) return e.removeAttribute("aria-sort");
      e.setAttribute("aria-sort", this.up ? "ascending" : "descending");
      e.querySelector("button")?.append(
        svg(
          "svg",
          { viewBox: "0 0 10 10", class: "arrow", "aria-hidden": "true" },
          svg("path", { d: this.up ? "M1 8 5 2 9 8z" : "M1 2 5 8 9 2z" }),
        ),
      );
    });
  }

  private later(): void {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / rowHeight) - beyond);
    const n = Math.min(this.rows.length - first, Math.ceil((this.scroller.clientHeight || 600) / rowHeight) + 2 * beyond);
    while (this.pool.length < n) {
      const row = h("div", { role: "row", class: "vt-row" }, ...this.columns.map((c) => h("div", { role: "cell", class: c.class })));
      this.pool.push(row);
      this.body.append(row);
    }
    while (this.pool.length > Math.max(n, 0)) this.pool.pop()!.remove();
    this.pool.forEach((e, i) => {
      const row = this.rows[first + i]!;
      e.style.transform = `translateY(${(first + i) * rowHeight}px)`;
      e.setAttribute("aria-rowindex", String(first + i + 2));
      this.columns.forEach((c, j) => c.fill(e.children[j] as HTMLElement, row));
    });
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
