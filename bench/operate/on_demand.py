"""A thousand models of which fifty fit, by hand: `.venv/bin/python bench/operate/on_demand.py`.

Measures the latency of warm models while nothing is loaded, and while requests for cold ones have others evicted all the time; no request
may be lost. Warm and cold requests come at fixed rates, so that both measurements have the same load but for the loads of models.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
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


def measure(options):
    with tempfile.TemporaryDirectory() as directory:
        models(pathlib.Path(directory), options.models)
        ports = [options.port + i for i in range(3)]
        command = [
            str(ROOT / "bin" / "neso"),
            "serve",
            f"--model-repository={directory}",
            "--model-control-mode=on-demand",
        ]
        command += [
            f"--model-memory-limit={options.limit}",
            f"--python={sys.executable}",
            "--on-demand-timeout-secs=120",
        ]
        for name, port in zip(("http", "grpc", "metrics"), ports):
            command += [f"--{name}-port={port}", f"--{name}-address=127.0.0.1"]
        with open(options.log, "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            return run(options, ports)
        finally:
            server.terminate()
            server.wait(60)


def run(options, ports):
    for _ in range(3000):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", ports[0])
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                break
        except OSError:
            pass
        time.sleep(0.01)  # polling another process: there is nothing to wait on
    warm = [f"m{i}" for i in range(options.warm)]
    cold = [f"m{i}" for i in range(options.warm, options.models)]
    client = Client(ports[0])
    for name in warm:
        client.infer(name)
    rows, lost = [], []
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        took = list(pool.map(lambda name: Client(ports[0]).infer(name), warm + cold))
    print(
        f"{len(took)} models once each, 16 at a time: {time.perf_counter() - begin:.1f} s, p99 {percentile(took, 0.99):.0f} ms, none lost"
    )
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
    print(metrics(ports[2]))
    without, with_loads = ([r["p99"] for r in rows if r["loads"] is loads] for loads in (False, True))
    ratio = sorted(with_loads)[len(with_loads) // 2] / sorted(without)[len(without) // 2]
    print(f"p99 of warm models with loads / without, medians: {ratio:.2f}; requests lost: {len(lost)}")
    for text in lost[:5]:
        print(text)
    return ratio, lost


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
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
