// Trying a model out: a form of its inputs, the answer, and the call as lines of programs.
//
// signature.ts says what a model takes; field.ts and modes.ts are the form; call.ts makes
// the request, answer.ts takes the answer apart, show.ts shows it, code/ writes programs.

import { ApiError, request } from "../api";
import { h, name, put } from "../dom";
import type { Model } from "../model";
import { type Answer, event, read } from "./answer";
import { body, type Call, likelyBytes, mustBytes, parameters, streamed, wire } from "./call";
import { checkbox, labelled } from "./control";
import { decode } from "./datatype";
import { events } from "./events";
import { type Field, fieldOf } from "./field";
import { write } from "./json";
import { linesOf } from "./lines";
import { classifiable } from "./modes";
import { lines, shown } from "./show";
import { count, type Signature, signatureOf } from "./signature";

/**
 * mountTry fills el with what sends requests to the model, and returns what ends that:
 * called before the element goes away.
 */
export function mountTry(el: HTMLElement, model: Model): () => void {
  const s = signatureOf(model);
  if (s.obstacle) {
    put(el, h("h2", {}, "Try it"), h("p", {}, s.obstacle));
    return () => put(el);
  }
  const trial = new Trial(s);
  put(el, trial.element);
  return () => {
    trial.stop();
    put(el);
  };
}

class Trial {
  readonly element: HTMLElement;
  private readonly fields: Field[];
  private readonly wanted = new Map<string, HTMLInputElement>();
  private readonly bytes = new Map<string, HTMLInputElement>();
  private readonly more = h("textarea", { rows: 2, spellcheck: false });
  private readonly status = h("p", { role: "status", class: "try-status" });
  private readonly answer = h("div", { class: "try-answer" });
  private readonly program = h("div");
  private readonly sendButton = h("button", { type: "submit", class: "primary" }, "Send");
  private readonly stopButton = h("button", { type: "button", disabled: true, click: () => this.stop() }, "Stop");
  private running: AbortController | undefined;

  constructor(private readonly s: Signature) {
    this.fields = s.inputs.map((i) => fieldOf(i, s.batched));
    if (s.sequence)
      this.more.value = `{"sequence_id": ${s.sequence === "string" ? '"one"' : "1"}, "sequence_start": true, "sequence_end": true}`;
    const form = h(
      "form",
      { submit: (e) => (e.preventDefault(), void this.send()), "aria-label": "Inputs" },
      ...this.fields.map((f) => f.element),
      this.options(),
      h(
        "p",
        { class: "try-row" },
        this.sendButton,
        this.stopButton,
        h("button", { type: "button", click: () => this.write() }, "Only write the program"),
      ),
    );
    form.noValidate = true;
    const how = s.decoupled ? "This model sends responses as it makes them: they are shown as they come." : null;
    this.element = h("div", { class: "try" }, h("h2", {}, "Try it"), how && h("p", {}, how), form, this.status, this.answer, this.program);
  }

  stop(): void {
    this.running?.abort();
  }

  private options(): HTMLElement {
    const rows: HTMLElement[] = [];
    for (const o of this.s.decoupled ? [] : this.s.outputs) {
      const { box, element } = checkbox(h("span", {}, name(o.name), " comes as bytes, not as JSON"), likelyBytes(o));
      box.disabled = mustBytes(o);
      this.bytes.set(o.name, box);
      rows.push(h("div", {}, element));
      if (!classifiable(o)) continue;
      const n = count(o.dims.slice(this.s.batched ? 1 : 0));
      const input = h("input", { type: "number", min: 0, max: 1000, value: o.labels ? Math.min(10, n < 0 ? 10 : n) : 0 });
      this.wanted.set(o.name, input);
      rows.push(labelled(h("span", {}, "Best classes of ", name(o.name)), input, "0 for its values"));
    }
    const hint = this.s.sequence ? "Requests of one sequence share sequence_id" : 'An object in JSON, as in {"priority": 1}';
    rows.push(labelled("Parameters of the request", this.more, hint));
    return h("details", { class: "try-options", open: Boolean(this.s.sequence) }, h("summary", {}, "Outputs and parameters"), ...rows);
  }

  private call(): Call {
    const inputs = this.fields.flatMap((f) => {
      const t = f.value();
      if (t && this.s.decoupled) streamed(f.spec, t);
      return t ? [t] : [];
    });
    const outputs = this.s.outputs.map((spec) => ({
      name: spec.name,
      classes: this.classes(spec.name),
      bytes: this.bytes.get(spec.name)?.checked ?? false,
      spec,
    }));
    let more;
    try {
      more = parameters(this.more.value, this.s);
    } catch (e) {
      throw new Error(`parameters: ${(e as Error).message}`);
    }
    return { url: this.s.url, model: this.s.model, keys: this.s.keys, stream: this.s.decoupled, inputs, outputs, parameters: more };
  }

  private classes(output: string): number {
    const text = this.wanted.get(output)?.value ?? "0";
    const n = Number(text || "0");
    if (!Number.isInteger(n) || n < 0 || n > 1000)
      throw new Error(`best classes of ${output}: expected a whole number from 0 to 1000, got ${text}`);
    return n;
  }

