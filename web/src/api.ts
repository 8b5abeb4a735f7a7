// Requests to the server, below the page's own address: /dashboard/api/ is the HTTP
// API of the server, with the same keys.

const header = "X-Neso-Dashboard"; // no page of another site can send it
const stored = "neso-key";

/** ApiError is an answer that says no. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** key is what the user has given, for as long as the tab lives; empty for none. */
export function key(): string {
  return sessionStorage.getItem(stored) ?? "";
}

export function setKey(value: string): void {
  if (value) sessionStorage.setItem(stored, value);
  else sessionStorage.removeItem(stored);
}

type Asker = (why: string) => Promise<void>;

let asker: Asker | undefined;
let asking: Promise<void> | undefined;

/** onKeyNeeded sets what asks the user for a key. */
export function onKeyNeeded(ask: Asker): void {
  asker = ask;
}

/** askKey asks the user for a key, once for all who need one. */
export function askKey(why: string): Promise<void> {
  asking ??= (asker?.(why) ?? Promise.reject(new ApiError(401, why))).finally(() => {
    asking = undefined;
  });
  return asking;
}

/**
 * request sends a request below /dashboard/, as in request("api/v2/models/m/infer", …), with the
 * user's key. Where the server wants another key the user is asked, and the request sent again. Answers
 * that are errors throw an ApiError with the server's text.
 */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(init.headers);
    headers.set(header, "1");
    const used = key();
    if (used) headers.set("Authorization", `Bearer ${used}`);
    const reply = await fetch(path, { ...init, headers, cache: "no-store", credentials: "same-origin" });
    if (reply.ok) return reply;
    const why = await reason(reply);
    if (reply.status !== 401) throw new ApiError(reply.status, why);
    if (used === key()) await askKey(why); // else another request has asked meanwhile
  }
}

/** getJSON is request for what answers with JSON. */
export async function getJSON<T>(path: string, init?: RequestInit): Promise<T> {
  return (await (await request(path, init)).json()) as T;
}

async function reason(reply: Response): Promise<string> {
  const text = await reply.text();
  try {
    const error = (JSON.parse(text) as { error?: unknown }).error;
    if (typeof error === "string") return error;
    const inner = (error as { message?: unknown } | null)?.message; // of OpenAI's routes
    if (typeof inner === "string") return inner;
  } catch {
    // no JSON: a proxy's page, say
  }
  return text.slice(0, 500) || `HTTP status ${reply.status}`;
}

/** What the server says of itself. */
export interface About {
  version: string;
  /** Whether it asks for keys. */
  keys: boolean;
  /** Whether this dashboard lets the user do more than read, if the key does. */
  use: boolean;
  /** Whether the user may load and unload models, as far as the server knows yet. */
  manage: boolean;
  /** Whether it has OpenAI's routes. */
  openai: boolean;
  /** The model control mode: none, poll or explicit. */
  mode: string;
  host?: string;
  port?: number;
  tls: boolean;
}

let known: Promise<About> | undefined;

/** about asks the server once; fresh asks anew, after a restart. */
export function about(fresh = false): Promise<About> {
  if (fresh) known = undefined;
  known ??= getJSON<About>("about").catch((e: unknown) => {
    known = undefined;
    throw e;
  });
  return known;
}

/** publicURL is where clients reach the HTTP API; the dashboard's own address where there is none. */
export function publicURL(a: About): string {
  if (!a.port) return new URL("api", location.href).href;
  const host = a.host ? (a.host.includes(":") ? `[${a.host}]` : a.host) : location.hostname;
  return `${a.tls ? "https" : "http"}://${host}:${a.port}`;
}
