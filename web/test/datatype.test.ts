import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Datatype,
  datatypes,
  decode,
  encode,
  encodeNumbers,
  joinBytes,
  narrow,
  rangeOf,
  splitBytes,
  widen,
} from "../src/try/datatype";

test("whole numbers are exact, to the ends of their ranges", () => {
  for (const d of datatypes.filter((d) => d.includes("INT"))) {
    const [least, most] = rangeOf(d);
    const all = [least, least + 1n, 0n, most - 1n, most].map(String);
    assert.deepEqual(decode(d, encode(d, all)), all, d);
    for (const wrong of [String(most + 1n), String(least - 1n), "1.5", "x", "", "1e3", "0x1"]) {
      assert.throws(
        () => encode(d, ["0", wrong]),
        new RegExp(`element 2: expected a whole number from ${least} to ${most}`),
        `${d} ${wrong}`,
      );
    }
  }
  assert.deepEqual(decode("INT64", encode("INT64", ["9007199254740993", "+7", "-0", "3.0"])), ["9007199254740993", "7", "0", "3"]);
  assert.deepEqual(Array.from(encode("INT16", ["-2"])), [0xfe, 0xff]);
});

test("floats are as their bits", () => {
  const texts = [
    "0.1",
    "-0",
    "16777216",
    "3.4028235e+38",
    "1e-45",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.17549435e-38",
    "0.30000001192092896",
  ];
  const back = decode("FP32", encode("FP32", texts));
  assert.deepEqual(encode("FP32", back), encode("FP32", texts));
  assert.equal(back[0], "0.1");
  assert.equal(back[1], "-0");
  assert.deepEqual(decode("FP64", encode("FP64", ["0.1", "1e308", "5e-324"])), ["0.1", "1e+308", "5e-324"]);
  for (const wrong of ["1,5", "0x10", "--1", "one", ""]) assert.throws(() => encode("FP32", [wrong]), /element 1: expected a number, got/);
  const bits = new Uint32Array(1);
  for (let i = 0; i < 20_000; i++) {
    bits[0] = (i * 2_654_435_761) >>> 0;
    const data = new Uint8Array(bits.buffer);
    const again = encode("FP32", decode("FP32", data));
    if (Number.isNaN(new Float32Array(bits.buffer)[0])) continue;
    assert.deepEqual(again, data);
  }
});

test("small floats round half to even, and come back from all their bits", () => {
  const known: [number, number][] = [[1, 0x3c00], [-2, 0xc000], [65504, 0x7bff], [65519.99, 0x7bff], [65520, 0x7c00],
    [2 ** -24, 1], [2 ** -25, 0], [3 * 2 ** -25, 2], [2049, 0x6800], [2051, 0x6802]]; // prettier-ignore
  for (const [x, bits] of known) assert.equal(narrow(x, 5, 10), bits, String(x));
  assert.equal(narrow(1.00390625, 8, 7), 0x3f80); // half way: to even
  assert.equal(narrow(1.01171875, 8, 7), 0x3f82);
  assert.equal(narrow(3.4e38, 8, 7), 0x7f80);
  for (const [exponent, mantissa] of [
    [5, 10],
    [8, 7],
  ] as const) {
    for (let bits = 0; bits < 65536; bits++) {
      const x = widen(bits, exponent, mantissa);
      if (Number.isNaN(x)) continue;
      assert.equal(narrow(x, exponent, mantissa), bits);
      const d = mantissa === 10 ? "FP16" : "BF16";
      const data = new Uint8Array([bits & 255, bits >> 8]);
      assert.deepEqual(encode(d, decode(d, data)), data);
    }
  }
  assert.deepEqual(decode("FP16", encode("FP16", ["0.1"])), ["0.1"]);
  assert.deepEqual(decode("BF16", encode("BF16", ["1", "NaN", "-0"])), ["1", "NaN", "-0"]);
});

test("booleans", () => {
  assert.deepEqual(Array.from(encode("BOOL", ["true", "0", "1", "false"])), [1, 0, 1, 0]);
  assert.throws(() => encode("BOOL", ["yes"]), /element 1: expected true or false, got "yes"/);
});

test("texts stand behind their lengths", () => {
  const data = encode("BYTES", ["", "grün", "a\nb"]);
  assert.deepEqual(decode("BYTES", data), ["", "grün", "a\nb"]);
  assert.equal(splitBytes(data, 1).length, 1);
  assert.throws(() => splitBytes(data.subarray(0, data.length - 1)), /end within element 3/);
  assert.deepEqual(decode("BYTES", joinBytes([new Uint8Array([0xff, 1])])), ["2 bytes: ff 01"]);
});

test("computed numbers are rounded and kept in range", () => {
  const made = (d: Datatype, all: number[]): string[] => decode(d, encodeNumbers(d, all));
  assert.deepEqual(made("UINT8", [-3, 0.4, 254.6, 900]), ["0", "0", "255", "255"]);
  assert.deepEqual(made("INT16", [-40000, -1.2, 40000]), ["-32768", "-1", "32767"]);
  assert.deepEqual(made("FP16", [0.5]), ["0.5"]);
  assert.deepEqual(made("INT64", [-5]), ["-5"]);
});
