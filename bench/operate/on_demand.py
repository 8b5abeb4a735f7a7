"""Models on demand: `make bench-on-demand` runs all of it and writes bench/ON_DEMAND.md; by hand one part,
`.venv/bin/python bench/operate/on_demand.py [many|starts|hot]`.

many: a thousand models of which fifty fit. Measures the latency of warm models while nothing is loaded, and while requests for cold ones
have others evicted all the time; no request may be lost. Warm and cold requests come at fixed rates, so that both measurements have the
same load but for the loads of models.

starts: how long a request waits for a model that has never been in, and for one that comes back: Python models, with the prepared process
that their workers are forked from and without, and an ONNX model with 200 MB of weights in a file that is mapped.

hot: processor time a request of a model that is in, in this mode and without it, by turns.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import procstat  # noqa: E402

BODY = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]})
CONFIG = """backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
CODE = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())])
            for r in requests
        ]
"""


def models(directory, count):
    for number in range(count):
        version = directory / f"m{number}" / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE)
        (version.parent / "config.pbtxt").write_text(CONFIG)


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def infer(self, model):
        begin = time.perf_counter()
        self.connection.request("POST", f"/v2/models/{model}/infer", body=BODY)
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{model}: {reply.status} {text[:300]!r}")
        return time.perf_counter() - begin


def steady(port, names, rate, seconds, end):
    """Latencies of requests at a rate, from when each was due."""
    client, took, begin = Client(port), [], time.perf_counter()
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        if end.is_set():
            break
        client.infer(random.choice(names))
        took.append(time.perf_counter() - due)
    return took


def percentile(took, share):
    return sorted(took)[min(len(took) - 1, int(share * len(took)))] * 1e3


def metrics(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    return "\n".join(
        line for line in connection.getresponse().read().decode().splitlines() if line.startswith("neso_on_demand")
    )


@contextlib.contextmanager
def serving(options, directory, *flags, first=0, **environment):
    """A server of a repository: its ports, and its process."""
    ports = [options.port + first + i for i in range(3)]
    command = [
        str(ROOT / "bin" / "neso"),
        "serve",
        f"--model-repository={directory}",
        f"--python={sys.executable}",
        *flags,
    ]
    for name, port in zip(("http", "grpc", "metrics"), ports):
        command += [f"--{name}-port={port}", f"--{name}-address=127.0.0.1"]
    with open(options.log, "ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    try:
        for _ in range(3000):
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", ports[0])
                connection.request("GET", "/v2/health/ready")
                if connection.getresponse().status == 200:
                    break
            time.sleep(0.01)  # polling another process: there is nothing to wait on
        yield ports, server
    finally:
        server.terminate()
        server.wait(60)


ON_DEMAND = "--model-control-mode=on-demand"
REPORT = ROOT / "bench" / "ON_DEMAND.md"
LIMIT = 1.5  # what loads of cold models may cost the p99 of warm ones


def many(options):
    with tempfile.TemporaryDirectory() as directory:
        models(pathlib.Path(directory), options.models)
        flags = [ON_DEMAND, f"--model-memory-limit={options.limit}", "--on-demand-timeout-secs=120"]
        with serving(options, directory, *flags) as (ports, _):
            return run(options, ports)


def weighty(directory, megabytes=200):
    """An ONNX model whose weights lie in a file of their own: OUT is IN, a vector of a thousand, times a matrix and back."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rows = megabytes * 1_000_000 // 4 // 1000
    weights = [
        numpy_helper.from_array(np.zeros(shape, np.float32), name)
        for name, shape in (("w", (1000, rows)), ("v", (rows, 1)))
    ]
    graph = helper.make_graph(
        [helper.make_node("Expand", ["IN", "wide"], ["x"]), helper.make_node("MatMul", ["x", "w"], ["y"]),
         helper.make_node("MatMul", ["y", "v"], ["z"]), helper.make_node("Squeeze", ["z", "last"], ["OUT"])],
        "weighty",
        [helper.make_tensor_value_info("IN", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("OUT", TensorProto.FLOAT, [1])],
        [*weights, numpy_helper.from_array(np.array([1, 1000]), "wide"), numpy_helper.from_array(np.array([1]), "last")],
    )  # fmt: skip
    version = directory / "onnx" / "1"
    version.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, version / "model.onnx", save_as_external_data=True, location="weights", size_threshold=1024)
    (version.parent / "config.pbtxt").write_text(CONFIG.replace('"python"', '"onnxruntime"'))


