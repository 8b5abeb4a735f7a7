// A chat with a model that OpenAI's routes offer for it.

import { about, ApiError, getJSON, publicURL, request } from "../api";
import { body, type Message, read, readable, type Told, type Wishes, wishes } from "../chat/talk";
import { h, name, put, say, visible } from "../dom";
import { count, time } from "../format";
import { shell } from "../try/code/quote";
import { labelled } from "../try/control";

/** One of the conversation: what was said, and what is known of it. */
interface Turn extends Message {
  model: string;
  note: string;
}

/** The longest reply that the page takes. */
const mostText = 2_000_000;

/** What lives as long as the tab: the conversation, and what was typed. */
const kept = { model: "", turns: [] as Turn[], system: "", draft: "", temperature: "", most: "", seed: "", stop: "" };

export function chatPage(main: HTMLElement, model: string): () => void {
  const page = new ChatPage(model);
  put(main, page.element);
  void page.begin();
  return () => page.end();
}

class ChatPage {
  readonly element: HTMLElement;
  private readonly models = h("select", { change: () => (kept.model = this.models.value) });
  private readonly log = h("div", { class: "chat-log", role: "log", tabindex: 0, "aria-label": "Conversation" });
  private readonly text = h("textarea", { rows: 3, spellcheck: true, maxlength: 1_000_000 });
  private readonly system = h("textarea", { rows: 2 });
  private readonly temperature = h("input", { type: "text", inputmode: "decimal", size: 8 });
  private readonly most = h("input", { type: "text", inputmode: "numeric", size: 8 });
  private readonly seed = h("input", { type: "text", inputmode: "numeric", size: 8 });
  private readonly stop = h("textarea", { rows: 2 });
  private readonly status = h("p", { role: "status", class: "try-status" });
  private readonly program = h("div");
  private readonly sendButton = h("button", { type: "submit", class: "primary" }, "Send");
  private readonly stopButton = h("button", { type: "button", disabled: true, click: () => this.halt() }, "Stop");
  private readonly newButton = h("button", { type: "button", click: () => this.anew() }, "New chat");
  private running: AbortController | undefined;
  private ended = false;

