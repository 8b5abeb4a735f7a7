// The call as a line of a shell.

import { asBytes } from "../call";
import { headLength, type Prepared } from "./parts";
import { base64, shell } from "./quote";

export function curl(p: Prepared): string {
  const { call, wire } = p;
  const options = [call.stream ? "curl -sSN" : "curl -sS", "--fail-with-body"];
  if (p.address.includes("[")) options.push("--globoff"); // an address of IPv6
  options.push("-X POST", shell(p.address));
  if (call.keys) options.push('-H "Authorization: Bearer $NESO_KEY"');
  if (!call.stream && call.outputs.some(asBytes)) options.push("-o answer.bin", "-w '%{size_download} bytes are in answer.bin\\n'");
  else if (!call.stream) options.push("-w '\\n'");
  const file = p.fileOf.get("head");
  if (!wire.parts.length) {
    options.push("-H 'Content-Type: application/json'", `--data-binary ${file ? `@${file}` : shell(wire.head)}`);
    return options.join(" \\\n  ");
  }
  const body = wire.parts.map((part) => {
    const name = p.fileOf.get(part);
    return name ? `  cat ${name}` : `  printf %s '${base64(part)}' | base64 -d`;
  });
  body.unshift(file ? `  cat ${file}` : `  printf %s ${shell(wire.head)}`);
  options.push(
    `-H 'Inference-Header-Content-Length: ${headLength(wire)}'`,
    "-H 'Content-Type: application/octet-stream'",
    "--data-binary @-",
  );
  return `{\n${body.join("\n")}\n} | ${options.join(" \\\n  ")}`;
}
