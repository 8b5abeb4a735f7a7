"""libtritonserver.so under programs in C: what it exports, and how it behaves when it is used well and badly."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT

HERE = Path(__file__).resolve().parent
LIBRARY = ROOT / "build" / "lib" / "libtritonserver.so"
HEADERS = ROOT / "include" / "triton" / "core"
# Triton's interface, and what is ours.
ALL_HEADERS = [*sorted(HEADERS.glob("*.h")), ROOT / "include" / "neso.h"]
CC, CXX = shutil.which("cc"), shutil.which("c++")

pytestmark = pytest.mark.skipif(not CC or not LIBRARY.exists(), reason="needs a C compiler and `make capi`")

IDENTITY = """backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
REPEAT = """backend: "repeat"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
"""
CHAIN = """platform: "ensemble"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Z" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling {
  step { model_name: "identity" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "Z" } }
}
"""
PYTHON = """backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
COUNTS = """backend: "python"
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "ORDER" data_type: TYPE_INT32 dims: [ 1 ] }
"""
COUNTER = """import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.number = 0

    def execute(self, requests):
        return [self.one(r) for r in requests]

    def one(self, request):
        self.number += 1
        while pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0] and not request.is_cancelled():
            time.sleep(0.001)
        return pb_utils.InferenceResponse([pb_utils.Tensor("ORDER", np.array([self.number], np.int32))])
"""
DIES = """import os


class TritonPythonModel:
    def execute(self, requests):
        os._exit(3)
"""
LINGERS = """import time


class TritonPythonModel:
    def execute(self, requests):
        return []

    def finalize(self):
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    top = tmp_path_factory.mktemp("models")
    for name, config in {
        "identity": IDENTITY,
        "repeat": REPEAT,
        "chain": CHAIN,
        "lingers": PYTHON,
        "dies": "max_batch_size: 8 dynamic_batching { } " + PYTHON,
        "counts": COUNTS,
    }.items():
        (top / name / "1").mkdir(parents=True)
        (top / name / "config.pbtxt").write_text(config)
    (top / "lingers" / "1" / "model.py").write_text(LINGERS)
    (top / "dies" / "1" / "model.py").write_text(DIES)
    (top / "counts" / "1" / "model.py").write_text(COUNTER)
    return top


def program(name: str, folder: Path, *flags: str) -> Path:
    made = folder / name
    command = [
        CC,
        "-std=gnu11",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
        f"-I{ROOT / 'include'}",
        *flags,
        str(HERE / "programs" / f"{name}.c"),
        "-o",
        str(made),
    ]
    subprocess.run([*command, f"-L{LIBRARY.parent}", "-ltritonserver", "-pthread"], check=True)
    return made