def starts(options):
    """Prints what a request waits for a load, in ms, medians, and returns it by what the workers come from."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        models(pathlib.Path(directory), 12)
        weighty(pathlib.Path(directory))
        for config in pathlib.Path(directory).glob("*/config.pbtxt"):
            config.write_text(
                config.read_text() + 'parameters { key: "on_demand_idle_secs" value { string_value: "0.2" } }'
            )
        for what, environment in (("forked", {}), ("without a prepared process", {"NESO_PYTHON_ZYGOTE": "0"})):
            with serving(options, directory, ON_DEMAND, **environment) as (ports, _):
                client, first, again = Client(ports[0]), [], []
                for name in [*(f"m{i}" for i in range(12)), "onnx"]:
                    first.append(1e3 * client.infer(name))
                    back = []
                    for _ in range(3):
                        time.sleep(1.5)  # it leaves: a second it stays at least
                        back.append(1e3 * client.infer(name))
                    again.append(statistics.median(back))
                warm = statistics.median(1e3 * client.infer("onnx") for _ in range(50))
            found[what] = (
                first[0],
                statistics.median(first[1:12]),
                statistics.median(again[:12]),
                first[12],
                again[12],
                warm,
            )
            print(
                "{}: the first Python model {:.0f}, further ones {:.1f}, come back {:.1f}; ONNX first {:.0f}, come back {:.0f}, "
                "warm {:.1f}".format(what, *found[what]),
                flush=True,
            )
    return found


def hot(options):
    """Prints the processor time a request of a no-op model that is in, in both modes."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        version = pathlib.Path(directory) / "noop" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(CONFIG.replace('"python"', '"identity"'))
        modes = {"none": (), "on-demand": (ON_DEMAND, "--model-memory-limit=1G")}
        sides = {
            m: stack.enter_context(serving(options, directory, *f, first=10 * i))
            for i, (m, f) in enumerate(modes.items())
        }
        spent = {mode: [] for mode in modes}
        for turn in range(options.turns + 1):
            for mode, (ports, server) in sides.items():
                before = procstat.cpu_ticks(procstat.tree(server.pid))
                perf = [str(ROOT / "bin" / "neso"), "perf", "-m", "noop", "-u", f"127.0.0.1:{ports[0]}"]
                perf += ["--concurrency-range", "32", "--request-count", str(options.requests)]
                subprocess.run(perf, check=True, capture_output=True, timeout=300)
                ticks = procstat.cpu_ticks(procstat.tree(server.pid)) - before
                if turn:  # the first is to get warm
                    spent[mode].append(ticks * procstat.TICK_SECONDS * 1e6 / options.requests)
        for mode, each in spent.items():
            print(
                f"{mode}: {statistics.median(each):.2f} us a request ({min(each):.2f} to {max(each):.2f}, {len(each)} turns)"
            )
        return spent