  private say(text: string, bad = false): void {
    this.status.textContent = lines(text);
    this.status.classList.toggle("bad", bad);
  }

  private write(): Call | undefined {
    try {
      const call = this.call();
      put(this.program, linesOf(call));
      this.say("");
      return call;
    } catch (e) {
      this.say((e as Error).message, true);
      return undefined;
    }
  }

  private async send(): Promise<void> {
    if (this.running) return;
    put(this.answer);
    const call = this.write();
    if (!call) return;
    this.running = new AbortController();
    this.sendButton.disabled = true;
    this.stopButton.disabled = false;
    this.say("waiting");
    const begin = performance.now();
    const took = (): string => `${(performance.now() - begin).toFixed(1)} ms`;
    try {
      const how = call.stream ? await this.stream(call) : await this.once(call);
      this.say(`${how}, ${took()}`);
    } catch (e) {
      this.say(this.running.signal.aborted ? `stopped after ${took()}` : reason(e), !this.running.signal.aborted);
    } finally {
      this.running = undefined;
      this.sendButton.disabled = false;
      this.stopButton.disabled = true;
    }
  }

  private post(call: Call): Promise<Response> {
    const w = wire(call);
    const headers: Record<string, string> = { "Content-Type": w.parts.length ? "application/octet-stream" : "application/json" };
    if (w.parts.length) headers["Inference-Header-Content-Length"] = String(new TextEncoder().encode(w.head).length);
    return request(`api${w.path}`, { method: "POST", headers, body: new Uint8Array(body(w)), signal: this.running!.signal });
  }

  private async once(call: Call): Promise<string> {
    const reply = await this.post(call);
    const data = await whole(reply);
    const answer = read(call, data, reply.headers.get("Inference-Header-Content-Length"));
    put(this.answer, h("h3", {}, "Answer"), ...answer.outputs.map(shown), extras(answer));
    return `answered by version ${answer.version}, ${data.length} bytes`;
  }

  private async stream(call: Call): Promise<string> {
    const reply = await this.post(call);
    const all = new Responses();
    put(this.answer, h("h3", {}, "Responses"), all.element);
    if (!reply.body) return "no responses";
    for await (const e of events(reply.body)) all.add(event(call, e));
    return `${all.n} responses`;
  }
}

/** The longest answer that a tab takes. */
const maxAnswer = 256 << 20;

/** whole is the body of an answer, if it is not too long. */
async function whole(reply: Response): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let n = 0;
  const reader = reply.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    n += value.length;
    if (n > maxAnswer) {
      await reader.cancel();
      throw new Error(`the answer is longer than ${maxAnswer} bytes, more than this page takes: run the program below`);
    }
  }
  const out = new Uint8Array(n);
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** reason is what an error says: the first response of a stream may be one. */
function reason(e: unknown): string {
  const text = e instanceof Error ? e.message : String(e);
  const inside = /^data:\s*(\{"error":.*\})\s*$/s.exec(text)?.[1];
  if (inside) {
    try {
      return String((JSON.parse(inside) as { error: unknown }).error);
    } catch {
      // as it came
    }
  }
  return e instanceof ApiError ? text : `no answer: ${text}`;
}

function extras(a: Answer): HTMLElement | null {
  if (!a.parameters.length) return null;
  return h(
    "p",
    { class: "try-note" },
    "Parameters of the response: ",
    ...a.parameters.map(([k, v]) => h("code", {}, lines(`${k}: ${write(v).slice(0, 500)} `))),
  );
}

/** How many responses of a stream are shown, and how much of its text. */
const kept = 200;
const keptText = 100_000;

/** Responses are those of a stream: the last ones, and the texts of all of them together. */
class Responses {
  readonly element: HTMLElement;
  n = 0;
  private readonly list = h("ol", { class: "try-responses" });
  private readonly earlier = h("p", { class: "try-note" });
  private readonly together = new Map<string, { element: HTMLElement; text: string }>();
  private readonly texts = h("div");

  constructor() {
    this.element = h("div", {}, this.texts, this.earlier, this.list);
  }

  add(a: Answer): void {
    this.n++;
    const outputs = a.outputs.map((o) => {
      const elements = decode(o.datatype, o.data, 20);
      if (o.datatype === "BYTES") this.append(o.name, elements.join(""));
      const n = count(o.shape);
      const rest = n > elements.length ? ` … (${n} elements)` : "";
      return h("div", {}, name(o.name), `: ${lines(elements.join(", ").slice(0, 1000))}${rest}`);
    });
    this.list.append(h("li", { value: this.n }, ...outputs, extras(a)));
    if (this.list.childElementCount > kept) {
      this.list.firstElementChild!.remove();
      this.earlier.textContent = `${this.n - kept} earlier responses are not shown.`;
    }
  }

  private append(output: string, text: string): void {
    let t = this.together.get(output);
    if (!t) {
      t = { element: h("pre", { class: "try-text", dir: "auto" }), text: "" };
      this.together.set(output, t);
      this.texts.append(h("section", { class: "try-result" }, h("h4", {}, name(output), " of all responses"), t.element));
    }
    if (t.text.length > keptText) return;
    t.text += text;
    t.element.textContent = lines(t.text.slice(0, keptText)) + (t.text.length > keptText ? " (cut)" : "");
  }
}
