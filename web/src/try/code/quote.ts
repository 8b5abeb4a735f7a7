// Texts and bytes as literals of languages. Names and values come from others: none of
// them may end its literal.

import { quote } from "../json";

/** shell is text for a POSIX shell. It has no NUL: what is quoted here is JSON, or a URL. */
export function shell(s: string): string {
  return `'${wellFormed(s).replaceAll("'", "'\\''")}'`;
}

/** python is text for Python, whose escapes are among those of JSON. */
export function python(s: string): string {
  return quote(wellFormed(s));
}

/** go is text for Go; likewise. */
export function go(s: string): string {
  return quote(wellFormed(s));
}

/** cpp is the bytes of text, or bytes, for C++: adjacent literals, none of them long. */
export function cpp(s: string | Uint8Array, indent = ""): string {
  const bytes = typeof s === "string" ? new TextEncoder().encode(wellFormed(s)) : s;
  const lines: string[] = [];
  let line = "";
  for (const b of bytes) {
    const c = String.fromCharCode(b);
    // Three octal digits always: a digit that follows is no part of them. A question mark may begin a trigraph.
    line += b >= 0x20 && b < 0x7f && !'"\\?'.includes(c) ? c : `\\${b.toString(8).padStart(3, "0")}`;
    if (line.length >= 100) {
      lines.push(`"${line}"`);
      line = "";
    }
  }
  if (line || !lines.length) lines.push(`"${line}"`);
  return lines.join(`\n${indent}`);
}

/** wellFormed replaces halves of characters, which have no UTF-8. */
function wellFormed(s: string): string {
  return s.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

/** base64 of bytes, in lines. */
export function base64(data: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < data.length; i += 0x8000) binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(binary).replace(/.{76}(?=.)/g, "$&\n");
}
