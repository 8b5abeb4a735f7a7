"""Backend libraries that cannot be loaded, and models that say the wrong thing of theirs: each fails alone, with a text that says why."""

from __future__ import annotations

import re
import subprocess

import pytest
from libraries import backend, compile, have_host, model
from repository import settled
from server import Server

EXECUTE = """#include "common.h"
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* i, TRITONBACKEND_Request** r, uint32_t n) {
  (void)i; (void)r; (void)n;
  return NULL;
}
"""
NEWER = "TRITONSERVER_Error* TRITONBACKEND_OfTomorrow(void);\n"
VERSION = """TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  uint32_t major, minor;
  (void)backend;
  TRY(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != MAJOR || minor < MINOR) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "made for another version");
  return NULL;
}
"""
FAULTS = {
    "empty": r"unable to find required entrypoint 'TRITONBACKEND_ModelInstanceExecute' in shared library: .*undefined symbol",
    "major": r"made for another version",
    "minor": r"made for another version",
    "text": r"unable to load shared library: .*libtriton_text\.so: it is no shared library of Linux",
    "machine": r"unable to load shared library: .*: it is for \w+, this server runs on \w+",
    "lacks": r"unable to load shared library: libnowhere\.so: cannot open shared object file: .*; install libnowhere\.so",
    "newer": r"undefined symbol: TRITONBACKEND_OfTomorrow; the library was made for a newer server",
    "absent": r"unable to find backend library for backend 'absent', try specifying runtime on the model configuration",
    "escapes": r"backend library name '\.\./empty/libtriton_empty\.so' escapes backend directory '.*', for model 'escapes', "
    "check model config runtime field",
    "runtime": r"unable to find backend library 'libother\.so' for model 'runtime', searched: ",
    "inside": r"model 'inside' has 'isolation: none', which is for programs that have the server as C library",
    "isolation": r"parameter 'isolation' of model 'isolation' is 'thread', expected process, shared or none",
    "refuses": r"this model refuses to load",
}


@pytest.fixture(scope="module")
def reasons(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("faults")
    repo, libs = top / "models", top / "backends"
    backend(libs, "empty", "int nothing;\n")
    version = ("-DMAJOR=TRITONBACKEND_API_VERSION_MAJOR", "-DMINOR=TRITONBACKEND_API_VERSION_MINOR")
    backend(libs, "major", EXECUTE + VERSION, version[0] + "+1", version[1])
    backend(libs, "minor", EXECUTE + VERSION, version[0], version[1] + "+1")
    (libs / "text").mkdir()
    (libs / "text" / "libtriton_text.so").write_text("not a library")
    machine = bytearray(backend(libs, "machine", EXECUTE).read_bytes())
    machine[18] = 0xB7 if machine[18] != 0xB7 else 0x3E  # e_machine
    (libs / "machine" / "libtriton_machine.so").write_bytes(machine)
    compile("int here;\n", top / "libnowhere.so", "-Wl,-soname,libnowhere.so")
    backend(libs, "lacks", EXECUTE, "-Wl,--no-as-needed", str(top / "libnowhere.so"))
    subprocess.run(["rm", top / "libnowhere.so"], check=True)
    backend(
        libs,
        "newer",
        EXECUTE.replace("return NULL", "return TRITONBACKEND_OfTomorrow()").replace("\n", "\n" + NEWER, 1),
    )
    backend(libs, "behave", "behave.c")
    for name in FAULTS:
        of = name if name not in ("inside", "isolation", "refuses", "escapes", "runtime") else "behave"
        extra = {
            "escapes": 'runtime: "../empty/libtriton_empty.so"\n',
            "runtime": 'runtime: "libother.so"\n',
            "inside": 'parameters { key: "isolation" value { string_value: "none" } }\n',
            "isolation": 'parameters { key: "isolation" value { string_value: "thread" } }\n',
            "refuses": 'parameters { key: "refuse_it" value { string_value: "1" } }\n',
        }.get(name, "")
        model(repo, name, of, extra)
    beside = model(repo, "beside", "mine")
    compile("identity.c", beside / "1" / "libtriton_mine.so")
    model(repo, "pipeline", "dali")
    backend(libs, "dali", "identity.c")
    with Server(
        repo, f"--backend-directory={libs}", "--exit-on-error=false", "--strict-readiness=false", wait=False
    ) as s:
        reasons = settled(s, len(FAULTS) + 2)
        assert reasons["beside"] == reasons["pipeline"] == "", reasons
        return reasons


@pytest.mark.parametrize("name", FAULTS)
def test_a_library_that_cannot_be_loaded(reasons, name):
    assert re.search(FAULTS[name], reasons[name]), reasons[name]
