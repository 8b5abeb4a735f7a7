// A call as lines of programs, which run as they are pasted.

import type { Call } from "../call";
import { cpp } from "./cpp";
import { curl } from "./curl";
import { go } from "./go";
import { type File, prepare } from "./parts";
import { python } from "./python";

export interface Lines {
  language: string;
  /** The file that the lines go into. */
  file: string;
  text: string;
}

/** code writes the call in each language; the files lie beside what is run. */
export function code(call: Call): { lines: Lines[]; files: File[] } {
  const p = prepare(call);
  return {
    lines: [
      { language: "curl", file: "call.sh", text: curl(p) },
      { language: "Python", file: "call.py", text: python(p) },
      { language: "Go", file: "call.go", text: go(p) },
      { language: "C++", file: "call.cpp", text: cpp(p) },
    ],
    files: p.files,
  };
}
