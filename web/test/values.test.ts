import assert from "node:assert/strict";
import { test } from "node:test";
import { toTensor as sound, soundShaped, toWave } from "../src/try/audio";
import { decode } from "../src/try/datatype";
import { layoutOf, type Normalisation, type Pixels, resize, toPixels, toTensor } from "../src/try/image";
import { parse, write } from "../src/try/json";
import { signatureOf, type TensorSpec } from "../src/try/signature";
import { dimension, fills, filled, fixed, fromFile, fromNumbers, fromTexts, resolve } from "../src/try/values";

const spec = (dims: number[], datatype: TensorSpec["datatype"] = "FP32"): TensorSpec => ({
  name: "X",
  datatype,
  dims,
  optional: false,
  labels: false,
  format: "",
});

test("JSON keeps numbers as they are written", () => {
  for (const s of ['{"a":[9007199254740993,-1.50,NaN,-Infinity],"b":{"c":"\\u202e","d":null},"e":true}', "[]", '""'])
    assert.equal(write(parse(s)), s);
  for (const s of ["", "[1,]", "{a:1}", "[1 2]", '"\n"', "01", "[".repeat(100)]) assert.throws(() => parse(s), /JSON/);
});

test("shapes follow from dimensions, brackets and what is said", () => {
  const cases: [number[], (number | undefined)[], number, number[] | undefined, number[] | RegExp][] = [
    [[-1, 4], [], 4, undefined, [1, 4]],
    [[-1, 4], [], 12, undefined, [3, 4]],
    [[-1, -1], [], 5, undefined, [1, 5]],
    [[-1, -1], [2], 6, undefined, [2, 3]],
    [[-1, -1], [], 6, [3, 2], [3, 2]],
    [[-1, 2, -1], [], 6, undefined, [1, 2, 3]],
    [[8, 8], [], 64, undefined, [8, 8]],
    [[], [], 1, undefined, []],
    [[0], [], 0, undefined, [0]],
    [[8, 8], [], 63, undefined, /expected 64 elements for the shape \[8, 8\], got 63/],
    [[-1, 4], [], 5, undefined, /expected a multiple of 4 elements for the shape \[any, 4\], got 5/],
    [[-1, 4], [], 6, [2, 3], /expected the shape \[any, 4\], got \[2, 3\]/],
    [[-1], [3], 4, undefined, /expected 3 elements/],
  ];
  for (const [dims, said, n, brackets, want] of cases) {
    if (want instanceof RegExp) assert.throws(() => resolve(spec(dims), said, n, brackets), want);
    else assert.deepEqual(resolve(spec(dims), said, n, brackets), want, JSON.stringify(dims));
  }
  assert.deepEqual(fixed(spec([-1, 3]), [], true), [1, 3]);
  assert.throws(() => fixed(spec([-1, 3]), [], false), /dimension 1 of the shape \[any, 3\] is free/);
  assert.equal(dimension(" 12 "), 12);
  assert.equal(dimension(""), undefined);
  for (const wrong of ["-1", "x", "1.5", "99999999999"]) assert.throws(() => dimension(wrong), /expected a dimension/);
});

test("what is typed becomes a tensor", () => {
  const t = fromNumbers(spec([-1, 2], "INT64"), [], "1, 9007199254740993\n3;4");
  assert.deepEqual(
    [t.shape, decode("INT64", t.data)],
    [
      [2, 2],
      ["1", "9007199254740993", "3", "4"],
    ],
  );
  assert.deepEqual(fromNumbers(spec([-1, -1]), [], "[[1],[NaN]]").shape, [2, 1]);
  assert.deepEqual(decode("BYTES", fromNumbers(spec([-1], "BYTES"), [], '["a,b", "c\\n"]').data), ["a,b", "c\n"]);
  for (const wrong of ["[[1],[2,3]]", "[1,[2]]", "[null]", "[{}]"])
    assert.throws(() => fromNumbers(spec([-1, -1]), [], wrong), /brackets|expected numbers/);
  assert.deepEqual(decode("BYTES", fromTexts(spec([1], "BYTES"), [], "two\nlines", false).data), ["two\nlines"]);
  assert.deepEqual(fromTexts(spec([-1], "BYTES"), [], "two\nlines\n", true).shape, [2]);
  assert.deepEqual(fromFile(spec([-1], "INT16"), [], new Uint8Array(6)).shape, [3]);
  assert.throws(() => fromFile(spec([-1], "INT16"), [], new Uint8Array(5)), /expected elements of 2 bytes each, got a file of 5 bytes/);
  assert.deepEqual(fromFile(spec([1], "BYTES"), [], new Uint8Array([255])).data, new Uint8Array([1, 0, 0, 0, 255]));
  for (const fill of fills)
    for (const d of ["FP16", "BOOL", "INT8", "BYTES"] as const) assert.equal(filled(spec([2], d), [2], fill).shape[0], 2);
  assert.throws(() => filled(spec([-1]), [1 << 25], "zeros"), /33554432 elements is too large for this page: expected at most 16777216/);
});

test("signatures", () => {
  const s = signatureOf({
    name: "m", version: "1", url: "http://h:1/", keys: false, metadata: { name: "m" },
    config: {
      name: "m", max_batch_size: 4, model_transaction_policy: { decoupled: true },
      input: [{ name: "T", data_type: "TYPE_STRING", dims: ["-1"], optional: true }],
      output: [{ name: "P", data_type: "TYPE_FP32", dims: [10], label_filename: "l.txt" }],
      sequence_batching: { control_input: [{ control: [{ kind: "CONTROL_SEQUENCE_CORRID", data_type: "TYPE_STRING" }] }] },
    },
  }); // prettier-ignore
  assert.deepEqual(s.inputs, [{ name: "T", datatype: "BYTES", dims: [-1, -1], optional: true, labels: false, format: "" }]);
  assert.deepEqual(
    [s.outputs[0]!.dims, s.outputs[0]!.labels, s.decoupled, s.sequence, s.url],
    [[-1, 10], true, true, "string", "http://h:1"],
  );
});