  constructor(model: string) {
    if (model) kept.model = model;
    const form = h(
      "form",
      { class: "chat-form" },
      labelled("Message", this.text, "Enter sends, Shift and Enter begin a line, Escape stops the reply"),
      h("p", { class: "actions" }, this.sendButton, this.stopButton, this.newButton),
      this.status,
      h(
        "details",
        { class: "try-options" },
        h("summary", {}, "System prompt, sampling"),
        labelled("System prompt", this.system),
        h(
          "div",
          { class: "try-row" },
          labelled("Temperature", this.temperature, "0 to 2"),
          labelled("Most tokens", this.most),
          labelled("Seed", this.seed),
        ),
        labelled("Strings to stop at", this.stop, "One on each line; \\n is the end of a line"),
      ),
    );
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      void this.send();
    });
    this.text.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        void this.send();
      }
    });
    form.addEventListener("keydown", (e) => {
      if (e.key === "Escape" && this.running) this.halt();
    });
    for (const [field, of] of [
      [this.text, "draft"],
      [this.system, "system"],
      [this.temperature, "temperature"],
      [this.most, "most"],
      [this.seed, "seed"],
      [this.stop, "stop"],
    ] as const) {
      field.value = kept[of];
      field.addEventListener("input", () => (kept[of] = field.value));
    }
    this.element = h("div", { class: "try chat" }, h("h1", {}, "Chat"), labelled("Model", this.models), this.log, form, this.program);
  }

  async begin(): Promise<void> {
    for (const t of kept.turns) this.show(t);
    this.sendButton.disabled = true;
    try {
      const [offered, server] = await Promise.all([getJSON<{ chat: string[] | null } | null>("chats"), about()]);
      if (this.ended) return;
      if (!offered) return this.tell("Chats need OpenAI's routes, which the server has with --openai=true.");
      const names = offered.chat ?? [];
      put(this.models, ...names.map((m) => h("option", { value: m, selected: m === kept.model }, visible(m))));
      if (!names.length) return this.tell("No model that is ready is for chats: one needs an input messages, or a chat_template.");
      if (!server.use) return this.tell("Without keys, this page is for reading only on other machines than the server's.");
      if (kept.model && !names.includes(kept.model)) this.tell(`Model ${visible(kept.model)} is not ready, or not for chats.`, true);
      kept.model = this.models.value;
      this.sendButton.disabled = false;
      this.text.focus();
    } catch (e) {
      this.tell(e instanceof ApiError ? visible(e.message) : "the server does not answer", true);
    }
  }

  end(): void {
    this.ended = true;
    this.running?.abort();
  }

  private tell(text: string, bad = false): void {
    say(this.status, text);
    this.status.classList.toggle("bad", bad);
  }

  private halt(): void {
    this.running?.abort();
    this.text.focus();
  }

  private anew(): void {
    this.running?.abort();
    kept.turns = [];
    put(this.log);
    put(this.program);
    this.tell("");
    this.text.focus();
  }

  /** show adds a turn to the log, and returns what takes more of its text, and its note. */
  private show(t: Turn): { more: (text: string) => void; note: (text: string) => void; element: HTMLElement } {
    const text = document.createTextNode(readable(t.content));
    const note = h("small", {}, t.note);
    const element = h(
      "div",
      { class: `chat-turn chat-${t.role}` },
      h("strong", {}, t.role === "user" ? "You" : name(t.model)),
      h("div", { class: "chat-text", dir: "auto" }, text),
      note,
    );
    this.log.append(element);
    this.below(true);
    return {
      element,
      more: (piece) => {
        const follow = this.below(false);
        text.appendData(readable(piece));
        if (follow) this.below(true);
      },
      note: (said) => say(note, said),
    };
  }

  /** below reports whether the end of the log is in view, and brings it there. */
  private below(go: boolean): boolean {
    const near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 40;
    if (go) this.log.scrollTop = this.log.scrollHeight;
    return near;
  }

  private async send(): Promise<void> {
    const said = this.text.value;
    if (this.running || this.sendButton.disabled || !said.trim()) return;
    let wished: Wishes;
    try {
      wished = wishes({ temperature: this.temperature.value, most: this.most.value, seed: this.seed.value, stop: this.stop.value });
    } catch (e) {
      return this.tell((e as Error).message, true);
    }
    const before = kept.turns;
    const model = this.models.value;
    const mine: Turn = { role: "user", content: said, model, note: "" };
    const reply: Turn = { role: "assistant", content: "", model, note: "" };
    const shown = this.show(mine);
    const answer = this.show(reply);
    const messages: Message[] = [...before, mine].map(({ role, content }) => ({ role, content }));
    if (this.system.value.trim()) messages.unshift({ role: "system", content: this.system.value });
    const text = body(model, messages, wished);
    void this.lines(text);
    this.text.value = kept.draft = "";
    this.busy(new AbortController());
    this.tell("waiting");
    const running = this.running!;
    const begin = performance.now();
    let first = 0;
    let whole = false;
    try {
      const stream = await request("api/v1/chat/completions", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: text,
        signal: running.signal,
      });
      const told = await read(stream.body!, (piece) => {
        first ||= performance.now();
        if (reply.content.length + piece.length > mostText)
          throw new Error(`the reply is longer than ${mostText} characters, more than this page takes`);
        reply.content += piece;
        answer.more(piece);
      });
      whole = true;
      reply.note = numbers(told, begin, first);
      this.tell("");
    } catch (e) {
      reply.note = running.signal.aborted ? "stopped" : "broken off";
      this.tell(running.signal.aborted ? "" : visible(e instanceof Error ? e.message : String(e)), true);
    }
    if (this.running === running) this.busy(undefined);
    answer.note(reply.note);
    if (kept.turns !== before) return; // a new chat has begun meanwhile
    if (whole || first) {
      kept.turns = [...before, mine, reply];
      return;
    }
    // Nothing has come: the message goes back to where it can be sent again.
    for (const e of [shown.element, answer.element]) e.remove();
    if (!this.text.value) this.text.value = kept.draft = said;
  }

  private busy(running: AbortController | undefined): void {
    this.running = running;
    this.stopButton.disabled = !running;
    this.sendButton.disabled = Boolean(running);
    this.models.disabled = Boolean(running);
    this.log.setAttribute("aria-busy", String(Boolean(running)));
  }

  /** lines shows the call as a line of a shell. */
  private async lines(text: string): Promise<void> {
    const server = await about();
    const options = [
      "curl -sSN --fail-with-body",
      shell(`${publicURL(server)}/v1/chat/completions`),
      "-H 'Content-Type: application/json'",
    ];
    if (server.keys) options.push('-H "Authorization: Bearer $NESO_KEY"');
    options.push(`--data-binary ${shell(text)}`);
    put(
      this.program,
      h(
        "details",
        {},
        h("summary", {}, "The same in a shell"),
        h(
          "pre",
          { class: "try-code", tabindex: 0, role: "region", "aria-label": "The call as a line of a shell" },
          readable(options.join(" \\\n  ")),
        ),
      ),
    );
  }
}

/** numbers says what a reply took. */
function numbers(told: Told, begin: number, first: number): string {
  const now = performance.now();
  const all = [`${time(now - begin)}`];
  if (first) all.push(`first word after ${time(first - begin)}`);
  if (told.tokens !== undefined) {
    all.push(`${told.tokens} tokens`);
    if (first && told.tokens > 1 && now > first) all.push(`${count((1000 * (told.tokens - 1)) / (now - first))} a second`);
  }
  if (told.finish === "length") all.push("cut at the most tokens");
  if (told.calls.length) all.push(`calls of tools: ${visible(told.calls.join(", ")).slice(0, 1000)}`);
  return all.join(", ");
}
