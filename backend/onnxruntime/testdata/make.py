"""Writes the models of the tests beside this file: `.venv/bin/python backend/onnxruntime/testdata/make.py`.

They are committed, so that the tests need no onnx package; a test of the end-to-end suite makes them again and compares.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

here = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
value = h.make_tensor_value_info
node = h.make_node

TYPES = {
    "bool": T.BOOL, "uint8": T.UINT8, "uint16": T.UINT16, "uint32": T.UINT32, "uint64": T.UINT64, "int8": T.INT8, "int16": T.INT16,
    "int32": T.INT32, "int64": T.INT64, "fp16": T.FLOAT16, "fp32": T.FLOAT, "fp64": T.DOUBLE, "bytes": T.STRING, "bf16": T.BFLOAT16,
}  # fmt: skip


def save(name, nodes, inputs, outputs, initializers=(), opset=17, ir=9, domains=()):
    graph = h.make_graph(nodes, name, inputs, outputs, initializer=list(initializers))
    model = h.make_model(
        graph, opset_imports=[h.make_opsetid("", opset), *(h.make_opsetid(d, 1) for d in domains)], producer_name=""
    )
    model.ir_version = ir
    (here / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def const(name, values, dtype):
    return numpy_helper.from_array(np.array(values, dtype), name)


for word, t in TYPES.items():
    save(
        f"identity_{word}",
        [node("Identity", ["IN"], ["OUT"])],
        [value("IN", t, ["n", "m"])],
        [value("OUT", t, ["n", "m"])],
    )
for word in ("fp32", "bytes"):
    t = TYPES[word]
    save(
        f"identity_{word}_nobatch",
        [node("Identity", ["IN"], ["OUT"])],
        [value("IN", t, ["m"])],
        [value("OUT", t, ["m"])],
    )

pair = [value("INPUT0", T.FLOAT, ["n", 16]), value("INPUT1", T.FLOAT, ["n", 16])]
both = [value("OUTPUT0", T.FLOAT, ["n", 16]), value("OUTPUT1", T.FLOAT, ["n", 16])]
save(
    "add_sub",
    [node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]), node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
    pair,
    both,
)

# 0 to 9 come back as they are, negative numbers are an error: an index far out of the table.
save(
    "table",
    [
        node("Less", ["IN", "zero"], ["below"]),
        node("Sub", ["IN", "hundred"], ["far"]),
        node("Where", ["below", "far", "IN"], ["at"]),
        node("Gather", ["numbers", "at"], ["OUT"]),
    ],
    [value("IN", T.INT32, ["n", 1])],
    [value("OUT", T.INT32, ["n", 1])],
    [const("zero", 0, np.int32), const("hundred", 100, np.int32), const("numbers", range(10), np.int32)],
)

# Counts to STEPS, slowly enough to be cancelled: a loop of single additions.
body = h.make_graph(
    [node("Add", ["x", "one"], ["y"]), node("Identity", ["cond"], ["cond_out"])],
    "body",
    [value("i", T.INT64, []), value("cond", T.BOOL, []), value("x", T.INT64, [1])],
    [value("cond_out", T.BOOL, []), value("y", T.INT64, [1])],
    initializer=[const("one", [1], np.int64)],
)
save(
    "count",
    [node("Squeeze", ["STEPS", "axes"], ["steps"]), node("Loop", ["steps", "", "start"], ["COUNT"], body=body)],
    [value("STEPS", T.INT64, [1])],
    [value("COUNT", T.INT64, [1])],
    [const("axes", [0], np.int64), const("start", [0], np.int64)],
)

# Shapes that no name predicts, or that a name predicts wrongly.
save("nonzero", [node("NonZero", ["IN"], ["OUT"])], [value("IN", T.FLOAT, ["n"])], [value("OUT", T.INT64, [1, None])])
save(
    "twice",
    [node("Concat", ["IN", "IN"], ["OUT"], axis=0)],
    [value("IN", T.FLOAT, ["n"])],
    [value("OUT", T.FLOAT, ["n"])],
)
save(
    "through",
    [node("Neg", ["IN"], ["NEG"])],
    [value("IN", T.FLOAT, ["n"])],
    [value("NEG", T.FLOAT, ["n"]), value("IN", T.FLOAT, ["n"])],
)
save("scalar", [node("ReduceSum", ["IN", "axes"], ["SUM"], keepdims=0), node("Mul", ["SUM", "K"], ["OUT"])],
     [value("IN", T.FLOAT, ["n"]), value("K", T.FLOAT, [])], [value("OUT", T.FLOAT, [])], [const("axes", [0], np.int64)])  # fmt: skip
save(
    "column",
    [node("Squeeze", ["IN", "axes"], ["OUT"])],
    [value("IN", T.FLOAT, ["n", 1])],
    [value("OUT", T.FLOAT, ["n"])],
    [const("axes", [1], np.int64)],
)

# Outputs that no node writes, or that are known before anything runs.
save("constant", [node("Neg", ["IN"], ["NEG"]), node("Add", ["C", "D"], ["E"])], [value("IN", T.FLOAT, ["n"])],
     [value("NEG", T.FLOAT, ["n"]), value("C", T.FLOAT, [2]), value("E", T.FLOAT, [2])],
     [const("C", [7, 8], np.float32), const("D", [1, 1], np.float32)])  # fmt: skip

# B has a default value: an optional input.
save(
    "optional",
    [node("Add", ["A", "B"], ["OUT"])],
    [value("A", T.FLOAT, ["n"]), value("B", T.FLOAT, [1])],
    [value("OUT", T.FLOAT, ["n"])],
    [const("B", [10], np.float32)],
)

# A sum over a sequence, by implicit state, and the sum of ragged requests.
save("accumulate", [node("Add", ["IN", "STATE_IN"], ["STATE_OUT"]), node("Identity", ["STATE_OUT"], ["SUM"])],
     [value("IN", T.INT32, ["n", 1]), value("STATE_IN", T.INT32, ["n", 1])],
     [value("SUM", T.INT32, ["n", 1]), value("STATE_OUT", T.INT32, ["n", 1])])  # fmt: skip
# From the running sums of all elements the sums at the ends of the requests, less those at the ends of the ones before.
save(
    "ragged",
    [
        node("CumSum", ["IN", "axis"], ["sums"]),
        node("Concat", ["nought", "sums"], ["padded"], axis=0),
        node("Gather", ["padded", "ENDS"], ["last"]),
        node("Slice", ["last", "from0", "to0", "axis1"], ["before"]),
        node("Slice", ["last", "from1", "to1", "axis1"], ["after"]),
        node("Sub", ["after", "before"], ["flat"]),
        node("Unsqueeze", ["flat", "one1"], ["OUT"]),
    ],
    [value("IN", T.FLOAT, [None]), value("ENDS", T.INT32, [None])],
    [value("OUT", T.FLOAT, [None, 1])],
    [
        const("axis", 0, np.int64), const("axis1", [0], np.int64), const("nought", [0], np.float32),
        const("one1", [1], np.int64), const("from0", [0], np.int64),
        const("to0", [-1], np.int64), const("from1", [1], np.int64), const("to1", [2**62], np.int64),
    ],
)  # fmt: skip

# What cannot be served.
save("sequence", [node("SequenceConstruct", ["IN"], ["LIST"]), node("Identity", ["IN"], ["OUT"])], [value("IN", T.FLOAT, ["n"])],
     [h.make_tensor_sequence_value_info("LIST", T.FLOAT, ["n"]), value("OUT", T.FLOAT, ["n"])])  # fmt: skip
save(
    "opset",
    [node("Identity", ["IN"], ["OUT"])],
    [value("IN", T.FLOAT, ["n"])],
    [value("OUT", T.FLOAT, ["n"])],
    opset=999,
)
save("ir", [node("Identity", ["IN"], ["OUT"])], [value("IN", T.FLOAT, ["n"])], [value("OUT", T.FLOAT, ["n"])], ir=999)
save(
    "custom",
    [node("Frobnicate", ["IN"], ["OUT"], domain="acme")],
    [value("IN", T.FLOAT, ["n"])],
    [value("OUT", T.FLOAT, ["n"])],
    domains=["acme"],
)
outside = onnx.TensorProto(name="W", data_type=T.FLOAT, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
outside.external_data.add(key="location", value="weights.bin")
save(
    "external",
    [node("Add", ["IN", "W"], ["OUT"])],
    [value("IN", T.FLOAT, [4])],
    [value("OUT", T.FLOAT, [4])],
    [outside],
)

# The sum of the negatives: as much memory as the input in between, none of it in the output.
save(
    "between",
    [node("Neg", ["IN"], ["negatives"]), node("ReduceSum", ["negatives"], ["OUT"], keepdims=0)],
    [value("IN", T.FLOAT, ["n"])],
    [value("OUT", T.FLOAT, [])],
)
