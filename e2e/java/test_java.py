"""The Java layer of java/ over libtritonserver.so: its tests under Maven, and the example of its page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from server import ROOT

JAVA = ROOT / "java"
LIBRARY = ROOT / "build" / "lib" / "libtritonserver.so"
FOREIGN_SINCE = 22
CLASSES = {"BindingsTest", "DeveloperToolsTest", "NesoServerTest", "SignalsTest"}
MODELS = {
    "identity": """backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
""",
    "repeat": """backend: "repeat"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
""",
}

missing = [tool for tool in ("mvn", "java", "javac", "c++") if not shutil.which(tool)]
pytestmark = [
    pytest.mark.skipif(
        bool(missing), reason=f"needs Maven, a JDK of 17 or newer and a C++ compiler: there is no {', '.join(missing)}"
    ),
    pytest.mark.skipif(not LIBRARY.exists(), reason="needs `make capi`"),
]


@pytest.fixture(scope="module")
def built():
    """The layer, with its tests passed."""
    done = subprocess.run([ROOT / "scripts" / "java.sh"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def jdks() -> dict[int, Path]:
    """The JDKs of this machine by their versions."""
    found = {}
    for home in [Path(os.environ.get("JAVA_HOME", "/nowhere")), *Path("/usr/lib/jvm").glob("*")]:
        release = home / "release"
        if (home / "bin" / "javac").exists() and release.exists():
            version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.M)
            found[int(version[1])] = home
    return found


def counts(target: Path) -> dict[str, dict[str, int]]:
    """What became of the tests of each class."""
    ran = {}
    for report in (target / "surefire-reports").glob("TEST-*.xml"):
        suite = ElementTree.parse(report).getroot()
        keys = ("tests", "failures", "errors", "skipped")
        ran[suite.get("name").rpartition(".")[2]] = {k: int(suite.get(k)) for k in keys}
    return ran


@pytest.fixture
def repository(tmp_path):
    for name, config in MODELS.items():
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    return tmp_path


@pytest.mark.usefixtures("built")
def test_maven():
    """Each class of tests ran whole."""
    ran = counts(JAVA / "target")
    assert set(ran) >= CLASSES
    for what in ran.values():
        assert what == {"tests": what["tests"], "failures": 0, "errors": 0, "skipped": 0}, ran
        assert what["tests"] > 0, ran


@pytest.mark.usefixtures("built")
def test_foreign_function_interface(tmp_path):
    """The same layer by the other way into the library."""
    new = {version: home for version, home in jdks().items() if version >= FOREIGN_SINCE}
    if not new:
        pytest.skip(f"needs a JDK of {FOREIGN_SINCE} or newer")
    tests = "-Dtest=NesoServerTest,SignalsTest#checkedCallsAndStorms"
    done = subprocess.run(
        [ROOT / "scripts" / "java.sh", "package", tests, f"-Dneso.target={tmp_path}"],
        env={**os.environ, "JAVA_HOME": str(new[max(new)])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    ran = counts(tmp_path)
    assert ran["SignalsTest"] == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}
    assert ran["NesoServerTest"]["tests"] > 20
    assert not any(ran["NesoServerTest"][k] for k in ("failures", "errors", "skipped"))


@pytest.mark.usefixtures("built")
def test_example_of_the_docs(repository):
    page = (ROOT / "docs" / "use" / "java.md").read_text()
    shown = re.search(r"```java\n(import .*?)```", page, re.S)[1]
    assert shown == (JAVA / "examples" / "Infer.java").read_text()
    command, promised = re.search(r"```console\n.*?^\$ (java [^\n]*)\n(.*?)```", page, re.S | re.M).groups()
    args = [str(repository) if a == "models" else a.strip("'") for a in command.split()]
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == promised


@pytest.mark.skipif(not os.environ.get("NESO_FULL"), reason="ten minutes of load in a JVM: NESO_FULL=1")
@pytest.mark.usefixtures("built")
def test_soak():
    """Ten minutes of requests, streams, faults and collections with checked calls: right answers, nothing grows."""
    minutes = os.environ.get("SOAK_MINUTES", "10")
    done = subprocess.run(
        [JAVA / "soak.sh", minutes], capture_output=True, text=True, timeout=60 * float(minutes) + 300, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert "in native method" not in done.stdout + done.stderr  # what -Xcheck:jni says of a wrong call
    *shown, last, ok = [line for line in done.stdout.splitlines() if "requests" in line or line == "ok"]
    assert ok == "ok"
    assert last.endswith(" 0 in flight")
    assert len(shown) >= 2, "too short to say what grows"
    memory, threads = ([int(re.search(rf"{what}: (\d+)", line)[1]) for line in shown] for what in ("VmRSS", "Threads"))
    settled = len(shown) // 4
    assert max(memory[settled:]) <= memory[settled] * 1.1 + 16384, memory
    assert max(threads[settled:]) <= threads[settled] + 4, threads


def test_versions_agree_with_the_page():
    pom = (JAVA / "pom.xml").read_text()
    bindings = re.search(r"<tritonserver.version>(.*?)<", pom)[1].replace(
        "${javacpp.version}", re.search(r"<javacpp.version>(.*?)<", pom)[1]
    )
    assert bindings in (ROOT / "docs" / "use" / "java.md").read_text()
