// Names and values of others as literals of each language: the language itself says
// what it reads.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { event, read } from "../src/try/answer";
import { type Call, flat, parameters, wire } from "../src/try/call";
import { code } from "../src/try/code/index";
import { base64, cpp, go, python, shell } from "../src/try/code/quote";
import { decode, encode, joinBytes } from "../src/try/datatype";
import { events } from "../src/try/events";
import { parse, quote } from "../src/try/json";
import type { Signature, TensorSpec } from "../src/try/signature";
import type { Tensor } from "../src/try/values";

const bits = ["'", '"', "`", "$(id)", "${x}", "$x", "\\", "\\n", "\n", "\r", "\t", "!", "%s", "%", "#", "//", "/*", "*/", "??/",
  "??=", "-", "@", "EOF", "\u0001", "\u007f", "0", "7", "a", "é", "日",
  "😀", "\u202e", "\u2028", "\ufeff", "<b>", "{}", '"""', "\b", "\f", " "]; // prettier-ignore
let seed = 1;
const below = (n: number): number => {
  seed = (seed * 48271) % 2147483647;
  return seed % n;
};
const hostile = [
  "",
  ...bits,
  ...Array.from({ length: 300 }, () => Array.from({ length: 1 + below(8) }, () => bits[below(bits.length)]).join("")),
];

function run(t: { skip(why: string): void }, command: string, args: string[]): string | undefined {
  const r = spawnSync(command, args, { encoding: "utf8", timeout: 120_000, maxBuffer: 1 << 26 });
  if (r.error && "code" in r.error && r.error.code === "ENOENT") return void t.skip(`there is no ${command}`);
  assert.equal(r.status, 0, r.stderr);
  return r.stdout;
}

function inFile(name: string, text: string, use: (file: string) => void): void {
  const at = mkdtempSync(join(tmpdir(), "neso-quote-"));
  try {
    writeFileSync(join(at, name), text);
    use(join(at, name));
  } finally {
    rmSync(at, { recursive: true });
  }
}

const same = (out: string | undefined): void => {
  if (out !== undefined) assert.deepEqual(out.split("\0").slice(0, -1), hostile);
};

test("a shell reads what was quoted", (t) => same(run(t, "bash", ["-c", hostile.map((s) => `printf '%s\\0' ${shell(s)}`).join("\n")])));

test("Python reads what was quoted", (t) =>
  inFile("q.py", `import sys\nfor s in [${hostile.map(python).join(", ")}]:\n    sys.stdout.buffer.write(s.encode() + b"\\0")\n`, (f) =>
    same(run(t, "python3", [f])),
  ));

test("Go reads what was quoted", (t) =>
  inFile(
    "q.go",
    `package main\n\nimport "os"\n\nfunc main() {\n` +
      `\tfor _, s := range []string{${hostile.map(go).join(", ")}} {\n\t\tos.Stdout.WriteString(s + "\\x00")\n\t}\n}\n`,
    (f) => same(run(t, "go", ["run", f])),
  ));

test("C++ reads what was quoted", (t) =>
  inFile(
    "q.cpp",
    `#include <cstdio>\nint main() {\n${hostile.map((s) => `std::fputs(${cpp(s)}, stdout); std::putchar(0);`).join("\n")}\n}\n`,
    (f) =>
      same(
        run(t, "g++", ["-std=c++14", "-fsyntax-only", f]) === undefined
          ? undefined
          : run(t, "sh", ["-c", `g++ -std=c++14 -o "${f}.x" "${f}" && "${f}.x"`]),
      ),
  ));

test("JSON escapes what is not seen", () => {
  for (const s of hostile) {
    assert.equal(JSON.parse(quote(s)), s);
    assert.ok(!/[\u0000-\u001f\u007f\u202e\u2028\ufeff]/.test(quote(s)));
  }
  assert.equal(quote("\ud800"), '"\\ud800"');
});

test("base64 has lines", () => assert.equal(base64(new Uint8Array(60)), `${"A".repeat(76)}\nAAAA`));

const spec = (name: string, datatype: TensorSpec["datatype"], dims: number[]): TensorSpec => ({
  name,
  datatype,
  dims,
  optional: false,
  labels: false,
  format: "",
});
const tensor = (name: string, datatype: Tensor["datatype"], elements: string[]): Tensor => ({
  name,
  datatype,
  shape: [elements.length],
  data: encode(datatype, elements),
});
const output = (name: string, d: TensorSpec["datatype"], classes: number, bytes = false): Call["outputs"][0] => ({
  name,
  classes,
  bytes,
  spec: spec(name, d, [10]),
});
const call = (inputs: Tensor[], more: Partial<Call> = {}): Call => ({
  url: "http://h:1", model: "m", keys: false, stream: false, inputs, parameters: [], outputs: [output("Y", "INT64", 0)], ...more,
}); // prettier-ignore

