// The call in Go, by the package client.

import { written } from "../call";
import { type Datatype, rangeOf } from "../datatype";
import type { Json } from "../json";
import type { Tensor } from "../values";
import type { Prepared } from "./parts";
import { base64, go as str } from "./quote";

const types: Record<Datatype, string> = {
  BOOL: "bool", UINT8: "uint8", UINT16: "uint16", UINT32: "uint32", UINT64: "uint64",
  INT8: "int8", INT16: "int16", INT32: "int32", INT64: "int64",
  FP16: "float32", BF16: "float32", FP32: "float32", FP64: "float64", BYTES: "string",
}; // prettier-ignore
const constants: Record<Datatype, string> = {
  BOOL: "Bool", UINT8: "Uint8", UINT16: "Uint16", UINT32: "Uint32", UINT64: "Uint64",
  INT8: "Int8", INT16: "Int16", INT32: "Int32", INT64: "Int64",
  FP16: "FP16", BF16: "BF16", FP32: "FP32", FP64: "FP64", BYTES: "Bytes",
}; // prettier-ignore

const packages: Record<string, string> = {
  base64: "encoding/base64", bytes: "bytes", context: "context", fmt: "fmt", http: "net/http", json: "encoding/json", log: "log", os: "os",
  client: "github.com/nesoserve/neso/client", tensor: "github.com/nesoserve/neso/tensor",
}; // prettier-ignore

export function go(p: Prepared): string {
  const used = new Set<string>(["log"]);
  const body = p.call.stream ? streaming(p, used) : infer(p, used);
  const list = [...used].flatMap((u) => packages[u] ?? []).sort();
  const mine = list.filter((i) => i.startsWith("github"));
  const standard = list.filter((i) => !i.startsWith("github"));
  return [
    "// go run call.go, in a module that requires github.com/nesoserve/neso",
    "package main",
    "",
    "import (",
    ...standard.map((i) => `\t"${i}"`),
    "",
    ...mine.map((i) => `\t"${i}"`),
    ")",
    "",
    "func main() {",
    ...body.map((l) => (l ? `\t${l}` : l)),
    "}",
    ...(used.has("base64") ? ["", ...decoded] : []),
    ...(used.has("content") ? ["", ...content] : []),
  ].join("\n");
}

const decoded = [
  "func decoded(text string) []byte {",
  "\tdata, err := base64.StdEncoding.DecodeString(text)",
  "\tif err != nil {",
  "\t\tlog.Fatal(err)",
  "\t}",
  "\treturn data",
  "}",
];
const content = [
  "func content(file string) []byte {",
  "\tdata, err := os.ReadFile(file)",
  "\tif err != nil {",
  "\t\tlog.Fatal(err)",
  "\t}",
  "\treturn data",
  "}",
];
const fatal = ["if err != nil {", "\tlog.Fatal(err)", "}"];

function bytesOf(p: Prepared, part: Uint8Array, used: Set<string>): string {
  const file = p.fileOf.get(part);
  if (file) used.add("os").add("content");
  else used.add("base64");
  return file ? `content("${file}")` : `decoded(\`${base64(part)}\`)`;
}

function literal(j: Json): string {
  if (j.kind === "boolean") return String(j.value);
  if (j.kind === "string") return str(j.text);
  const text = j.kind === "number" ? j.text : "0";
  return /^\d+$/.test(text) && BigInt(text) > rangeOf("INT64")[1] ? `uint64(${text})` : text;
}

function connect(p: Prepared, used: Set<string>): string[] {
  used.add("client").add("context").add("fmt");
  const lines = [`c := client.New(${str(p.call.url)})`];
  if (p.call.keys) {
    used.add("http").add("os");
    lines.push('c.Header = http.Header{"Authorization": {"Bearer " + os.Getenv("NESO_KEY")}}');
  }
  return lines;
}

function input(p: Prepared, t: Tensor, used: Set<string>): string {
  const elements = written(t);
  const data = elements ? `JSON: []byte(${str(`[${elements.join(",")}]`)})` : `Data: ${bytesOf(p, t.data, used)}`;
  return `{Name: ${str(t.name)}, Datatype: tensor.${constants[t.datatype]}, Shape: tensor.Shape{${t.shape.join(", ")}}, ${data}},`;
}

function infer(p: Prepared, used: Set<string>): string[] {
  const { call } = p;
  const lines = connect(p, used);
  used.add("tensor");
  lines.push("answer, err := c.Infer(context.Background(), &client.Request{");
  lines.push(`\tModel: ${str(call.model)},`, "\tInputs: []client.Input{", ...call.inputs.map((t) => `\t\t${input(p, t, used)}`), "\t},");
  const fields: [string, string][] = [];
  const classes = call.outputs.filter((o) => o.classes > 0);
  const others = call.outputs.filter((o) => o.classes === 0);
  if (classes.length && others.length) fields.push(["Outputs:", `[]string{${others.map((o) => str(o.name)).join(", ")}}`]);
  if (classes.length) fields.push(["Classes:", `map[string]int{${classes.map((o) => `${str(o.name)}: ${o.classes}`).join(", ")}}`]);
  if (call.parameters.length)
    fields.push(["Parameters:", `map[string]any{${call.parameters.map(([k, v]) => `${str(k)}: ${literal(v)}`).join(", ")}}`]);
  const width = Math.max(0, ...fields.map(([key]) => key.length));
  lines.push(...fields.map(([key, value]) => `\t${key.padEnd(width)} ${value},`));
  lines.push("})", ...fatal);
  for (const { spec, classes } of call.outputs) {
    lines.push(
      `if o := answer.Output(${str(spec.name)}); o != nil {`,
      `\tvalues, err := tensor.Values[${classes ? "string" : types[spec.datatype]}](` +
        `&tensor.Tensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape, Data: o.Data})`,
      ...fatal.map((l) => `\t${l}`),
      "\tfmt.Println(o.Name, o.Shape, values)",
      "}",
    );
  }
  return lines;
}

function streaming(p: Prepared, used: Set<string>): string[] {
  const { call, wire } = p;
  const lines = connect(p, used);
  used.add("json");
  const file = p.fileOf.get("head");
  if (file) used.add("os").add("content");
  lines.push(
    "var fields map[string]any",
    `decoder := json.NewDecoder(bytes.NewReader(${file ? `content("${file}")` : `[]byte(${str(wire.head)})`}))`,
    "decoder.UseNumber()",
    "if err := decoder.Decode(&fields); err != nil {",
    "\tlog.Fatal(err)",
    "}",
    `err := c.GenerateStream(context.Background(), ${str(call.model)}, "", fields, func(response json.RawMessage) error {`,
    "\tfmt.Println(string(response))",
    "\treturn nil",
    "})",
    ...fatal,
  );
  used.add("bytes");
  return lines;
}
