"""Traces: the settings over both protocols, Triton's file, spans at a collector process."""

from __future__ import annotations

import contextlib
import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from collector import Collector
from repository import until
from server import Server
from tritonclient.utils import InferenceServerException

TRACE = "0af7651916cd43dd8448eb211c80319c"
ABOVE = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{ABOVE}-01"
BODY = {"id": "r", "inputs": [{"name": "X", "datatype": "FP32", "shape": [2], "data": [1, 2.5]}]}
CONFIG = """
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "C" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
HEAD = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n\n\nclass TritonPythonModel:\n    "
DOUBLE = """def execute(self, requests):
        out = []
        for r in requests:
            context = np.array([str(r.trace().get_context())], object)
            y = pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy() * 2)
            out.append(pb_utils.InferenceResponse([y, pb_utils.Tensor("C", context)]))
        return out
"""
# One call that is part of the trace, and one that is not.
CALLER = """def execute(self, requests):
        out = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X")
            ask = dict(model_name="double", requested_output_names=["Y", "C"], inputs=[x])
            answer = pb_utils.InferenceRequest(trace=r.trace(), request_id="inner", **ask).exec()
            pb_utils.InferenceRequest(**ask).exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            out.append(pb_utils.InferenceResponse(answer.output_tensors()))
        return out
"""
MANY = """def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            for i in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * i)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BROKEN = "def execute(self, requests):\n        raise RuntimeError('no')\n"
CHAIN = """platform: "ensemble"
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "double" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "M" } },
  { model_name: "double" model_version: -1 input_map { key: "X" value: "M" } output_map { key: "Y" value: "Y" } }
] }
"""
COMPUTE = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]
# What the real Triton 2.51 writes for the same requests, sorted by time.
REQUEST = ["REQUEST_START", "QUEUE_START", *COMPUTE, "REQUEST_END"]
ANSWERED = [*REQUEST[:5], "INFER_RESPONSE_COMPLETE", *REQUEST[5:]]


@pytest.fixture
def models(tmp_path):
    repo = tmp_path / "models"
    for name, code, extra in (
        ("double", DOUBLE, ""),
        ("caller", CALLER, ""),
        ("many", MANY, "model_transaction_policy { decoupled: true }"),
        ("broken", BROKEN, ""),
    ):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "1" / "model.py").write_text(HEAD + code)
        (repo / name / "config.pbtxt").write_text(f'backend: "python"\n{CONFIG}{extra}')
    (repo / "chain" / "1").mkdir(parents=True)
    (repo / "chain" / "config.pbtxt").write_text(CHAIN)
    return repo


def options(**settings):
    """Options of --trace-config; a double underscore is the comma, a single one in front of a word the dash."""
    return [f"--trace-config={k.replace('__', ',')}={v}" for k, v in settings.items()]


def requests(s: Server) -> None:
    """One request of each kind, with its name as its id."""
    assert s.infer("double", {**BODY, "id": "http"}).status == 200
    assert s.infer("chain", {**BODY, "id": "chain"}).status == 200
    assert s.infer("caller", {**BODY, "id": "caller"}).status == 200
    assert s.infer("broken", {**BODY, "id": "broken"}).status == 500
    assert s.infer("double", {**BODY, "id": "refused", "inputs": []}).status == 400
    x = grpcclient.InferInput("X", [2], "FP32")
    x.set_data_from_numpy(np.array([1, 2.5], np.float32))
    with grpcclient.InferenceServerClient(s.grpc) as client:
        client.infer("double", [x], request_id="grpc")
        got = queue.Queue()
        client.start_stream(lambda result, error: got.put((result, error)))
        client.async_stream_infer("many", [x], request_id="stream", enable_empty_final_response=True)
        assert [got.get(timeout=30)[1] for _ in range(4)] == [None] * 4
        client.stop_stream()


def traces(*paths):
    """The traces of files: by id, what was said of the request, its moments and its tensors."""
    all_traces = {}
    for path in paths:
        for o in json.loads(path.read_text()):
            head, moments, tensors = all_traces.setdefault(o["id"], ({}, [], []))
            if "model_name" in o:
                head.update(o)
            for t in o.get("timestamps", []):
                moments.append((t["ns"], t["name"]))
            if "activity" in o:
                tensors.append((o["activity"], *(o["tensor"][k] for k in ("name", "data", "shape", "dtype"))))
    return all_traces


def files_of(path):
    """How many traces each file of that name holds; None while one of them is being made or written."""
    try:
        return [len(traces(p)) for p in sorted(path.parent.glob(f"{path.name}*"))]
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def asked_for(path):
    """The ids of the requests whose traces are in the file, if it can be read just now."""
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        return {head["request_id"] for head, *_ in traces(path).values()}
    return set()