test("tensors travel as JSON where it has them, else as bytes", () => {
  const w = wire(
    call([
      tensor("A", "INT64", ["9007199254740993"]),
      tensor("B", "FP16", ["1"]),
      tensor("C", "FP32", ["NaN"]),
      tensor("D", "BYTES", ['"\n']),
    ]),
  );
  assert.equal(w.path, "/v2/models/m/infer");
  assert.deepEqual(
    JSON.parse(w.head).inputs.map((i: { data?: unknown; parameters?: unknown }) => i.data ?? i.parameters),
    [[9007199254740992], { binary_data_size: 2 }, { binary_data_size: 4 }, ['"\n']],
  );
  assert.ok(w.head.includes("9007199254740993"));
  assert.deepEqual(
    w.parts.map((p) => p.length),
    [2, 4],
  );
  assert.equal(wire(call([tensor("A", "INT8", Array(257).fill("1"))])).parts.length, 1);
  const raw = { name: "E", datatype: "BYTES" as const, shape: [1], data: joinBytes([new Uint8Array([0xff])]) };
  assert.equal(wire(call([raw])).parts[0], raw.data);
  const classes = { outputs: [output("Y", "FP32", 3), output("Z", "BF16", 0, true)] };
  assert.deepEqual(JSON.parse(wire(call([], classes)).head).outputs, [
    { name: "Y", parameters: { classification: 3 } },
    { name: "Z", parameters: { binary_data: true } },
  ]);
});

test("parameters are strings, numbers and booleans that go over the wire", () => {
  const s = { inputs: [spec("X", "FP32", [1])] } as unknown as Signature;
  assert.deepEqual(
    parameters(' {"a": 18446744073709551615, "b": "x", "c": true, "a": 1.5} ', s).map(([k]) => k),
    ["b", "c", "a"],
  );
  assert.deepEqual(parameters(" ", s), []);
  for (const [wrong, why] of [
    ["[]", /expected an object/],
    ['{"a":[]}', /"a": expected a string, a number/],
    ['{"X":1}', /"X" is an input/],
    ['{"a":18446744073709551616}', /no number of 64 bits/],
    ['{"a":NaN}', /no number/],
  ] as const) {
    assert.throws(() => parameters(wrong, s), why);
  }
});

test("a stream is flat JSON", () => {
  const c = call([tensor("T", "BYTES", ["a"]), tensor("N", "INT64", ["1", "2"])], {
    stream: true,
    parameters: [["p", { kind: "boolean", value: true }]],
  });
  assert.equal(flat(c), '{"T":"a","N":[1,2],"p":true}');
  assert.throws(() => flat(call([tensor("H", "FP16", ["1"])])), /H: a stream over HTTP is JSON, which does not have FP16/);
  assert.throws(() => flat(call([tensor("H", "FP32", ["NaN"])])), /H: a stream over HTTP is JSON/);
});

test("answers come back exactly", () => {
  const text =
    '{"model_version":"2","outputs":[{"name":"Y","datatype":"INT64","shape":[1,2],"data":[9007199254740993,-1]},' +
    '{"name":"Z","datatype":"BF16","shape":[1],"parameters":{"binary_data_size":2}}]}';
  const data = new Uint8Array([...new TextEncoder().encode(text), 0x80, 0x3f]);
  const a = read(call([]), data, String(text.length));
  assert.deepEqual(
    a.outputs.map((o) => decode(o.datatype, o.data)),
    [["9007199254740993", "-1"], ["1"]],
  );
  for (const length of ["x", "-1", "9999"]) assert.throws(() => read(call([]), data, length), /the answer's JSON is said to have/);
  assert.throws(() => read(call([]), new TextEncoder().encode("<html>"), null), /this is no JSON/);
  const e = event(call([]), '{"model_name":"m","model_version":"1","Y":18446744073709551,"note":"x"}');
  assert.deepEqual([decode("INT64", e.outputs[0]!.data), e.parameters[0]![0]], [["18446744073709551"], "note"]);
  assert.throws(() => event(call([]), '{"error":"no"}'), /^Error: no$/);
});

test("events come in whatever pieces", async () => {
  const bytes = new TextEncoder().encode('data: {"a":"é"}\n\ndata: 2\r\n\r\n: note\ndata:3');
  for (const size of [1, 2, 7, 100]) {
    const got: string[] = [];
    const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));
    for await (const e of events(new ReadableStream({ start: (c) => (parts.forEach((p) => c.enqueue(p)), c.close()) }))) got.push(e);
    assert.deepEqual(got, ['{"a":"é"}', "2", "3"]);
  }
});

test("what is long stands in files", () => {
  const long = { ...tensor("A", "FP32", ["0"]), shape: [20_000], data: new Uint8Array(80_000) };
  const { lines, files } = code(call([tensor("S", "INT8", ["1"]), long]));
  assert.deepEqual(
    files.map((f) => [f.name, f.data.length]),
    [["input-2.bin", 80_000]],
  );
  for (const l of lines) assert.ok(l.text.includes("input-2.bin") && l.text.length < 4000, l.language);
});

test("Go's lines are formatted", (t) => {
  const all = [
    call([tensor("A", "FP32", ["1"])], {
      parameters: [
        ["sequence_id", parse("18446744073709551615")],
        ["x", parse("true")],
      ],
      keys: true,
    }),
    call([tensor("content(decoded(", "FP16", ["1"])], { model: "it's" }),
    call([{ ...tensor("T", "BYTES", ["a"]), shape: [30_000], data: joinBytes(Array(30_000).fill(new Uint8Array([97]))) }], {
      stream: true,
    }),
    call([tensor("T", "BYTES", ["a`"])], { stream: true }),
    call([{ ...tensor("A", "FP32", ["0"]), data: new Uint8Array(80_000), shape: [20_000] }], {
      outputs: [output("Y", "FP32", 2), output("Z", "BYTES", 0)],
      parameters: [["p", parse("1")]],
    }),
  ];
  for (const c of all) {
    inFile("call.go", `${code(c).lines[2]!.text}\n`, (f) => assert.equal(run(t, "gofmt", ["-l", f]) ?? "", "", code(c).lines[2]!.text));
  }
});
