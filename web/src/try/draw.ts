// A canvas to draw on, by pointer or by keys.

import { h } from "../dom";
import { checkbox, labelled } from "./control";
import type { Pixels } from "./image";

const side = 280;

/** Drawing is white on black, as the images of digits are that models are trained with. */
export class Drawing {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { width: side, height: side, class: "try-canvas", tabindex: 0, role: "application" });
  private readonly said = h("p", { class: "try-note", role: "status" });
  private readonly pen = h("input", { type: "range", min: 4, max: 60, value: 24 });
  private readonly down = checkbox("Pen is down (for keys)");
  private at: [number, number] = [0, 0];
  private drawing = false;

  constructor(name: string) {
    const keys = "arrow keys move the pen, the space bar puts it down or up, Delete clears, pen to the middle";
    this.canvas.setAttribute("aria-label", `Drawing for ${name}: ${keys}`);
    this.clear();
    this.canvas.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      this.canvas.focus({ preventScroll: true }); // the line begins where it was touched
      this.canvas.setPointerCapture(e.pointerId);
      this.drawing = true;
      this.at = this.where(e);
      this.line(this.at);
    });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!this.drawing) return;
      for (const part of e.getCoalescedEvents?.() ?? []) this.line(this.where(part));
      this.line(this.where(e)); // a browser may tell of no parts
    });
    this.canvas.addEventListener("pointerup", (e) => {
      if (this.drawing) this.line(this.where(e));
      this.drawing = false;
    });
    this.canvas.addEventListener("pointercancel", () => (this.drawing = false));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.element = h(
      "div",
      {},
      this.canvas,
      labelled("Width of the pen", this.pen),
      this.down.element,
      h("p", {}, h("button", { type: "button", click: () => this.clear() }, "Clear the drawing")),
      this.said,
    );
  }

  pixels(): Pixels {
    return this.context().getImageData(0, 0, side, side);
  }

  private context(): CanvasRenderingContext2D {
    return this.canvas.getContext("2d", { willReadFrequently: true })!;
  }

  private clear(): void {
    const c = this.context();
    c.fillStyle = "#000";
    c.fillRect(0, 0, side, side);
    this.at = [side / 2, side / 2]; // who draws by keys knows where the pen is
    this.said.textContent = "The drawing is empty.";
  }

  private where(e: PointerEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [((e.clientX - box.left) * side) / box.width, ((e.clientY - box.top) * side) / box.height];
  }

  private line(to: [number, number]): void {
    const c = this.context();
    c.strokeStyle = "#fff";
    c.lineWidth = Number(this.pen.value);
    c.lineCap = c.lineJoin = "round";
    c.beginPath();
    c.moveTo(...this.at);
    c.lineTo(to[0], to[1] + 0.01); // a line without length is not drawn
    c.stroke();
    this.at = to;
    this.said.textContent = "";
  }

  private key(e: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[e.key];
    if (move) {
      const step = e.shiftKey ? 2 : 10;
      const within = (x: number): number => Math.min(Math.max(x, 0), side);
      const to: [number, number] = [within(this.at[0] + move[0] * step), within(this.at[1] + move[1] * step)];
      if (this.down.box.checked) this.line(to);
      this.at = to;
    } else if (e.key === " ") {
      this.down.box.checked = !this.down.box.checked;
      if (this.down.box.checked) this.line(this.at);
    } else if (e.key === "Delete" || e.key === "Backspace") this.clear();
    else return;
    e.preventDefault();
    const [x, y] = this.at.map((v) => Math.round((v / side) * 100));
    this.said.textContent = `pen ${this.down.box.checked ? "down" : "up"} at ${x} %, ${y} %`;
  }
}