const as = (n: Partial<Normalisation> = {}): Normalisation => ({ scale: "0 to 1", most: 16, invert: false, bgr: false, ...n });
const pixels = (width: number, height: number, at: (x: number, y: number) => number[]): Pixels => {
  const data = new Uint8ClampedArray(width * height * 4);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) data.set([...at(x, y), 255], (y * width + x) * 4);
  return { width, height, data };
};

test("images are found in shapes", () => {
  const cases: [number[], string, string | undefined][] = [
    [[-1, 3, 224, 224], "", "1 2 3"], [[224, 224, 3], "", "2 0 1"], [[8, 8], "", "-1 0 1"], [[-1, 8, 8], "", "-1 1 2"],
    [[1, 28, 28, 1], "", "3 1 2"],
    [[-1, 3, -1, -1], "", "1 2 3"], [[2, 224, 224], "NCHW", "0 1 2"], [[3, 16, 16], "NHWC", "0 1 2"], [[16], "", undefined],
    [[1, 16], "", undefined], [[5, 6, 7], "", undefined],
  ]; // prettier-ignore
  for (const [dims, format, want] of cases) {
    const l = layoutOf(dims, format);
    assert.equal(l && `${l.channels} ${l.height} ${l.width}`, want, JSON.stringify(dims));
  }
});

test("images are resized by what they cover", () => {
  const p = pixels(4, 2, (x) => (x < 2 ? [255, 0, 0] : [0, 0, 255]));
  assert.deepEqual(Array.from(resize(p, 2, 1, "stretch").data), [255, 0, 0, 255, 0, 0, 255, 255]);
  assert.deepEqual(Array.from(resize(p, 1, 1, "stretch").data.slice(0, 3)), [128, 0, 128]);
  const padded = resize(p, 4, 4, "pad");
  assert.deepEqual([padded.data[0], padded.data[4 * 4], padded.data[12 * 4]], [0, 255, 0]);
  assert.deepEqual(Array.from(resize(p, 2, 2, "crop").data.slice(0, 8)), [255, 0, 0, 255, 0, 0, 255, 255]);
  const larger = resize(
    pixels(2, 1, (x) => [x * 100, 0, 0]),
    4,
    1,
    "stretch",
  );
  assert.deepEqual(
    [0, 4, 8, 12].map((i) => larger.data[i]),
    [0, 25, 75, 100],
  );
});

test("images become tensors in each layout, and come back", () => {
  const p = pixels(8, 8, (x, y) => [x * 30, y * 30, 255]);
  const chw = { channels: 1, height: 2, width: 3 };
  const hwc = { channels: 3, height: 1, width: 2 };
  const a = toTensor("X", "UINT8", [1, 3, 8, 8], chw, p, as({ scale: "0 to 255" }));
  assert.deepEqual([a.data[1], a.data[64 + 8], a.data[128]], [30, 30, 255]);
  assert.deepEqual(toPixels(a, chw).pixels, p);
  const b = toTensor("X", "UINT8", [1, 8, 8, 3], hwc, p, as({ scale: "0 to 255", bgr: true }));
  assert.deepEqual(Array.from(b.data.slice(3, 6)), [255, 0, 30]);
  const grey = toTensor(
    "X",
    "FP32",
    [8, 8],
    { channels: -1, height: 0, width: 1 },
    pixels(8, 8, () => [255, 255, 255]),
    as({ scale: "0 to N" }),
  );
  assert.ok(decode("FP32", grey.data).every((x) => Math.abs(Number(x) - 16) < 1e-5));
  const net = toTensor("X", "FP32", [1, 3, 8, 8], chw, p, as({ scale: "ImageNet" }));
  assert.ok(Math.abs(Number(decode("FP32", net.data)[0]) + 0.485 / 0.229) < 1e-6);
  const inverted = toTensor("X", "FP16", [1, 3, 8, 8], chw, p, as({ scale: "-1 to 1", invert: true }));
  assert.equal(decode("FP16", inverted.data)[0], "1");
  assert.equal(toPixels(net, chw).pixels.data.length, 8 * 8 * 4);
});

test("sounds", () => {
  assert.deepEqual(
    [[-1], [-1, 16000], [1, -1], [10], [3, -1]].map((d) => soundShaped("FP32", d)),
    [true, true, true, false, false],
  );
  const samples = Float32Array.from([0.5, -1, 1]);
  assert.deepEqual(sound(spec([-1, -1]), [], samples).tensor.shape, [1, 3]);
  assert.deepEqual(decode("INT16", sound(spec([-1], "INT16"), [], samples).tensor.data), ["16384", "-32767", "32767"]);
  const cut = sound(spec([-1]), [2], samples);
  assert.deepEqual([cut.tensor.shape, cut.how], [[2], "3 samples, cut to 2 for the shape [any]"]);
  const wave = new DataView(toWave(sound(spec([-1]), [], samples).tensor, 8000).buffer);
  assert.deepEqual(
    [wave.byteLength, wave.getUint32(4, true), wave.getUint32(24, true), wave.getInt16(44, true), wave.getInt16(46, true)],
    [50, 42, 8000, 16384, -32767],
  );
  assert.match(sound(spec([-1, 1000]), [], samples).how, /with silence up to 1000/);
});