def moments(trace):
    """The names in the order of their times, equal ones as they stand in the file."""
    return [name for _, name in sorted(trace[1], key=lambda m: m[0])]


def test_the_file_is_tritons(models, tmp_path):
    path = tmp_path / "trace.json"
    given = options(mode="triton", triton__file=path, rate=1, level="TIMESTAMPS") + ["--trace-config=level=TENSORS"]
    asked = {"http", "chain", "caller", "inner", "broken", "refused", "grpc", "stream"}
    with Server(models, *given) as s:
        requests(s)
        assert s.post("/v2/trace/setting", {"trace_level": ["OFF"]}).status == 200
        # Whole, though the server goes on. What a client has its answer to may be written a moment later.
        assert until(lambda: asked <= asked_for(path))
        got = traces(path)
        requests(s)
    assert traces(path) == got
    named = {head["request_id"]: (i, head, *rest) for i, (head, *rest) in got.items() if "parent_id" not in head}
    children = {i: head for i, (head, *_) in got.items() if "parent_id" in head}
    http = ["HTTP_RECV_START", "HTTP_RECV_END"], ["HTTP_SEND_START", "HTTP_SEND_END"]
    grpc = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END"], ["GRPC_SEND_START", "GRPC_SEND_END"]
    ensemble = ["REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END"]
    for name, (before, after), want in (
        ("http", http, ANSWERED),
        ("caller", http, ANSWERED),
        ("grpc", grpc, ANSWERED),
        ("chain", http, ensemble),
        ("refused", http, ["REQUEST_START", "REQUEST_END"]),
    ):
        assert moments(named[name][1:]) == before + want + after, name
    # Nothing says that the batch was done before the first of several responses, or than the error, was given.
    assert sorted(moments(named["broken"][1:])) == sorted(http[0] + ANSWERED + http[1])
    assert sorted(moments(named["stream"][1:])) == sorted(grpc[0] + ANSWERED + grpc[1] * 4)
    for i, head in children.items():
        assert moments(got[i]) == REQUEST and head["model_name"] == "double"
    parents = sorted((head["parent_id"], head["request_id"]) for head in children.values())
    chain, caller = named["chain"][0], named["caller"][0]
    assert parents == [(chain, "chain"), (chain, "chain"), (caller, "inner")]
    assert named["http"][3] == [
        ("TENSOR_QUEUE_INPUT", "X", "1,2.5", "2", "FP32"),
        ("TENSOR_BACKEND_OUTPUT", "Y", "2,5", "2", "FP32"),
        ("TENSOR_BACKEND_OUTPUT", "C", '"None"', "1", "BYTES"),
    ]
    assert [t[2] for t in named["stream"][3]] == ["1,2.5", "0,0", "1,2.5", "2,5"]


def test_rate_count_and_numbered_files(models, tmp_path):
    """The same steps on Triton 2.51 give the same files."""
    path = tmp_path / "t.json"
    triton = {"triton__file": path, "triton__log-frequency": 2}
    with Server(models, *options(mode="triton", level="TIMESTAMPS", rate=2, count=5, **triton)) as s:

        def infer(n):
            for _ in range(n):
                assert s.infer("double", BODY).status == 200

        def files(**change):
            count = s.post("/v2/trace/setting", change).json["trace_count"]
            return count, files_of(path)

        infer(3)
        assert s.get("/v2/trace/setting").json["trace_count"] == "4"
        infer(21)
        assert until(lambda: files() == ("0", [2, 2, 1]))
        assert files(trace_count="3")[0] == "3"
        infer(20)
        assert until(lambda: files() == ("0", [2, 2, 1, 2, 1]))
        assert files(trace_count="-1", trace_rate="1") == ("-1", [2, 2, 1, 2, 1])
        infer(3)
        assert until(lambda: files() == ("-1", [2, 2, 1, 2, 1, 2]))
        assert files(log_frequency="0")[0] == "-1"
        assert until(lambda: files() == ("-1", [2, 2, 1, 2, 1, 2, 1]))
        infer(3)
        assert files(trace_level=["OFF"])[0] == "-1"
        assert until(lambda: files() == ("-1", [3, 2, 2, 1, 2, 1, 2, 1]))


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_settings(models, tmp_path, scheme):
    path = str(tmp_path / "t.json")
    with Server(models, *options(triton__file=path)) as s:
        if scheme == "http":
            client = httpclient.InferenceServerClient(s.http)
            get, update = client.get_trace_settings, client.update_trace_settings
        else:
            client = grpcclient.InferenceServerClient(s.grpc)

            def plain(answer):
                return {
                    k: v["value"] if k == "trace_level" else "".join(v.get("value", []))
                    for k, v in answer["settings"].items()
                }

            def get(model=None):
                return plain(client.get_trace_settings(model, as_json=True))

            def update(model=None, settings=None):
                return plain(client.update_trace_settings(model, settings, as_json=True))

        default = {
            "trace_level": ["OFF"],
            "trace_rate": "1000",
            "trace_count": "-1",
            "log_frequency": "0",
            "trace_file": path,
            "trace_mode": "triton",
        }
        assert get() == get("double") == default
        of_model = update("double", {"trace_level": ["TIMESTAMPS"], "trace_count": "5"})
        assert of_model == {**default, "trace_level": ["TIMESTAMPS"], "trace_count": "5"}
        assert update(None, {"trace_rate": "3"}) == {**default, "trace_rate": "3"}
        assert get("double") == {**of_model, "trace_rate": "3"}
        cleared = update("double", {"trace_level": None, "trace_count": None})
        assert cleared == {**default, "trace_rate": "3"} and update(None, {"trace_rate": None}) == default
        for model, change, said in (
            (None, {"trace_rate": "x"}, "Unable to parse 'trace_rate', got: x"),
            (None, {"trace_file": "x"}, "trace file location can not be updated through network protocol"),
            (
                None,
                {"trace_level": ["TENSORS"], "trace_rate": "0"},
                "Attempting to set invalid trace setting :sample rate must be non-zero",
            ),
            ("nope", {"trace_rate": "1"}, "Request for unknown model : nope"),
        ):
            with pytest.raises(InferenceServerException) as caught:
                update(model, change)
            assert caught.value.message() == said
        assert get() == default
        client.close()


