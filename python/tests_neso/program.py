"""A user's program in a process of its own, for tests that end it, and what they look for afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request

HEAD = """
import json, os, signal, sys, threading, time
import numpy as np
from neso import ModelConfig, ModelClient, Tensor, Triton, TritonConfig, RemoteTriton, batch

ENDS = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}
ENDS |= {"http_port": 0, "grpc_port": 0, "metrics_port": 0} if hasattr(dict, "__or__") else {}

def config(**settings):
    return TritonConfig(**{**ENDS, **settings})

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]

@batch
def double(x):
    return {"y": 2 * x}

def serve(triton):
    def tell():
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL or not triton.is_connected():
            time.sleep(0.01)
        say(triton)  # from now on a signal ends it in order
    threading.Thread(target=tell, daemon=True).start()
    triton.serve()

def say(*tritons, **more):
    print(json.dumps({"urls": [t.url for t in tritons], "pids": [t._server.pid for t in tritons], **more}), flush=True)
"""


class Program:
    """Runs a text after HEAD; what it says is in ``told``."""

    def __init__(self, text, **more):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD + textwrap.dedent(text)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.told = json.loads(line)
        self.urls, self.pids = self.told["urls"], self.told["pids"]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, signal=None):
        """Sends a signal and returns the exit status and the log."""
        if signal is not None:
            self.process.send_signal(signal)
        log = self.process.stderr.read()
        return self.process.wait(60), log


@contextlib.contextmanager
def reserved():
    """A port that a server may listen on and nobody else gets: it is bound, and nobody listens."""
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server sets it: both may then bind
        mine.bind(("127.0.0.1", 0))
        yield mine.getsockname()[1]


def alive(pid):
    """Whether a process runs, or a thread of it; one that nobody has waited for yet is over."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/task/{thread}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] not in ("Z", "X"):
                        return True
    return False


def wait_until(what, seconds=60.0):
    """Asks again until it is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it has not come to pass"
        time.sleep(0.02)


def infer(url, model="m", value=3.0):
    """One request with plain HTTP."""
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [value]}]}
    with urllib.request.urlopen(f"{url}/v2/models/{model}/infer", json.dumps(body).encode(), timeout=60) as answer:
        return json.load(answer)["outputs"][0]["data"][0]


def ready(url, model):
    """Whether a model is ready."""
    try:
        with urllib.request.urlopen(f"{url}/v2/models/{model}/ready", timeout=60) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False