def run(options, ports):
    warm = [f"m{i}" for i in range(options.warm)]
    cold = [f"m{i}" for i in range(options.warm, options.models)]
    client = Client(ports[0])
    for name in warm:
        client.infer(name)
    rows, lost = [], []
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        took = list(pool.map(lambda name: Client(ports[0]).infer(name), warm + cold))
    swept = f"{len(took)} models once each, 16 at a time: {time.perf_counter() - begin:.1f} s"
    swept += f", p99 {percentile(took, 0.99):.0f} ms, none lost"
    print(swept)
    for name in warm:
        client.infer(name)
    # By turns: without loads, with them.
    for turn in range(options.turns):
        for loads in (False, True):
            end, colds = threading.Event(), []

            def ask_cold(number, end=end, colds=colds):
                one = Client(ports[0])
                while not end.is_set():
                    try:
                        colds.append(one.infer(random.choice(cold)))
                    except RuntimeError as err:
                        lost.append(str(err))
                    time.sleep(random.expovariate(options.cold_rate / options.clients))

            with concurrent.futures.ThreadPoolExecutor(options.clients + 1) as pool:
                if loads:
                    for number in range(options.clients):
                        pool.submit(ask_cold, number)
                took = pool.submit(steady, ports[0], warm, options.rate, options.seconds, end).result()
                end.set()
            row = {"turn": turn, "loads": loads, "n": len(took), "cold": len(colds)}
            row |= {f"p{p}": round(percentile(took, p / 100), 3) for p in (50, 90, 99)}
            if colds:
                row |= {"cold_p50": round(percentile(colds, 0.5), 1), "cold_p99": round(percentile(colds, 0.99), 1)}
            rows.append(row)
            print(row, flush=True)
    numbers = metrics(ports[2])
    print(numbers)
    without, with_loads = ([r["p99"] for r in rows if r["loads"] is loads] for loads in (False, True))
    ratio = sorted(with_loads)[len(with_loads) // 2] / sorted(without)[len(without) // 2]
    print(f"p99 of warm models with loads / without, medians: {ratio:.2f}; requests lost: {len(lost)}")
    for text in lost[:5]:
        print(text)
    return {"ratio": ratio, "lost": lost, "rows": rows, "swept": swept, "metrics": numbers}


def everything(options):
    """Writes the report of all parts; whether the promise is kept."""
    busy = os.getloadavg()[0]
    found, waits, spent = many(options), starts(options), hot(options)
    kept = found["ratio"] <= LIMIT and not found["lost"]
    rows = [
        f"| {r['turn'] + 1} | {'yes' if r['loads'] else 'no'} | {r['n']} | {r['p50']:.2f} | {r['p90']:.2f} | {r['p99']:.2f} | "
        f"{r['cold']} | {r.get('cold_p50', '')} | {r.get('cold_p99', '')} |"
        for r in found["rows"]
    ]
    version = subprocess.run(
        [ROOT / "bin" / "neso", "version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        "# Models on demand",
        "",
        f"Written by `make bench-on-demand` with {version}, on {os.cpu_count()} cores of {os.uname().machine}, which clients and server "
        f"share; the load average before was {busy:.1f}: above 1 others disturb it. What is measured: bench/operate/on_demand.py. "
        "[Models on demand](../docs/models/on-demand.md).",
        "",
        f"## {options.models} models, of which about fifty fit",
        "",
        f"{options.warm} warm models get {options.rate:.0f} requests a second; with loads, requests for cold ones come "
        f"{options.cold_rate:.0f} times a second, and each has a model loaded and others evicted. Latencies in ms.",
        "",
        f"**p99 of the warm models with loads by that without, medians of {options.turns} turns: {found['ratio']:.2f}** "
        f"(at most {LIMIT} is promised: {'kept' if kept else 'not kept'}). Requests lost: {len(found['lost'])}. {found['swept']}.",
        "",
        "| turn | loads | requests | p50 | p90 | p99 | cold requests | their p50 | p99 |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        "```text",
        found["metrics"],
        "```",
        "",
        "## What a request waits for a model",
        "",
        "Milliseconds, medians; the ONNX model has 200 MB of weights.",
        "",
        "| workers | the first Python model | further ones | come back | ONNX first | comes back | warm |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join([what, *(f"{v:.1f}" for v in values)]) + " |" for what, values in waits.items()),
        "",
        "## A model that is in",
        "",
        f"Processor time of a no-op over HTTP, 32 connections, medians of {options.turns} turns of {options.requests} requests.",
        "",
        "| mode | µs a request | from | to |",
        "|---|---|---|---|",
        *(
            f"| {mode} | {statistics.median(each):.2f} | {min(each):.2f} | {max(each):.2f} |"
            for mode, each in spent.items()
        ),
        "",
    ]
    REPORT.write_text("\n".join(lines))
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--limit", default="1500M", help="what about fifty workers have")
    parser.add_argument("--rate", type=float, default=200, help="requests a second to warm models")
    parser.add_argument("--cold-rate", type=float, default=4, help="the same to cold ones")
    parser.add_argument("--clients", type=int, default=4, help="connections that ask for cold models")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--port", type=int, default=18200)
    parser.add_argument("--log", default="/tmp/neso-on-demand.log")
    parser.add_argument("what", nargs="?", choices=["all", "many", "starts", "hot"], default="many")
    parser.add_argument("--requests", type=int, default=100_000, help="of a turn of hot")
    options = parser.parse_args()
    kept = {"all": everything, "many": many, "starts": starts, "hot": hot}[options.what](options)
    sys.exit("the p99 of warm models is beyond its limit, or requests were lost" if kept is False else 0)


if __name__ == "__main__":
    main()
