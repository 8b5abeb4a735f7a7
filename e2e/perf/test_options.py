"""Every option of neso perf, run against a server, and what comes of it there."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest
from repository import place
from server import BINARY, Server
from test_perf import UNSTABLE, perf

CONFIG = """backend: "python"
max_batch_size: 8
input [ { name: "S" data_type: TYPE_STRING dims: [ 2 ] }, { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } ]
parameters { key: "notes" value { string_value: "NOTES" } }
version_policy { all { } }
"""
SEQUENCES = """sequence_batching { oldest { max_candidate_sequences: 8 } control_input [
  { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
  { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } },
  { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ] }
"""
CODE = """import json
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.version = args["model_version"]
        self.notes = open(json.loads(args["model_config"])["parameters"]["notes"]["string_value"], "a", buffering=1)

    def execute(self, requests):
        answers = []
        for r in requests:
            note = {"version": self.version, "parameters": json.loads(r.parameters())}
            for name in ("S", "X", "START", "END", "ID"):
                t = pb.get_input_tensor_by_name(r, name)
                if t is not None:
                    a = t.as_numpy()
                    note[name] = [v.decode() for v in a.flat] if name == "S" else a.tolist()
            self.notes.write(json.dumps(note) + "\\n")
            answers.append(pb.InferenceResponse([pb.Tensor("Y", pb.get_input_tensor_by_name(r, "X").as_numpy())]))
        return answers
"""
FOUR = ("--request-count", 4)
WINDOWS = ("-p", 100, "-s", 999, "-r", 3)


@pytest.fixture(scope="module")
def noting(tmp_path_factory):
    """A server whose models write down what they are asked."""
    top = tmp_path_factory.mktemp("noting")
    (top / "data").mkdir()
    (top / "data" / "X").write_bytes(np.array([5, 6, 7], np.float32).tobytes())
    (top / "data" / "S").write_text("left\nright\n")
    (top / "gaps").write_text("1000\n3000\n2000\n")
    for name, more in (("m", ""), ("s", SEQUENCES)):
        config = CONFIG.replace("NOTES", str(top / f"{name}.notes")) + more
        place(top / "models" / name, {"config.pbtxt": config, "1/model.py": CODE, "2/model.py": CODE})
    trace = f"--trace-config=triton,file={top}/trace.json"
    with Server(top / "models", "--http-header-forward-pattern=x-.*", "--grpc-header-forward-pattern=x-.*", trace) as s:
        s.top = top
        yield s


def run(noting, *args, model="m", protocol="http"):
    """What a run said, and what the model has written down meanwhile."""
    notes = noting.top / f"{model}.notes"
    before = len(notes.read_text().splitlines())
    address = noting.grpc if protocol == "grpc" else noting.http
    shape = () if "--input-data" in args or "--data-directory" in args else ("--shape", "X:3")
    r = perf("-m", model, "-i", protocol, "-u", address, *shape, *args)
    return r, [json.loads(line) for line in notes.read_text().splitlines()[before:]]


def every(notes, name, want):
    assert notes and all(n[name] == want for n in notes), notes[:4]


def strings(notes, want):
    assert notes and all(all(re.fullmatch(want, v) for v in n["S"]) for n in notes), notes[:4]


# The options of a run, and what is to be seen in what was said and written down. Each has four requests, unless it says something else.
RUNS = {
    "batch-size": (["-b", 2], lambda r, n: all(len(x["X"]) == 2 for x in n) and "Inference count: 8\n" in r.stdout),
    "model-version": (["-x", 1], lambda r, n: every(n, "version", "1")),
    "zero": (["--input-data", "zero", "--shape", "X:3"], lambda r, n: every(n, "X", [[0, 0, 0]])),
    "z": (["-z"], lambda r, n: every(n, "X", [[0, 0, 0]])),
    "random": (["--input-data", "random", "--shape", "X:3"], lambda r, n: any(n[0]["X"][0])),
    "input-data": (
        ["--input-data", "TOP/data", "--shape", "X:3"],
        lambda r, n: (every(n, "X", [[5, 6, 7]]), strings(n, "left|right")),
    ),
    "data-directory": (["--data-directory", "TOP/data", "--shape", "X:3"], lambda r, n: every(n, "X", [[5, 6, 7]])),
    "string-data": (["--string-data", "a b"], lambda r, n: strings(n, "a b")),
    "string-length": (["--string-length", 7], lambda r, n: strings(n, "[a-zA-Z0-9 ]{7}")),
    "shape": (["--shape", "X:5"], lambda r, n: all(np.shape(x["X"]) == (1, 5) for x in n)),
    "input-tensor-format": (
        ["--input-tensor-format", "json", "--output-tensor-format", "json"],
        lambda r, n: len(n) == 4,
    ),
    "header": (
        ["-H", "X-Mine: yes: it is"],
        lambda r, n: all(x["parameters"].get("X-Mine") == "yes: it is" for x in n),
    ),
    "host": (["-H", "Host: model.example.org"], lambda r, n: len(n) == 4),
    "request-parameter": (
        [
            "--request-parameter",
            "a:b:c:string",
            "--request-parameter",
            "n:-5:int",
            "--request-parameter",
            "t:true:bool",
        ],
        lambda r, n: every(n, "parameters", {"a": "b:c", "n": -5, "t": True}),
    ),
    "shared-memory": (["--shared-memory", "system", "--output-shared-memory-size", 64], lambda r, n: len(n) == 4),
    "async": (["--async"], lambda r, n: "--async has no effect" in r.stderr),
    "sync": (["--sync"], lambda r, n: "no effect" not in r.stderr),
    "t": (["-t", 2], lambda r, n: "Request concurrency: 2\n" in r.stdout),
    "model-signature-name": (
        ["--model-signature-name", "x"],
        lambda r, n: r.stderr.count("--model-signature-name") == 1,
    ),
    "enable-mpi": (["--enable-mpi"], lambda r, n: r.stderr.count("--enable-mpi") == 1),
    "serial-sequences": (["--serial-sequences"], lambda r, n: r.stderr.count("--serial-sequences") == 1),
    "verbose": (["-v", "-v"], lambda r, n: "Pass [1]" in r.stdout or "Request count: 4" in r.stdout),
    "percentile": (["--percentile", 95], lambda r, n: "p95 latency: " in r.stdout),
    "warmup-request-count": (
        ["--warmup-request-count", 3],
        lambda r, n: len(n) == 7 and "Request count: 4\n" in r.stdout,
    ),
    "max-threads": (
        ["--request-rate-range", 200, "--max-threads", 1, "--request-count", 200],
        lambda r, n: "Request Rate: 200" in r.stdout,
    ),
    "request-distribution": (
        ["--request-rate-range", 200, "--request-distribution", "constant", "--request-count", 200],
        lambda r, n: len(n) == 200,
    ),
    "no-progress": (["--no-progress"], lambda r, n: "\x1b" not in r.stderr),
    "trace-count": (
        ["--trace-level", "TIMESTAMPS", "--trace-rate", 1000, "--trace-count", 1, "--log-frequency", 0],
        lambda r, n: len(n) == 4,
    ),
}
OVER_GRPC = {
    "host": (["-H", "host:model.example.org"], lambda r, n: len(n) == 4),
    "streaming": (["--streaming"], lambda r, n: len(n) == 4),
    "gzip": (["--grpc-compression-algorithm", "gzip"], lambda r, n: all(np.shape(x["X"]) == (1, 3) for x in n)),
    "deflate": (["--grpc-compression-algorithm", "deflate"], lambda r, n: all(np.shape(x["X"]) == (1, 3) for x in n)),
    "header": (["-H", "x-mine:yes"], lambda r, n: all(x["parameters"].get("x-mine") == "yes" for x in n)),
    "request-parameter": (["--request-parameter", "a:b:string"], lambda r, n: every(n, "parameters", {"a": "b"})),
}


@pytest.mark.parametrize(
    "protocol, name", [("http", name) for name in RUNS] + [("grpc", name) for name in OVER_GRPC], ids=lambda x: x
)
def test_option(noting, protocol, name):
    args, seen = (RUNS if protocol == "http" else OVER_GRPC)[name]
    count = () if "--request-count" in args else FOUR
    r, notes = run(noting, *(str(a).replace("TOP", str(noting.top)) for a in args), *count, protocol=protocol)
    assert r.returncode == 0 and f"Request count: {(*args, *count)[-1]}\n" in r.stdout, r
    assert seen(r, notes) is not False, (r, notes)


def test_windows(noting):
    """By time and by count, a search that ends at a latency, and one by halves."""
    r, _ = run(
        noting, "--measurement-mode", "count_windows", "--measurement-request-count", 20, "--max-trials", 3, "-s", 999
    )
    assert r.returncode in (0, UNSTABLE) and re.search(r"Request count: \d\d+\n", r.stdout), r
    r, _ = run(noting, *WINDOWS, "--measurement-interval", 80, "--concurrency-range", "1:0", "--latency-threshold", 1)
    assert "Request concurrency: 1\n" in r.stdout and "Request concurrency: 64\n" not in r.stdout, r
    r, _ = run(
        noting, *WINDOWS, "--binary-search", "--concurrency-range", "1:8", "-l", 10000, "-f", noting.top / "o.csv"
    )
    said = [int(n) for n in re.findall(r"Request concurrency: (\d+)\n", r.stdout)]
    assert r.returncode in (0, UNSTABLE) and 1 < len(said) < 6 and max(said) >= 7, r
    r, _ = run(noting, *WINDOWS, "-t", 1, "-c", 2, "-d", "-l", 10000)
    assert "Request concurrency: 2\n" in r.stdout, r


def test_intervals(noting):
    """The gaps of a file, over and over: three requests in 6 ms, none of which is ahead of its time."""
    export = noting.top / "e.json"
    args = ("--request-intervals", noting.top / "gaps", "--request-count", 60, "--profile-export-file", export)
    r, notes = run(noting, *args)
    assert r.returncode == 0 and len(notes) == 60, r
    [experiment] = json.loads(export.read_text())["experiments"]
    begin = experiment["window_boundaries"][0]
    begun = sorted(x["timestamp"] - begin for x in experiment["requests"])
    due = [6e6 * (n // 3) + (0, 1e6, 4e6)[n % 3] for n in range(60)]
    assert len(begun) == 60 and all(at >= when for at, when in zip(begun, due)), begun


def test_schedule(noting):
    """Each request of the data once, when it says: the order is that of the times, which none is ahead of."""
    data, export = noting.top / "schedule.json", noting.top / "schedule-export.json"
    times = [300, 0, 120, 120]
    entries = [{"X": [n, t], "S": ["a", "b"], "timestamp": [t]} for n, t in enumerate(times)]
    data.write_text(json.dumps({"data": entries}))
    r, notes = run(noting, "--input-data", data, "--fixed-schedule", "--profile-export-file", export)
    assert r.returncode == 0 and "Request count: 4\n" in r.stdout, r
    assert sorted(n["X"][0][1] for n in notes) == sorted(times), notes
    [experiment] = json.loads(export.read_text())["experiments"]
    begin = experiment["window_boundaries"][0]
    begun = {x["request_inputs"]["X"][0]: x["timestamp"] - begin for x in experiment["requests"]}
    assert len(begun) == 4 and all(begun[n] >= t * 1e6 for n, t in enumerate(times)), begun
    data.write_text(json.dumps({"data": [{"X": [1, 2], "S": ["a", "b"]}]}))
    r, _ = run(noting, "--input-data", data, "--fixed-schedule")
    assert r.returncode == 99 and "data[0]: missing 'timestamp'" in r.stderr, r


def sequences(notes):
    """The whole sequences in the order of their ends, each as its id and its length; none may be left open."""
    whole, open_ = [], {}
    for n in notes:
        start, end, i = (np.ravel(n[k])[0] for k in ("START", "END", "ID"))
        assert start or i in open_, f"sequence {i} goes on without a begin"
        open_[i] = 1 if start else open_[i] + 1
        if end:
            whole.append((i, open_.pop(i)))
    assert not open_, f"sequences are left open: {open_}"
    return whole


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_sequences(noting, protocol):
    args = (
        "--sequence-length",
        10,
        "--sequence-length-variation",
        50,
        "--sequence-id-range",
        "7:9",
        "--concurrency-range",
        2,
    )
    r, notes = run(noting, *args, "--request-count", 200, model="s", protocol=protocol)
    whole = sequences(notes)
    assert r.returncode == 0 and {i for i, _ in whole} == {7, 8}, (r, whole)
    lengths = [n for _, n in whole[:-2]]  # the last ones may be cut
    assert all(5 <= n <= 15 for n in lengths) and len(set(lengths)) > 2, whole
    args = (
        "--sequence-length",
        3,
        "--sequence-length-variation",
        0,
        "--num-of-sequences",
        3,
        "--request-rate-range",
        300,
    )
    r, notes = run(noting, *args, "--request-count", 300, model="s", protocol=protocol)
    assert r.returncode == 0 and "Sequence count: " in r.stdout, r
    assert {n for _, n in sequences(notes)[:-3]} == {3}, notes


def test_a_sequence_goes_on(noting):
    """An answer that is not the expected one fails its request, not its sequence, which ends at the server."""
    data, steps = noting.top / "d.json", [{"X": [n, n], "S": ["a", "b"]} for n in (1, 2, 3)]
    data.write_text(json.dumps({"data": [steps], "validation_data": [[{"Y": [n, n]} for n in (1, 9, 3)]]}))
    r, notes = run(noting, "--input-data", data, "--request-count", 20, "--shape", "X:2", model="s")
    assert r.returncode == 99 and "requests: unexpected output" in r.stdout and "Request count: 20\n" not in r.stdout, r
    assert "of 20 requests failed: unexpected output" in r.stderr, r
    assert {n for _, n in sequences(notes)[:-1]} == {3}, notes


@pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mutual"])
def test_tls(tmp_path, mutual):
    """Each option of encryption, with certificates that are trusted and that are not, as PEM and as DER."""
    trustme = pytest.importorskip("trustme")
    from repository import until

    place(tmp_path / "models" / "m", {"config.pbtxt": 'backend: "identity"\n' + IDENTITY, "1/x": ""})
    authority, stranger = trustme.CA(), trustme.CA()
    paths = {n: tmp_path / f"{n}.pem" for n in ("ca", "other", "cert", "key", "client", "secret")}
    authority.cert_pem.write_to_path(paths["ca"])
    stranger.cert_pem.write_to_path(paths["other"])
    for cert, key, name in (("cert", "key", "localhost"), ("client", "secret", "client@example.org")):
        made = authority.issue_cert(name, *(["127.0.0.1"] if cert == "cert" else []))
        made.private_key_pem.write_to_path(paths[key])
        made.cert_chain_pems[0].write_to_path(paths[cert])
    der = {}
    for kind, command in (("client", ["x509"]), ("secret", ["pkey"])):
        der[kind] = tmp_path / f"{kind}.der"
        subprocess.run(["openssl", *command, "-in", paths[kind], "-outform", "DER", "-out", der[kind]], check=True)
    options = [f"--http-tls-cert={paths['cert']}", f"--http-tls-key={paths['key']}", "--grpc-use-ssl=true"]
    options += [
        f"--grpc-server-cert={paths['cert']}",
        f"--grpc-server-key={paths['key']}",
        f"--grpc-root-cert={paths['ca']}",
    ]
    if mutual:
        options += [f"--http-tls-client-ca={paths['ca']}", "--grpc-use-ssl-mutual=true"]
    s = Server(tmp_path / "models", *options, wait=False)
    try:
        assert until(lambda: "Started Metrics Service" in s.log()), s.log()

        def https(*args):
            return perf("-m", "m", "-u", f"https://{s.http}", "--shape", "IN:4", *FOUR, *args)

        def grpc(*args):
            return perf("-m", "m", "-i", "grpc", "-u", s.grpc, "--shape", "IN:4", *FOUR, "--ssl-grpc-use-ssl", *args)

        ours = ("--ssl-https-client-certificate-file", paths["client"], "--ssl-https-private-key-file", paths["secret"])
        binary = (
            *("--ssl-https-client-certificate-file", der["client"], "--ssl-https-client-certificate-type", "DER"),
            *("--ssl-https-private-key-file", der["secret"], "--ssl-https-private-key-type", "DER"),
        )
        chain = ("--ssl-grpc-certificate-chain-file", paths["client"], "--ssl-grpc-private-key-file", paths["secret"])
        ca, other = (
            ("--ssl-https-ca-certificates-file", paths["ca"]),
            ("--ssl-https-ca-certificates-file", paths["other"]),
        )
        roots, none = (
            ("--ssl-grpc-root-certifications-file", paths["ca"]),
            ("--ssl-grpc-root-certifications-file", paths["other"]),
        )
        identity = ours if mutual else ()
        for good in (
            https(*ca, *identity),
            https(*ca, *(binary if mutual else ())),
            https(*other, "--ssl-https-verify-peer", 0, "--ssl-https-verify-host", 0, *identity),
            grpc(*roots, *(chain if mutual else ())),
        ):
            assert good.returncode == 0 and "Request count: 4\n" in good.stdout, good
        for bad in (https(*other, *identity), grpc(*none, *(chain if mutual else ()))):
            assert bad.returncode == 99 and "certificate" in bad.stderr.lower() and "Throughput" not in bad.stdout, bad
        if mutual:
            for bad in (https(*ca), grpc(*roots)):
                assert bad.returncode == 99 and "error: " in bad.stderr, bad
    finally:
        s.stop()


IDENTITY = """input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""

# Options that other tests run.
ELSEWHERE = {
    "bls-composing-models", "collect-metrics", "concurrency-range", "endpoint", "filename", "format", "help",
    "metrics-interval", "metrics-url", "model", "model-repository", "periodic-concurrency-range", "plot",
    "profile-export-file", "protocol", "request-count", "request-period", "request-rate-range", "service-kind",
    "stability-percentage", "triton-server-directory", "url", "verbose-csv", "version", "measurement-interval",
}  # fmt: skip


def test_none_is_left_out():
    """What the usage names is what these tests run."""
    usage = subprocess.run([BINARY, "perf", "--help"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"--([a-z][a-z0-9-]+)", "\n".join(re.findall(r"^\s+(?:-\S, )?--\S+.*$", usage, re.M))))
    source = open(__file__, encoding="utf-8").read()
    mine = set(re.findall(r"\"--([a-z][a-z0-9-]+)\"", source)) | {"batch-size", "header", "model-version", "verbose"}
    assert len(named) > 60 and named <= mine | ELSEWHERE, named - mine - ELSEWHERE
    assert subprocess.run([BINARY, "perf", "--version"], capture_output=True, text=True, check=True).stdout.startswith(
        "Perf Analyzer Version"
    )
