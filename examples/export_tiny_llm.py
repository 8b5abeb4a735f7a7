#!/usr/bin/env python3
"""Makes a tiny language model for the backend `genai`: a Llama-like network with random weights.

    pip install onnx numpy
    python export_tiny_llm.py models/tiny_llm

The directory gets what ONNX Runtime GenAI's model builder writes: `model.onnx`, `genai_config.json`, and a tokenizer,
which is trained on the text below. What the model writes has no meaning, but it is always the same: tests compare it
token by token. `--hidden`, `--layers` and `--vocabulary` make it larger, to measure with. `--paged` writes attention
over pages of a cache, which the library's engine batches continuously; `--adapter` leaves room for one of LoRA, and
writes it; `--positions` has the places of the tokens as an input, as models of some kinds have them.
"""

import argparse
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TEXT = """
A server keeps models in memory and answers requests. Each request has a prompt, and the model goes on with it, one
token after the other, until it comes
to an end or has written as many tokens as were asked for. While it writes for one client, others wait or are served
side by side: what the network
computes for one token of eight texts costs little more than for one token of one text, since the weights have to be
read from memory only once.
The cache holds keys and values of the tokens that were read and written. It grows with each of them. When there is no
room left, a request has to wait
until another one has ended, and a request that would never fit is refused at once. Nothing that a client does may
harm what others are told.
The weather was fine that morning. The children went down to the river with bread, cheese and apples, and they came
home when the sun was low. "What did
you see?" asked the old man. "We saw the water, and the birds, and the boats that went to the sea," they said. He
nodded and lit the lamp.
One, two, three, four, five, six, seven, eight, nine, ten. 0 1 2 3 4 5 6 7 8 9 10 11 12 20 30 100 1000. {"name":
"value", "list": [1, 2, 3], "yes": true}
Ein Haus, zwei Häuser; un café, deux cafés; año, über, naïve.
"""

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
BLOCK = 16  # tokens in a page of the cache


