"""What every function of the C interfaces says of arguments that it must not get: an error, whatever it is, and never a crash."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from test_library import ALL_HEADERS, HERE, LIBRARY
from test_library import repository as repository  # the fixture

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="needs `make capi`")


@pytest.fixture(scope="module")
def answers(repository):
    """By function and wrong argument."""
    done = subprocess.run(
        [sys.executable, HERE / "programs" / "wrong.py", LIBRARY, repository, *ALL_HEADERS],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NESO_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-4000:]}"
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_it_serves_on(answers):
    assert answers["at the end"].startswith("ok identity:1"), answers["at the end"]
    functions = {question.split()[0] for question in answers}
    assert len(functions) > 280, len(functions)


def test_objects_that_are_none(answers):
    """Null, a number that was never a handle, and an object of another kind are found out, in every place of every function."""
    asked = {q: a for q, a in answers.items() if re.search(r" (made up \w+|of another kind)$", q) and a != "returned"}
    assert not {q for q, a in asked.items() if a == "ok"}
    assert len(asked) > 700, len(asked)


def test_values_out_of_range(answers):
    """All are refused but levels of traces, which are sums of flags, and datatypes, for which the request is refused, as by the peer."""
    asked = {q: a for q, a in answers.items() if " out of range " in q and a != "returned"}
    assert {q.split()[0] for q, a in asked.items() if a == "ok"} == {
        "TRITONSERVER_InferenceRequestAddInput",
        "TRITONSERVER_InferenceTraceNew",
        "TRITONSERVER_InferenceTraceTensorNew",
    }
    assert len(asked) > 20, len(asked)


# Where null means "none": the last of a trace's names, texts that may be left out, callbacks that need not be.
NONE = """LogMessage filename msg; ResponseAllocatorNew start_fn; MessageNewFromSerializedJson base; InferenceTraceReportActivity
activity_name; ResponseAllocatorSetQueryFunction query_fn; ResponseAllocatorSetBufferAttributesFunction buffer_attributes_fn;
MetricArgsDelete args; BufferAttributesSetCudaIpcHandle cuda_ipc_handle; InferenceTraceTensorNew activity_fn tensor_activity_fn;
InferenceTraceSetContext trace_context; InferenceRequestSetCorrelationIdString correlation_id; InferenceRequestAppendInputData
base; InferenceRequestSetId id; MetricNewWithArgs args; InferenceRequestAppendInputDataWithHostPolicy base host_policy_name;
InferenceRequestSetReleaseCallback request_release_fn; InferenceRequestSetResponseCallback response_fn;
InferenceRequestSetStringParameter value; InferenceRequestRemoveRequestedOutput name; ServerOptionsSetMetricsConfig name;
ServerOptionsSetLogFile file; ServerModelStatistics model_name; MetricArgsSetHistogram buckets; MetricNew labels"""


def test_null(answers):
    """It is refused, or means none, or is a place for an answer that nobody wants."""
    wanted = {f"TRITONSERVER_{one.split()[0]} {name} null" for one in NONE.split(";") for name in one.split()[1:]}
    taken = {q for q, a in answers.items() if q.endswith(" null") and a == "ok"}
    assert wanted <= taken, wanted - taken
    headers = "".join(h.read_text() for h in ALL_HEADERS)
    for question in taken - wanted:
        function, name = question.split()[:2]
        declared = re.search(rf"\b{function}\(([^;]*)\);", headers)[1]
        (parameter,) = [p for p in declared.replace("\n", " ").split(",") if re.search(rf"\b{name}$", p.strip())]
        assert "userp" in name or ("*" in parameter and not re.match(r"\s*const char\*\s*\w+$", parameter)), question
