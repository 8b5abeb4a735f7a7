// The call in Python: by the official client, or by the standard library where that
// does not reach it.

import { written } from "../call";
import { type Datatype, decode, splitBytes } from "../datatype";
import { type Json, quote } from "../json";
import { plainName } from "../signature";
import type { Tensor } from "../values";
import { headLength, type Prepared } from "./parts";
import { base64, python as str } from "./quote";

const dtypes: Record<Datatype, string> = {
  BOOL: "np.bool_", UINT8: "np.uint8", UINT16: "np.uint16", UINT32: "np.uint32", UINT64: "np.uint64", INT8: "np.int8", INT16: "np.int16",
  INT32: "np.int32", INT64: "np.int64", FP16: "np.float16", BF16: "np.float32", FP32: "np.float32", FP64: "np.float64", BYTES: "np.object_",
}; // prettier-ignore

export function python(p: Prepared): string {
  return p.call.stream || !plainName(p.call.model) ? plain(p) : official(p);
}

function literal(j: Json): string {
  if (j.kind === "boolean") return j.value ? "True" : "False";
  return j.kind === "string" ? str(j.text) : j.kind === "number" ? j.text : "None";
}

// Sequences, priorities and timeouts are arguments of the client, other parameters a dictionary.
const own = new Set(["sequence_id", "sequence_start", "sequence_end", "priority", "timeout"]);

function official(p: Prepared): string {
  const { call } = p;
  const tls = call.url.startsWith("https://");
  const imports = new Set(["import numpy as np", "import tritonclient.http as http"]);
  const lines = call.inputs.map((t) => {
    const values = array(p, t, imports);
    return `    http.InferInput(${str(t.name)}, [${t.shape.join(", ")}], "${t.datatype}").set_data_from_numpy(\n        ${values}\n    ),`;
  });
  const args = [str(call.model), "inputs"];
  if (call.outputs.some((o) => o.classes > 0)) {
    const wishes = call.outputs.map(
      (o) => `    http.InferRequestedOutput(${str(o.name)}${o.classes ? `, class_count=${o.classes}` : ""}),`,
    );
    lines.push("]", "outputs = [", ...wishes);
    args.push("outputs=outputs");
  }
  for (const [name, value] of call.parameters) if (own.has(name)) args.push(`${name}=${literal(value)}`);
  const others = call.parameters.filter(([name]) => !own.has(name));
  if (others.length) args.push(`parameters={${others.map(([k, v]) => `${str(k)}: ${literal(v)}`).join(", ")}}`);
  if (call.keys) {
    imports.add("import os");
    args.push('headers={"Authorization": "Bearer " + os.environ["NESO_KEY"]}');
  }
  const client = `http.InferenceServerClient(${str(call.url.replace(/^https?:\/\//, ""))}${tls ? ", ssl=True" : ""})`;
  return [
    "# pip install tritonclient[http]",
    ...sorted(imports),
    "",
    `client = ${client}`,
    "inputs = [",
    ...lines,
    "]",
    `answer = client.infer(${args.join(", ")})`,
    'for output in answer.get_response()["outputs"]:',
    '    print(output["name"], output["shape"], answer.as_numpy(output["name"]))',
  ].join("\n");
}

function sorted(imports: Set<string>): string[] {
  const standard = [...imports].filter((i) => !/numpy|tritonclient/.test(i)).sort();
  const others = [...imports].filter((i) => /numpy|tritonclient/.test(i)).sort();
  return standard.length ? [...standard, "", ...others] : others;
}

function array(p: Prepared, t: Tensor, imports: Set<string>): string {
  const shape = `.reshape([${t.shape.join(", ")}])`;
  if (written(t)) {
    const elements =
      t.datatype === "BYTES"
        ? texts(t)
        : decode(t.datatype, t.data).map((e) => (t.datatype === "BOOL" ? (e === "true" ? "True" : "False") : e));
    return `np.array([${elements.join(", ")}], dtype=${dtypes[t.datatype]})${shape}`;
  }
  const file = p.fileOf.get(t.data);
  if (!file) imports.add("import base64");
  const bytes = file ? `open("${file}", "rb").read()` : `base64.b64decode("""${base64(t.data)}""")`;
  if (t.datatype === "BYTES") {
    imports.add("from tritonclient.utils import deserialize_bytes_tensor");
    return `deserialize_bytes_tensor(${bytes})${shape}`;
  }
  if (t.datatype === "BF16") return `(np.frombuffer(${bytes}, np.uint16).astype(np.uint32) << 16).view(np.float32)${shape}`;
  return `np.frombuffer(${bytes}, ${dtypes[t.datatype]})${shape}`;
}

function texts(t: Tensor): string[] {
  return splitBytes(t.data).map((e) => `${quote(new TextDecoder("utf-8", { ignoreBOM: true }).decode(e))}.encode()`);
}

// plain speaks HTTP itself: a stream, which the client over HTTP does not have, and names that it would escape.
function plain(p: Prepared): string {
  const { call, wire } = p;
  const imports = new Set(["import urllib.request"]);
  const file = p.fileOf.get("head");
  const body = [file ? `open("${file}", "rb").read()` : `${str(wire.head)}.encode()`];
  for (const part of wire.parts) {
    const name = p.fileOf.get(part);
    if (!name) imports.add("import base64");
    body.push(name ? `open("${name}", "rb").read()` : `base64.b64decode("""${base64(part)}""")`);
  }
  const headers = [`"Content-Type": "${wire.parts.length ? "application/octet-stream" : "application/json"}"`];
  if (wire.parts.length) headers.push(`"Inference-Header-Content-Length": "${headLength(wire)}"`);
  if (call.keys) {
    imports.add("import os");
    headers.push('"Authorization": "Bearer " + os.environ["NESO_KEY"]');
  }
  const show = call.stream
    ? ["    for line in answer:", '        if line.startswith(b"data:"):', "            print(line[5:].decode().strip())"]
    : ['    length = int(answer.headers.get("Inference-Header-Content-Length") or -1)', "    print(answer.read(length).decode())"];
  return [
    ...[...imports].sort(),
    "",
    `body = ${body.join(" + ")}`,
    `headers = {${headers.join(", ")}}`,
    `request = urllib.request.Request(${str(p.address)}, body, headers)`,
    "with urllib.request.urlopen(request) as answer:",
    ...show,
  ].join("\n");
}
