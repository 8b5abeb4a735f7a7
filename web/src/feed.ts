// What the server tells once a second, kept as the page needs it. The feed comes back
// by itself after a restart of the server, and begins anew then.

import { about, ApiError, askKey, request } from "./api";

export type Percentiles = [number, number, number];

/** One version of a model; rates are absent while nothing takes place. */
export interface Row {
  name: string;
  version: string;
  namespace?: string;
  state: string;
  reason?: string;
  backend?: string;
  instances: number;
  stuck?: number;
  restarts?: number;
  memory?: number;
  pending: number;
  total: number;
  failed: number;
  requests?: number;
  failures?: number;
  inferences?: number;
  batch?: number;
  sizes?: Record<string, number>;
  closed?: Record<string, number>;
  causes?: Record<string, number>;
  edges?: { from: number; to: number; tensor: string; rate: number }[];
  hits?: number;
  misses?: number;
  request?: Percentiles;
  queue?: Percentiles;
  input?: Percentiles;
  infer?: Percentiles;
  output?: Percentiles;
  first?: Percentiles;
}

/** A request that failed, or was slow; times in milliseconds. */
export interface Ended {
  number: number;
  model: string;
  version: string;
  id?: string;
  internal?: boolean;
  at: number;
  took: number;
  phases: [number, number, number, number, number, number];
  /** Whether the phases are sums over the steps of an ensemble. */
  composed?: boolean;
  steps?: Step[];
  left?: number;
  error?: string;
  reason?: string;
}

/** What a step of an ensemble, or a call of a model, took, from the begin of the request on; times in milliseconds. */
export interface Step {
  model: string;
  version: string;
  from: number;
  took: number;
  /** queue, input, infer, output */
  phases: [number, number, number, number];
  failed?: boolean;
  steps?: Step[];
  left?: number;
}

export interface LogLine {
  number: number;
  at: number;
  level: string;
  text: string;
}

export interface ServerState {
  version: string;
  started: number;
  ready: boolean;
  reason?: string;
  cpu: number;
  processors: number;
  memory: number;
  cache?: { entries: number; used: number; size: number; local: boolean; hits: number; misses: number };
  gpus?: { id: string; busy: number; used: number; total: number; power: number }[];
}

interface Frame {
  at: number;
  whole?: boolean;
  end?: boolean;
  server: ServerState | null;
  models?: Row[];
  gone?: { name: string; namespace?: string; version: string }[];
  failures?: Ended[];
  skipped?: number;
  slow?: Ended[];
  log?: LogLine[] | null;
}

/** What was in the last seconds, for drawings; the newest at the end. */
export interface Past {
  requests: number[];
  p99: number[];
}

const seconds = 120;
const mostFailures = 200;
const mostLines = 500;
const silence = 6000; // ms without a word: the connection is dead

export class Feed {
  rows = new Map<string, Row>();
  past = new Map<string, Past>();
  all: Past = { requests: [], p99: [] };
  server: ServerState | undefined;
  failures: Ended[] = [];
  skipped = 0;
  slow: Ended[] = [];
  log: LogLine[] | null = [];
  /** Empty while the feed comes, else what is wrong. */
  trouble = "connecting";
  private listeners = new Set<() => void>();

  /** follow calls f after each change until the returned function is called. */
  follow(f: () => void): () => void {
    this.listeners.add(f);
    f();
    return () => this.listeners.delete(f);
  }

  /** run follows the server for ever. */
  async run(): Promise<never> {
    for (let pause = 500; ; pause = Math.min(2 * pause, 8000)) {
      try {
        await this.read();
        pause = 500;
        this.lost("the server has ended the connection");
      } catch (e) {
        this.lost(e instanceof ApiError ? e.message : "the server does not answer");
      }
      await new Promise((r) => setTimeout(r, pause));
    }
  }

  private lost(why: string): void {
    this.trouble = why;
    this.tell();
  }

  private async read(): Promise<void> {
    const end = new AbortController();
    let alarm = setTimeout(() => end.abort(), silence);
    try {
      const reply = await request("feed", { signal: end.signal });
      const reader = reply.body!.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(alarm);
        alarm = setTimeout(() => end.abort(), silence);
        text += decoder.decode(value, { stream: true });
        const lines = text.split("\n");
        text = lines.pop() ?? "";
        for (const line of lines) {
          const frame = JSON.parse(line) as Frame;
          if (frame.end) {
            await askKey("The key is not valid any more.");
            return;
          }
          this.take(frame);
        }
      }
    } finally {
      clearTimeout(alarm);
      end.abort();
    }
  }

  private take(f: Frame): void {
    if (f.whole) {
      if (this.server && f.server && f.server.started !== this.server.started) {
        this.past.clear();
        void about(true).catch(() => undefined); // another run of the server: it may be another
      }
      this.rows.clear();
      this.failures = [];
      this.slow = [];
      this.log = f.log === null ? null : [];
    }
    this.server = f.server ?? this.server;
    const moved = new Set<string>();
    for (const r of f.models ?? []) {
      const k = key(r);
      this.rows.set(k, r);
      moved.add(k);
    }
    for (const g of f.gone ?? []) {
      this.rows.delete(key(g));
      this.past.delete(key(g));
    }
    this.remember();
    if (f.failures) this.failures = [...f.failures.reverse(), ...this.failures].slice(0, mostFailures);
    this.skipped = f.skipped ?? this.skipped;
    if (f.slow) this.slow = f.slow;
    if (f.log && this.log) this.log = [...this.log, ...f.log].slice(-mostLines);
    this.trouble = "";
    this.tell();
  }

  private remember(): void {
    let total = 0;
    for (const [k, r] of this.rows) {
      total += r.requests ?? 0;
      let p = this.past.get(k);
      if (!p && r.requests === undefined) continue;
      if (!p) this.past.set(k, (p = { requests: [], p99: [] }));
      push(p, r.requests ?? 0, r.request?.[2] ?? 0);
      if (p.requests.every((v) => v === 0)) this.past.delete(k);
    }
    push(this.all, total, 0);
  }

  private tell(): void {
    for (const f of this.listeners) f();
  }
}

function push(p: Past, requests: number, p99: number): void {
  p.requests.push(requests);
  p.p99.push(p99);
  if (p.requests.length > seconds) {
    p.requests.shift();
    p.p99.shift();
  }
}

/** key names a version among all. */
export function key(r: { name: string; namespace?: string; version: string }): string {
  return JSON.stringify([r.namespace ?? "", r.name, r.version]);
}

export const feed = new Feed();
