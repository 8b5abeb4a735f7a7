"""A client that means well: a process of its own that asks one small thing after another, and tells how long that took.

Reads a number of seconds from a line of its input, and answers with a line of JSON: the time of each request in milliseconds, and
what went wrong. Only requests that were answered have a time.
"""

from __future__ import annotations

import http.client
import json
import sys
import time

MODEL = "identity_any_fp32"


def over_http(address: str):
    """A call that infers over one connection, which is made anew when the server ends it."""
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)

    def call():
        connection.request("POST", f"/v2/models/{MODEL}/infer", body)
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status} {text[:200]!r}")

    return call


def over_grpc(address: str):
    """The same with the official client."""
    import numpy as np
    import tritonclient.grpc as grpcclient

    client = grpcclient.InferenceServerClient(address)
    x = grpcclient.InferInput("INPUT0", [1, 2], "FP32")
    x.set_data_from_numpy(np.ones((1, 2), np.float32))
    return lambda: client.infer(MODEL, [x], client_timeout=30)


def main():
    call = {"http": over_http, "grpc": over_grpc}[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times, faults = [], []
        while (begin := time.perf_counter()) < end:
            try:
                call()
                times.append((time.perf_counter() - begin) * 1e3)
            except Exception as e:
                faults.append(f"{type(e).__name__}: {e}")
        print(json.dumps({"times": times, "faults": faults}), flush=True)


if __name__ == "__main__":
    main()