def alphabet():
    """The characters that stand for bytes in a vocabulary of GPT-2's kind: printable ones for themselves, the others from 256 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def words(text):
    """Words with the space before them, as the tokenizer splits: letters, digits, others."""
    word, kind = "", ""
    for c in text:
        k = "a" if c.isalpha() else "0" if c.isdigit() else " " if c.isspace() else "."
        if k != kind and not (word == " " and k != " "):
            if word:
                yield word
            word = ""
        word, kind = word + c, k
    yield word


def train(size):
    """Vocabulary and merges of byte pairs, the most frequent first."""
    to = alphabet()
    counts = {}
    for w in words(TEXT):
        key = tuple(to[b] for b in w.encode())
        counts[key] = counts.get(key, 0) + 1
    vocabulary = [to[b] for b in range(256)]
    merges = []
    while len(vocabulary) + len(SPECIAL) < size:
        pairs = {}
        for w, n in counts.items():
            for pair in zip(w, w[1:]):
                pairs[pair] = pairs.get(pair, 0) + n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        vocabulary.append("".join(best))
        joined = {}
        for w, n in counts.items():
            out, i = [], 0
            while i < len(w):
                if w[i : i + 2] == best:
                    out.append(w[i] + w[i + 1])
                    i += 2
                else:
                    out.append(w[i])
                    i += 1
            joined[tuple(out)] = joined.get(tuple(out), 0) + n
        counts = joined
    return vocabulary, merges


def tokenizer(directory, size):
    vocabulary, merges = train(size)
    first = len(vocabulary)
    special = [
        {
            "id": first + i,
            "content": s,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, s in enumerate(SPECIAL)
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocabulary)}, "merges": [" ".join(m) for m in merges]}
    document = {"version": "1.0", "added_tokens": special, "pre_tokenizer": level, "decoder": level, "model": model}
    (directory / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
    options = {
        "tokenizer_class": "GPT2Tokenizer",
        "add_prefix_space": False,
        "add_bos_token": False,
        "eos_token": SPECIAL[0],
        "pad_token": SPECIAL[0],
        "bos_token": SPECIAL[0],
        "unk_token": SPECIAL[0],
        "chat_template": CHAT,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(options, indent=1), encoding="utf-8")
    return first + len(SPECIAL), first


class Graph:
    """Nodes and weights as they come."""

    def __init__(self, seed):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(seed)

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(
            helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", domain=domain, **attributes)
        )
        return names[0] if len(names) == 1 else names

    def constant(self, value, dtype=np.int64):
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, name, *shape, scale=None):
        """Random numbers that leave what they are multiplied with as large as it was."""
        values = self.random.standard_normal(shape) * (shape[0] ** -0.5 if scale is None else scale)
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def norm(self, x, name, size):
        self.weights.append(numpy_helper.from_array(np.ones(size, np.float32), name))
        return self.node("SimplifiedLayerNormalization", [x, name], axis=-1, epsilon=1e-5, stash_type=1)


def rotary(o):
    """Cosines and sines of the places of the context."""
    angles = np.arange(o.context)[:, None] * (10000.0 ** (-np.arange(0, o.head, 2) / o.head))[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def lora(g, x, layer, o):
    """What an adapter adds to the values of a layer. Without one its matrices have no columns and no rows, and add nothing."""
    a, b = f"lora_a_{layer}", f"lora_b_{layer}"
    for name, shape in ((a, (o.hidden, 0)), (b, (0, o.kv * o.head))):
        g.weights.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        g.inputs.append(
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, [o.hidden, f"rank_{layer}"] if name == a else [f"rank_{layer}", o.kv * o.head]
            )
        )
    return g.node("MatMul", [g.node("MatMul", [x, a]), b])


def network(o, vocabulary, used):
    g = Graph(o.seed)
    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    g.inputs = [
        helper.make_tensor_value_info("input_ids", i64, ["tokens"] if o.paged else ["batch_size", "sequence_length"])
    ]
    g.outputs = [
        helper.make_tensor_value_info(
            "logits", f32, ["tokens", vocabulary] if o.paged else ["batch_size", "sequence_length", vocabulary]
        )
    ]
    attend = paged(g, o) if o.paged else grouped(g, o)
    x = g.node("Gather", [g.weight("embedding", vocabulary, o.hidden, scale=1.0), "input_ids"])
    for layer in range(o.layers):
        h = g.norm(x, f"norm_attention_{layer}", o.hidden)
        q = g.node("MatMul", [h, g.weight(f"q_{layer}", o.hidden, o.heads * o.head)])
        k = g.node("MatMul", [h, g.weight(f"k_{layer}", o.hidden, o.kv * o.head)])
        v = g.node("MatMul", [h, g.weight(f"v_{layer}", o.hidden, o.kv * o.head)])
        if o.adapter:
            v = g.node("Add", [v, lora(g, h, layer, o)])
        a = attend(layer, q, k, v)
        x = g.node("Add", [x, g.node("MatMul", [a, g.weight(f"o_{layer}", o.heads * o.head, o.hidden)])])
        h = g.norm(x, f"norm_mlp_{layer}", o.hidden)
        gate = g.node("MatMul", [h, g.weight(f"gate_{layer}", o.hidden, 2 * o.hidden)])
        up = g.node("MatMul", [h, g.weight(f"up_{layer}", o.hidden, 2 * o.hidden)])
        gate = g.node("Mul", [gate, g.node("Sigmoid", [gate])])
        x = g.node(
            "Add", [x, g.node("MatMul", [g.node("Mul", [gate, up]), g.weight(f"down_{layer}", 2 * o.hidden, o.hidden)])]
        )
    x = g.norm(x, "norm_last", o.hidden)
    logits = g.node("MatMul", [x, g.weight("head", o.hidden, vocabulary, scale=4 * o.hidden**-0.5)])
    # Single bytes that are no text by themselves come last, so that the answer is one.
    odd = [b < 256 and not (32 <= b < 127 or b == 10) or used <= b for b in range(vocabulary)]
    g.node("Add", [logits, g.constant(np.where(odd, -50, 0), np.float32)], ["logits"])
    graph = helper.make_graph(g.nodes, "tiny_llm", g.inputs, g.outputs, g.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="export_tiny_llm")


def grouped(g, o):
    """Attention as the model builder writes it for processors: GroupQueryAttention over keys and values side by side."""
    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    g.inputs.append(helper.make_tensor_value_info("attention_mask", i64, ["batch_size", "total_sequence_length"]))
    cosines, sines = rotary(o)
    g.weights += [numpy_helper.from_array(cosines, "cos_cache"), numpy_helper.from_array(sines, "sin_cache")]
    total = g.node(
        "Cast", [g.node("Gather", [g.node("Shape", ["attention_mask"]), g.constant(1)], axis=0)], to=TensorProto.INT32
    )
    if o.positions:
        g.inputs.append(helper.make_tensor_value_info("position_ids", i64, ["batch_size", "sequence_length"]))
    lengths = g.node("ReduceSum", ["attention_mask", g.constant([1])], keepdims=0)
    lengths = g.node("Cast", [g.node("Sub", [lengths, g.constant(1)])], to=TensorProto.INT32)
    size = o.head if o.positions else "kv_cache_dim"  # the model builder leaves it open; older ones did not

    def attend(layer, q, k, v):
        names = [f"present.{layer}.key", f"present.{layer}.value"]
        for kind in ("key", "value"):
            g.inputs.append(
                helper.make_tensor_value_info(
                    f"past_key_values.{layer}.{kind}", f32, ["batch_size", o.kv, "past_sequence_length", size]
                )
            )
            g.outputs.append(
                helper.make_tensor_value_info(
                    f"present.{layer}.{kind}", f32, ["batch_size", o.kv, "total_sequence_length", size]
                )
            )
        turned = ["cos_cache", "sin_cache"]
        if o.positions:
            places, turned = ["position_ids", *turned], []
            q, k = (g.node("RotaryEmbedding", [x, *places], domain="com.microsoft") for x in (q, k))
        inputs = [q, k, v, f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", lengths, total, *turned]
        options = {"num_heads": o.heads, "kv_num_heads": o.kv, "do_rotary": int(not o.positions)}
        return g.node("GroupQueryAttention", inputs, [f"attention_{layer}", *names], domain="com.microsoft", **options)[
            0
        ]

    return attend


def paged(g, o):
    """Attention over a cache of pages, in plain operators: those of GPUs have one of its own, PagedAttention.

    Tokens of all texts come one after the other. `cumulative_sequence_lengths` says where those of each begin,
    `past_sequence_lengths` how many it has had before, and `block_table` in which pages they lie.
    """
    i32, f32 = TensorProto.INT32, TensorProto.FLOAT
    for name, shape in (
        ("cumulative_sequence_lengths", ["batch_plus_1"]),
        ("past_sequence_lengths", ["batch"]),
        ("block_table", ["batch", "max_blocks"]),
    ):
        g.inputs.append(helper.make_tensor_value_info(name, i32, shape))
    cosines, sines = rotary(o)
    g.weights += [numpy_helper.from_array(cosines, "cos_cache"), numpy_helper.from_array(sines, "sin_cache")]
    zero, one, block = g.constant(0), g.constant(1), g.constant(BLOCK)

    def whole(name):
        return g.node("Cast", [name], to=TensorProto.INT64)

    # Of each token: the text that it is of, its place there, and its place in the cache.
    starts, past, table = whole("cumulative_sequence_lengths"), whole("past_sequence_lengths"), whole("block_table")
    table = g.node("Max", [table, zero])  # -1 stands for no page
    number = g.node("Range", [zero, g.node("Squeeze", [g.node("Shape", ["input_ids"])]), one])
    ends = g.node("Slice", [starts, g.constant([1]), g.constant([2**31 - 1])])
    behind = g.node(
        "GreaterOrEqual", [g.node("Unsqueeze", [number, g.constant([1])]), g.node("Unsqueeze", [ends, g.constant([0])])]
    )
    text = g.node("ReduceSum", [g.node("Cast", [behind], to=TensorProto.INT64), g.constant([1])], keepdims=0)
    place = g.node("Add", [g.node("Gather", [past, text]), g.node("Sub", [number, g.node("Gather", [starts, text])])])
    pages = g.node("Gather", [table, text])  # tokens x pages
    page = g.node(
        "GatherElements", [pages, g.node("Unsqueeze", [g.node("Div", [place, block]), g.constant([1])])], axis=1
    )
    slot = g.node(
        "Add", [g.node("Mul", [g.node("Squeeze", [page, g.constant([1])]), block]), g.node("Mod", [place, block])]
    )
    slot = g.node("Unsqueeze", [slot, g.constant([1])])
    places = g.node("Unsqueeze", [place, g.constant([0])])

    # What a token sees: the places of its text up to its own.
    width = g.node("Mul", [g.node("Gather", [g.node("Shape", [table]), one], axis=0), block])
    seen = g.node("LessOrEqual", [g.node("Range", [zero, width, one]), g.node("Unsqueeze", [place, g.constant([1])])])
    bias = g.node("Where", [seen, g.constant(0, np.float32), g.constant(-1e9, np.float32)])
    bias = g.node("Unsqueeze", [bias, g.constant([1, 2])])  # tokens x 1 x 1 x places
    scale, groups = g.constant(o.head**-0.5, np.float32), o.heads // o.kv

    def turn(x, heads):
        x = g.node("Unsqueeze", [x, g.constant([0])])
        x = g.node("RotaryEmbedding", [x, places, "cos_cache", "sin_cache"], domain="com.microsoft")
        return g.node("Squeeze", [x, g.constant([0])])

    def attend(layer, q, k, v):
        cached = []
        for kind, x in (("key", turn(k, o.kv)), ("value", v)):
            name, present, shape = (
                f"past_key_values.{layer}.{kind}",
                f"present.{layer}.{kind}",
                ["num_blocks", BLOCK, o.kv, o.head],
            )
            g.inputs.append(helper.make_tensor_value_info(name, f32, shape))
            g.outputs.append(helper.make_tensor_value_info(present, f32, shape))
            flat = g.node("Reshape", [name, g.constant([-1, o.kv * o.head])])
            flat = g.node("ScatterND", [flat, slot, x])
            g.node("Reshape", [flat, g.constant([-1, BLOCK, o.kv, o.head])], [present])
            mine = g.node("Gather", [present, pages])  # tokens x pages x BLOCK x kv x head
            cached.append(g.node("Reshape", [mine, g.node("Concat", [g.constant([0, -1, o.kv, o.head])], axis=0)]))
        q = g.node("Reshape", [turn(q, o.heads), g.constant([-1, o.kv, groups, o.head])])
        keys = g.node("Transpose", [cached[0]], perm=[0, 2, 3, 1])
        scores = g.node("Add", [g.node("Mul", [g.node("MatMul", [q, keys]), scale]), bias])
        values = g.node("Transpose", [cached[1]], perm=[0, 2, 1, 3])
        out = g.node("MatMul", [g.node("Softmax", [scores], axis=-1), values])
        return g.node("Reshape", [out, g.constant([-1, o.heads * o.head])])

    return attend


def settings(o, vocabulary, first):
    """genai_config.json."""
    inputs = {
        "input_ids": "input_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    if o.paged:
        inputs |= {n: n for n in ("cumulative_sequence_lengths", "past_sequence_lengths", "block_table")}
    else:
        inputs["attention_mask"] = "attention_mask"
        if o.positions:
            inputs["position_ids"] = "position_ids"
    outputs = {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": o.head,
        "hidden_size": o.hidden,
        "inputs": inputs,
        "outputs": outputs,
        "num_attention_heads": o.heads,
        "num_hidden_layers": o.layers,
        "num_key_value_heads": o.kv,
    }
    model = {
        "bos_token_id": first,
        "context_length": o.context,
        "decoder": decoder,
        "eos_token_id": [first, first + 2],
        "pad_token_id": first,
        "type": "decoder" if o.paged else "llama",
        "vocab_size": vocabulary,
    }
    search = {
        "max_length": o.context,
        "min_length": 0,
        "do_sample": False,
        "num_beams": 1,
        "past_present_share_buffer": not o.paged,
    }
    config = {
        "model": model,
        "search": search | {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0},
    }
    if o.paged:
        config["engine"] = {"dynamic_batching": {"block_size": BLOCK, "num_blocks": o.blocks, "max_batch_size": 8}}
    return config


def adapter(directory, o):
    """Weights of LoRA for the inputs that lora() has made, of rank 4, as a file that ONNX Runtime loads beside the model."""
    import onnxruntime as ort

    random = np.random.default_rng(o.seed + 1)
    values = {}
    for layer in range(o.layers):
        for name, shape in ((f"lora_a_{layer}", (o.hidden, 4)), (f"lora_b_{layer}", (4, o.kv * o.head))):
            values[name] = ort.OrtValue.ortvalue_from_numpy(random.standard_normal(shape).astype(np.float32))
    file = ort.AdapterFormat()
    file.set_adapter_version(1)
    file.set_model_version(1)
    file.set_parameters(values)
    file.export_adapter(str(directory / "tiny.onnx_adapter"))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("directory", type=pathlib.Path)
    p.add_argument("--hidden", type=int, default=64, help="width of the network")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4, help="of queries; keys and values have half as many")
    p.add_argument("--context", type=int, default=512, help="tokens that prompt and answer may have together")
    p.add_argument("--vocabulary", type=int, default=512, help="tokens that the tokenizer may have")
    p.add_argument("--blocks", type=int, default=256, help=f"pages of {BLOCK} tokens, with --paged")
    p.add_argument("--paged", action="store_true")
    p.add_argument("--adapter", action="store_true")
    p.add_argument("--positions", action="store_true")
    p.add_argument("--seed", type=int, default=7)
    o = p.parse_args()
    o.kv, o.head = max(1, o.heads // 2), o.hidden // o.heads
    o.directory.mkdir(parents=True, exist_ok=True)
    used, first = tokenizer(o.directory, min(o.vocabulary, 512))
    vocabulary = max(used, o.vocabulary)
    onnx.save(network(o, vocabulary, used), o.directory / "model.onnx")
    (o.directory / "genai_config.json").write_text(
        json.dumps(settings(o, vocabulary, first), indent=1), encoding="utf-8"
    )
    if o.adapter:
        adapter(o.directory, o)


if __name__ == "__main__":
    main()
