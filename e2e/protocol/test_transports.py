"""The libraries' transports, which --http-transport and --grpc-transport put in the place of ours: clients cannot tell them apart."""

from __future__ import annotations

import http.client
import queue
import subprocess
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from forms import FORMS
from repository import identity_model
from server import BINARY, Server
from test_tls import Files, wait_ready
from tritonclient.utils import InferenceServerException

LIBRARY = ("--http-transport=library", "--grpc-transport=library")
ADD_SUB = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        results = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() * 2 for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]) for x in results]
"""
MANY = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
CONFIG = """
backend: "python" max_batch_size: 0
input [{{ name: "IN" data_type: TYPE_INT32 dims: [-1] }}] output [{{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }}]
{more}
"""


@pytest.fixture(scope="module", params=[(), LIBRARY], ids=["neso", "library"])
def server(request, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    identity_model(repository, "identity")
    for name, text, more in (
        ("double", ADD_SUB, ""),
        ("many", MANY, "model_transaction_policy { decoupled: true }"),
    ):
        directory = repository / name / "1"
        directory.mkdir(parents=True)
        (directory / "model.py").write_text(text)
        (directory.parent / "config.pbtxt").write_text(CONFIG.format(more=more))
    with Server(
        repository,
        *request.param,
        "--model-control-mode=explicit",
        "--load-model=*",
        "--http-header-forward-pattern=.*",
        "--grpc-restricted-protocol=logging:secret=42",
        "--grpc-infer-response-compression-level=low",
    ) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]
    assert "panic" not in s.log()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_every_form(server, form, size):
    if form == "json" and size > 1000:
        pytest.skip("takes long, and says no more")
    values = np.arange(size, dtype=np.int32)
    got = FORMS[form](server, "double", {"IN": values})
    np.testing.assert_array_equal(got["OUT"], values * 2)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_compression(server, compression):
    values = np.zeros(100_000, np.int32)
    tensor = grpcclient.InferInput("IN", [100_000], "INT32")
    tensor.set_data_from_numpy(values)
    with grpcclient.InferenceServerClient(server.grpc) as client:
        got = client.infer("double", [tensor], compression_algorithm=compression).as_numpy("OUT")
    np.testing.assert_array_equal(got, values)
    tensor = httpclient.InferInput("IN", [100_000], "INT32")
    tensor.set_data_from_numpy(values)
    with httpclient.InferenceServerClient(server.http) as client:
        got = client.infer(
            "double", [tensor], request_compression_algorithm=compression, response_compression_algorithm=compression
        )
    np.testing.assert_array_equal(got.as_numpy("OUT"), values)


def test_streams(server):
    """A decoupled model on a stream, twice, and an error between, which leaves the stream open."""
    answers: queue.Queue = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for n, model in ((50, "many"), (1, "absent"), (3, "many")):
            tensor = grpcclient.InferInput("IN", [1], "INT32")
            tensor.set_data_from_numpy(np.array([n], np.int32))
            client.async_stream_infer(model, [tensor])
            for i in range(n):
                result, error = answers.get(timeout=120)
                if model == "absent":
                    assert "unknown model: 'absent'" in str(error)
                else:
                    assert error is None
                    assert result.as_numpy("OUT").tolist() == [i]
        client.stop_stream()


def test_errors_and_control(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        with pytest.raises(InferenceServerException, match="StatusCode.NOT_FOUND.*unknown model: 'absent'"):
            client.get_model_metadata("absent")
        with pytest.raises(
            InferenceServerException, match="StatusCode.UNAVAILABLE.*expecting header 'triton-grpc-protocol-secret'"
        ):
            client.get_log_settings()
        client.get_log_settings(headers={"triton-grpc-protocol-secret": "42"})
        assert client.is_server_live()
        assert client.is_model_ready("double")
        client.unload_model("identity")
        assert not client.is_model_ready("identity")
        client.load_model("identity")
        assert client.is_model_ready("identity")
        assert client.get_inference_statistics("double", as_json=True)["model_stats"]
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/Nope")
        with pytest.raises(grpc.RpcError) as failure:
            call(b"")
        assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert failure.value.details() == "unknown method Nope for service inference.GRPCInferenceService"
    with httpclient.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException, match="unknown model: 'absent'"):
            client.get_model_metadata("absent")
        assert client.get_model_repository_index()
    assert server.request("PUT", "/v2/models/double/infer").status == 405


def test_many_at_once(server):
    failures = []

    def call(n):
        try:
            values = np.full(1 + n * 1000, n, np.int32)
            for form in ("binary", "grpc"):
                np.testing.assert_array_equal(FORMS[form](server, "double", {"IN": values})["OUT"], values * 2)
        except Exception as e:  # told by the assertion below
            failures.append(e)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mutual"])
def test_tls(tmp_path, mutual):
    """The libraries' transports behind TLS, with each request traced."""
    repository = tmp_path / "models"
    repository.mkdir()
    identity_model(repository, "identity")
    files = Files(tmp_path / "tls")
    traces = tmp_path / "trace.json"
    options = [f"--trace-config=triton,file={traces}", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1"]
    values = np.ones((1, 1000), np.float32)
    s = Server(repository, *LIBRARY, *options, *files.options(mutual), wait=False)
    try:
        wait_ready(s, files.context(mutual))
        tensor = grpcclient.InferInput("INPUT0", [1, 1000], "FP32")
        tensor.set_data_from_numpy(values)
        with grpcclient.InferenceServerClient(
            s.grpc.replace("127.0.0.1", "localhost"),
            ssl=True,
            root_certificates=files.ca,
            private_key=files.client_key if mutual else None,
            certificate_chain=files.client_cert if mutual else None,
        ) as client:
            np.testing.assert_array_equal(client.infer("identity", [tensor]).as_numpy("OUTPUT0"), values)
        connection = http.client.HTTPSConnection("localhost", s.http_port, timeout=60, context=files.context(mutual))
        body = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
        connection.request("POST", "/v2/models/identity/infer", body)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        connection.close()
    finally:
        assert s.stop() == 0, s.log()[-3000:]
    assert traces.read_text().count("INFER_RESPONSE_COMPLETE") == 2


def test_words():
    for option in ("--http-transport", "--grpc-transport"):
        run = subprocess.run(
            [BINARY, "serve", option + "=libary"], capture_output=True, text=True, timeout=120, check=False
        )
        assert run.returncode == 1
        assert f'invalid argument for {option}: got "libary", expected one of neso, library' in run.stdout + run.stderr