def test_restricted_and_command(models, tmp_path):
    import subprocess

    from server import BINARY

    with Server(models, "--http-restricted-api=trace:key=secret", *options(triton__file=tmp_path / "t.json")) as s:
        for path in ("/v2/trace/setting", "/v2/models/double/trace/setting"):
            r = s.get(path)
            assert r.status == 403 and "expecting header 'key'" in r.body.decode()
            assert s.get(path, headers={"key": "secret"}).status == 200
        assert s.get("/v2/models/double/versions/1/trace/setting").status == 404

        def command(*args):
            said = subprocess.run(
                [BINARY, "trace", "--url", s.http, "-H", "key: secret", *args],
                capture_output=True,
                text=True,
                check=False,
            )
            assert said.returncode == 0, said.stderr
            return json.loads(said.stdout)

        changed = command("--model", "double", "trace_level=TIMESTAMPS,TENSORS", "trace_rate=1")
        assert (changed["trace_level"], changed["trace_rate"]) == (["TIMESTAMPS", "TENSORS"], "1")
        assert command("--model", "double", "trace_rate=")["trace_rate"] == "1000"
        assert command()["trace_level"] == ["OFF"]


def test_full_disk(models):
    with Server(models, *options(triton__file="/dev/full", rate=1, level="TIMESTAMPS")) as s:
        for _ in range(5):
            assert s.infer("double", BODY).status == 200
        assert until(lambda: "neso_traces_dropped_total 5" in s.metrics())
        assert until(lambda: "failed to write traces" in s.log())
        assert s.log().count("failed to write traces") == 1 and "no space left on device" in s.log()
    assert s.process.returncode == 0


def otel(collector, **settings):
    return options(
        mode="opentelemetry",
        opentelemetry__url=collector.url,
        opentelemetry__bsp_schedule_delay=100,
        level="TIMESTAMPS",
        **settings,
    )


