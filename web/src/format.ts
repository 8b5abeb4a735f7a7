// Numbers for people.

/** count shows a rate or a number with three digits that mean something. */
export function count(v: number | undefined): string {
  if (v === undefined) return "–";
  if (v === 0) return "0";
  if (v < 10) return String(Number(v.toPrecision(2)));
  if (v < 10_000) return Math.round(v).toLocaleString("en");
  if (v < 1e6) return `${(v / 1e3).toFixed(v < 1e5 ? 1 : 0)} k`;
  return `${(v / 1e6).toFixed(1)} M`;
}

/** time shows milliseconds. */
export function time(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${Number(ms.toPrecision(3))} ms`;
  return `${Number((ms / 1000).toPrecision(3))} s`;
}

/** bytes shows a size. */
export function bytes(n: number | undefined): string {
  if (!n) return "–";
  if (n < 1e6) return `${Math.round(n / 1e3)} kB`;
  if (n < 1e9) return `${Math.round(n / 1e6)} MB`;
  return `${(n / 1e9).toFixed(1)} GB`;
}

/** clock shows a moment of today. */
export function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}