def run(made: Path, *args: str | Path, **env: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [made, *args],
        env={**os.environ, "NESO_PYTHON": sys.executable, "LD_LIBRARY_PATH": str(LIBRARY.parent), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done


@pytest.mark.parametrize("name", ["infer", "misuse", "control", "trace", "stop", "order", "locked"])
def test_program(name, repository, tmp_path):
    done = run(program(name, tmp_path), repository)
    # What is cancelled at the exit timeout lets go of its instance; callbacks that never come back do not.
    assert done.stderr.count("its instances stay open") == (3 if name == "misuse" else 0), done.stderr[-2000:]


def test_exported_names():
    declared = {
        "TRITONCACHE_CacheEntryNew",
        "TRITONCACHE_CacheEntryDelete",
    }  # the peer's header has them not, its library has
    for header in ALL_HEADERS:
        declared |= set(
            re.findall(r"^TRITON[A-Z]+_DECLSPEC [^(]*?\b((?:TRITON[A-Z]+|NESO)_\w+)\(", header.read_text(), re.M)
        )
    table = subprocess.run(["readelf", "--dyn-syms", "-W", LIBRARY], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines() if line.strip()[:1].isdigit()]
    exported = {row[7] for row in rows if len(row) > 7 and row[6] != "UND"} - {
        "neso_host_main",
        "neso_agent_main",
        "neso_cache_main",
    }
    assert exported == declared, exported ^ declared
    assert len(exported) == 285
    assert (
        "Library soname: [libtritonserver.so]"
        in subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("header", [str(h.relative_to(ROOT / "include")) for h in ALL_HEADERS])
def test_header_stands_alone(header, tmp_path):
    for compiler, name, standard in ((CC, "one.c", "c11"), (CXX, "one.cc", "c++17")):
        if not compiler:
            continue
        (tmp_path / name).write_text(f'#include "{header}"\nint main() {{ return 0; }}\n')
        subprocess.run(
            [
                compiler,
                f"-std={standard}",
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
                "-Wno-unused-function",
                f"-I{ROOT / 'include'}",
                "-fsyntax-only",
                tmp_path / name,
            ],
            check=True,
        )


def test_parameters_agree_with_the_header():
    """Go knows the functions by numbers and addresses alone: their count and order of kinds must be the header's."""

    def kind(parameter: str) -> str:
        if "*" in parameter or "Fn_t" in parameter:
            return "uintptr_t"
        words = [w for w in parameter.split()[:-1] if w != "const"] or [parameter]
        return {"bool": "bool", "unsigned": "uint", "double": "double"}.get(
            words[0], words[0] if words[0].endswith("_t") or words[0] == "int" else "int"
        )

    headers = "".join(h.read_text() for h in ALL_HEADERS)
    headers = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    declared = dict(
        re.findall(r"^TRITON[A-Z]+_DECLSPEC [^(]*?\b((?:TRITON[A-Z]+|NESO)_\w+)\(([^;]*)\);", headers, re.M | re.S)
    )
    seen = 0
    for file in (ROOT / "capi").rglob("*.go"):
        for name, parameters in re.findall(
            r"^//export \w+\nfunc (?:neso_asked_)?((?:TRITON|NESO)\w+)\(([^)]*)\)", file.read_text(), re.M
        ):
            if name not in declared or (not parameters.strip() and file.name == "stubs.go"):
                continue
            names, got = [], []
            for part in parameters.replace("\n", " ").split(","):
                words = part.split()
                if not words:
                    continue
                names.append(words[0])
                if len(words) > 1:
                    got += [words[1].removeprefix("C.")] * len(names)
                    names = []
            want = [kind(p.strip()) for p in declared[name].replace("\n", " ").split(",") if p.strip() != "void"]
            assert [g.replace("uint8_t", "bool") for g in got] == want, f"{file.name}: {name}"
            seen += 1
    assert seen > 170, f"only {seen} functions were compared"


@pytest.mark.parametrize(
    ("language", "compiler", "printed"),
    [("c", CC, "Y[0] = 1\nY[1] = 2\nY[2] = 3\n"), ("cpp", CXX, "1\n2\n3\n1\n")],
    ids=["c", "cpp"],
)
def test_example_of_the_docs(language, compiler, printed, repository, tmp_path):
    if not compiler or not shutil.which("pkg-config"):
        pytest.skip("needs a compiler and pkg-config")
    page = (ROOT / "docs" / "use" / "c-api.md").read_text()
    source = tmp_path / f"hello.{language}"
    source.write_text(re.search(rf"```{language}\n(.*?)```", page, re.S)[1])
    where = {**os.environ, "PKG_CONFIG_PATH": str(LIBRARY.parent / "pkgconfig")}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "tritonserver"], env=where, capture_output=True, text=True, check=True
    ).stdout.split()
    standard = ["-std=c++17", "-Wall", "-Wextra", "-Werror"] if language == "cpp" else []
    subprocess.run([compiler, *standard, source, *flags, "-pthread", "-o", tmp_path / "hello"], check=True)
    assert run(tmp_path / "hello", repository).stdout == printed