def test_spans(models, tmp_path):
    with Collector(tmp_path) as c:
        with Server(models, *otel(c, rate=1, opentelemetry__resource="service.name=shop")) as s:
            requests(s)
            shown = s.get("/v2/trace/setting").json
            assert (shown["trace_mode"], shown["url"], shown["resource"]) == (
                "opentelemetry",
                c.url,
                "service.name=shop",
            )
            assert "trace_file" not in shown and "log_frequency" not in shown
        spans = c.spans()  # the server has ended: all of them
    assert {(x["resource"]["service.name"], x["scope"], x["kind"]) for x in spans} == {
        ("shop", "triton-server", "SPAN_KIND_SERVER")
    }
    by_id = {x["spanId"]: x for x in spans}

    def path(span):
        """The names from the top down, each with the events of its span."""
        above = by_id.get(span["parentSpanId"])
        assert bool(above) == bool(span["parentSpanId"])
        return (*(path(above) if above else ()), span["name"])

    front = {"http": "HTTP_RECV", "grpc": "GRPC_WAITREAD", "stream": "GRPC_WAITREAD"}
    roots = {x["traceId"]: x for x in spans if x["name"] == "InferRequest"}
    tops = {x["attributes"]["triton.request_id"]: x for x in spans if len(path(x)) == 2 and x["attributes"]}
    assert set(tops) == {"http", "chain", "caller", "broken", "refused", "grpc", "stream"} and len(roots) == 7
    for name, top in tops.items():
        root = roots[top["traceId"]]
        assert root["names"][:2] == [f"{front.get(name, 'HTTP_RECV')}_{end}" for end in ("START", "END")]
        assert top["attributes"]["triton.trace_parent_id"] == "0" and top["attributes"]["triton.model_version"] == "1"
        assert int(root["startTimeUnixNano"]) <= int(top["startTimeUnixNano"]) <= int(top["endTimeUnixNano"])
    assert tops["broken"]["status"]["code"] == tops["refused"]["status"]["code"] == "STATUS_CODE_ERROR"
    assert "status" not in tops["http"]
    paths = sorted(path(x) for x in spans)
    assert paths.count(("InferRequest", "chain", "double", "compute")) == 2
    assert paths.count(("InferRequest", "caller", "double", "compute")) == 1  # the other call is of no trace
    assert ("InferRequest", "chain", "compute") not in paths  # an ensemble computes in its steps
    for x in spans:
        if x["name"] == "compute":
            assert x["names"] == COMPUTE
    assert tops["http"]["names"] == ["REQUEST_START", "QUEUE_START", "REQUEST_END"]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_w3c_context(models, tmp_path, scheme):
    """A client that traces is always traced, whatever the rate, and its trace goes on into the model."""
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    with Collector(tmp_path) as c:
        with Server(models, *otel(c, rate=0)) as s:
            library = httpclient if scheme == "http" else grpcclient
            x = library.InferInput("X", [2], "FP32")
            x.set_data_from_numpy(np.array([1, 2.5], np.float32))
            with library.InferenceServerClient(s.http if scheme == "http" else s.grpc) as client:
                alone = client.infer("double", [x]).as_numpy("C")[0]
                given = client.infer("double", [x], headers=headers).as_numpy("C")[0]
                called = client.infer("caller", [x], headers=headers).as_numpy("C")[0]
        spans = c.spans()
    assert alone == b"None"
    models_spans = {}
    for x in spans:
        assert (x["traceId"], x["traceState"]) == (TRACE, "vendor=1")
        if x["name"] == "InferRequest":
            assert x["parentSpanId"] == ABOVE
        if x["name"] == "double":
            models_spans[x["spanId"]] = x
    for context in (given, called):
        got = json.loads(context)
        version, trace, span, flags = got["traceparent"].split("-")
        assert (version, trace, flags, got["tracestate"]) == ("00", TRACE, "01", "vendor=1")
        assert span in models_spans


def test_collector_that_is_gone(models, tmp_path):
    with Collector(tmp_path) as c:
        given = otel(c, rate=1)
    with Server(models, *given) as s:
        for _ in range(5):
            assert s.infer("double", BODY).status == 200
        assert until(lambda: "neso_traces_dropped_total 15" in s.metrics()), s.log()
        assert until(lambda: "failed to export traces" in s.log())
        assert s.log().count("failed to export traces") == 1
    assert s.process.returncode == 0


def test_options(models, tmp_path):
    for given, said in (
        ([",a=b"], "No trace mode specified. --trace-config option format is <trace mode>,<setting>=<value> or"),
        (["abc"], "--trace-config option format is '<trace mode>,<setting>=<value>'. Got abc"),
        (["mode=x"], 'invalid value for trace mode option: x. Available options are "triton" and "opentelemetry"'),
        (
            ["level=x"],
            'invalid value for trace level option: x. Available options are "OFF", "TIMESTAMPS" and "TENSORS"',
        ),
        (["rate=x"], 'Bad option: "--trace-config rate".'),
        (["triton,log-frequency=x"], 'Bad option: "--trace-config triton,log-frequency".'),
        (
            ["opentelemetry,bsp_max_queue_size=x"],
            'Bad option: "--trace-config opentelemetry,bsp_max_queue_size".',
        ),
        (["mode=opentelemetry", "opentelemetry,url=ftp://x"], "invalid URL of the trace collector"),
    ):
        s = Server(models, *[f"--trace-config={g}" for g in given], wait=False)
        assert s.process.wait(120) == 1 and said in s.log(), s.log()
        s.stop()
    old = ["--trace-file", str(tmp_path / "old.json"), "--trace-level=MAX", "--trace-rate=5", "--trace-count=7"]
    with Server(models, *old, "--trace-log-frequency=3", "--trace-config=rate=9", "--trace-config=what=x") as s:
        shown = s.get("/v2/trace/setting").json
        log = s.log()
    assert [*shown.values()] == [["TIMESTAMPS"], "9", "7", "3", str(tmp_path / "old.json"), "triton"]
    assert "'--trace-level' has been deprecated" in log and "'--trace-rate' is ignored" in log
    assert "setting 'what' is not known" in log
