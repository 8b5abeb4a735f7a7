"""The same requests over JSON, binary, gRPC and stream give the same answers."""

from __future__ import annotations

import http.client

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from forms import DATATYPES, FORMS
from repository import python_model, until
from server import Server
from tritonclient.utils import InferenceServerException


def sample(name: str, shape) -> np.ndarray:
    n = int(np.prod(shape))
    if name == "BYTES":
        return np.array([f"é{i}".encode() * (i % 3) for i in range(n)], dtype=np.object_).reshape(shape)
    if name == "BOOL":
        return (np.arange(n) % 2 == 0).reshape(shape)
    values = np.arange(n) if name.startswith("UINT") else np.arange(n) - n // 2
    return values.astype(DATATYPES[name]).reshape(shape)


@pytest.mark.parametrize("model", ["identity_any", "python_any"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 0)], ids=str)
@pytest.mark.parametrize("datatype", DATATYPES)
def test_identity(server, form, datatype, shape, model):
    if form is FORMS["json"] and datatype == "FP16" and 0 not in shape:  # JSON has no form for FP16
        with pytest.raises(Exception, match="FP16"):
            form(server, f"{model}_{datatype.lower()}", {"INPUT0": sample(datatype, shape)})
        return
    given = sample(datatype, shape)
    got = form(server, f"{model}_{datatype.lower()}", {"INPUT0": given})["OUTPUT0"]
    assert got.shape == given.shape and got.dtype == given.dtype
    if datatype == "BYTES" and form is FORMS["json"]:
        assert [x.decode() if isinstance(x, bytes) else x for x in got.flat] == [x.decode() for x in given.flat]
    else:
        np.testing.assert_array_equal(got, given)


@pytest.mark.parametrize("elements", [2047, 2048, 2049, 300_000])
def test_sizes_around_the_inline_limit(server, elements):
    given = np.random.default_rng(1).standard_normal((1, elements)).astype(np.float32)
    for name in ("binary", "grpc", "stream"):
        for model in ("identity_any_fp32", "python_any_fp32"):
            np.testing.assert_array_equal(FORMS[name](server, model, {"INPUT0": given})["OUTPUT0"], given)


def test_requested_outputs(server, form):
    x = np.ones((1, 4), np.float32)
    got = form(server, "add_sub", {"INPUT0": x, "INPUT1": x}, outputs=["OUTPUT1"])
    assert list(got) == ["OUTPUT1"]
    np.testing.assert_array_equal(got["OUTPUT1"], x - x)


# what the request says, and what must stand in the answer
FAULTS = {
    "unknown model": (
        "nope",
        {"INPUT0": np.ones((1, 4), np.float32)},
        {},
        "Request for unknown model: 'nope' is not found",
    ),
    "unknown version": (
        "add_sub",
        {"INPUT0": np.ones((1, 4), np.float32)},
        {"model_version": "9"},
        "version 9 is not found",
    ),
    "missing input": ("add_sub", {"INPUT0": np.ones((1, 4), np.float32)}, {}, "missing required input(s) ['INPUT1']"),
    "unknown input": (
        "add_sub",
        {"INPUT0": np.ones((1, 4), np.float32), "X": np.ones((1, 4), np.float32)},
        {},
        "unexpected inference input 'X' for model 'add_sub'",
    ),
    "datatype": (
        "add_sub",
        {"INPUT0": np.ones((1, 4), np.int32), "INPUT1": np.ones((1, 4), np.float32)},
        {},
        "inference input 'INPUT0' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
    ),
    "shape": (
        "add_sub",
        {"INPUT0": np.ones((1, 2, 2), np.float32), "INPUT1": np.ones((1, 4), np.float32)},
        {},
        "unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [-1,-1], got [1,2,2]",
    ),
    "batch too large": (
        "add_sub",
        {"INPUT0": np.ones((99, 4), np.float32), "INPUT1": np.ones((99, 4), np.float32)},
        {},
        "inference request batch-size must be <= 8 for 'add_sub'",
    ),
    "unknown output": (
        "add_sub",
        {"INPUT0": np.ones((1, 4), np.float32), "INPUT1": np.ones((1, 4), np.float32)},
        {"outputs": ["Q"]},
        "unexpected inference output 'Q' for model 'add_sub'",
    ),
    "output twice": (
        "add_sub",
        {"INPUT0": np.ones((1, 4), np.float32), "INPUT1": np.ones((1, 4), np.float32)},
        {"outputs": ["OUTPUT0", "OUTPUT1", "OUTPUT0"], "request_id": "twice"},
        "[request id: twice] output 'OUTPUT0' already exists in request",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_say_what_is_wrong(server, form, fault):
    model, inputs, kw, text = FAULTS[fault]
    with pytest.raises(InferenceServerException) as e:
        form(server, model, inputs, **kw)
    assert text in e.value.message(), e.value
    x = np.ones((1, 4), np.float32)
    form(server, "add_sub", {"INPUT0": x, "INPUT1": x})  # the server serves on


def test_request_id_is_echoed_in_errors(server, form):
    x = np.ones((1, 4), np.float32)
    with pytest.raises(InferenceServerException, match=r"\[request id: q-7\]"):
        form(server, "add_sub", {"INPUT0": x}, request_id="q-7")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_forwarded_headers_keep_their_spelling(tmp_path, scheme):
    python_model(
        tmp_path, "m", execute="import json; print('PARAMETERS', *json.loads(requests[0].parameters()), flush=True)"
    )
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[scheme]
    x = module.InferInput("INPUT0", [1, 1], "FP32")
    x.set_data_from_numpy(np.ones((1, 1), np.float32))
    names = ["x-Mixed-CASE", "X-Other"]
    if scheme == "grpc":  # HTTP/2 has lower case only
        names = [name.lower() for name in names]
    with Server(tmp_path, f"--{scheme}-header-forward-pattern=x-.*") as s:
        with module.InferenceServerClient(getattr(s, scheme)) as client:
            client.infer("m", [x], headers=dict.fromkeys(names, "v"))
        assert until(lambda: "PARAMETERS" in s.log())
        assert "PARAMETERS " + " ".join(names) in s.log()


def test_spelling_of_long_heads_and_later_requests(tmp_path):
    """Heads above 4 KiB, and chunked requests behind the first one of a connection."""
    python_model(
        tmp_path, "m", execute="import json; print('PARAMETERS', *json.loads(requests[0].parameters()), flush=True)"
    )
    body = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":[1]}]}'
    with Server(tmp_path, "--http-header-forward-pattern=x-.*") as s:
        connection = http.client.HTTPConnection(s.http, timeout=120)
        for n, (name, value, chunked) in enumerate(
            [
                ("x-LONG", "v" * 20_000, False),
                ("x-ONE", "v", True),
                ("x-TWO", "v", True),
                ("x-LONGer", "v" * 9000, True),
            ]
        ):
            connection.request(
                "POST", "/v2/models/m/infer", iter([body]) if chunked else body, {name: value}, encode_chunked=chunked
            )
            reply = connection.getresponse()
            assert (reply.status, reply.read()[:1]) == (200, b"{")
            assert until(lambda n=n: s.log().count("PARAMETERS") == n + 1)
            assert f"PARAMETERS {name} model=" in s.log()
        connection.close()
