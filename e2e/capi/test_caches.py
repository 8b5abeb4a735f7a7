"""Response caches that are libraries: what they are told, hits and misses, and requests that none of their faults reaches."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import story
from libraries import ROOT, compile, have_host, hosts
from repository import until
from server import Server

CACHED = "response_cache { enable: true }\n"


def cache(directory: Path, name: str, source: str = "caches/tells.c", *options: str) -> Path:
    return compile(source, directory / name / f"libtritoncache_{name}.so", *options)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("caches")
    cache(top, "tells")
    return top


class Caching:
    """A server with a cache that writes down what it is asked, and a model that counts its executions."""

    def __init__(self, libraries: Path, home: Path, *options: str):
        self.told_to, self.lines = home / "do", home / "tells.log"
        story.model(home / "models", "cached", extra=CACHED)
        options = options or ("--cache-config=tells,a=1", "--cache-config=tells,b=two")
        env = {"TELLS_LOG": str(self.lines), "TELLS_DO": str(self.told_to)}
        self.server = Server(home / "models", f"--cache-directory={libraries}", *options, env=env)
        self.next = 0

    def fresh(self) -> int:
        self.next += 1
        return self.next

    def ask(self, n: int) -> int:
        """The execution that the answer comes from."""
        r = self.server.infer("cached", story.request(n))
        assert r.status == 200, r
        data = r.json["outputs"][0]["data"]
        assert data[0] == data[1] and data[0] % 100 == n % 100, r
        return data[0] // 100

    def do(self, what: str) -> None:
        self.told_to.write_text(what)

    def told(self) -> str:
        return self.lines.read_text() if self.lines.exists() else ""

    def number(self, name: str) -> float:
        text = self.server.metrics()
        return sum(float(m) for m in re.findall(rf"^neso_response_cache_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def kept(self, n: int) -> int:
        """Asks until the answer is in the library, and the answer's execution."""
        before = self.told().count(": kept")
        execution = self.ask(n)
        assert until(lambda: self.told().count(": kept") > before), "the answer is kept"
        self.answers(lambda: self.ask(n) == execution)
        return execution

    def answers(self, same) -> None:
        """Asks until the library answers: until its insertion has returned, the server answers from what it inserts."""
        hits = self.told().count("hit")
        assert until(lambda: same() and self.told().count("hit") > hits), "the library answers"

    def keeps(self) -> bool:
        before = self.told().count(": kept")
        self.ask(self.fresh())
        return until(lambda: self.told().count(": kept") > before, timeout=5)

    def hosts(self) -> list[int]:
        return hosts(self.server.process.pid)


@pytest.fixture(scope="module")
def caching(libraries, tmp_path_factory):
    s = Caching(libraries, tmp_path_factory.mktemp("caching"))
    with s.server:
        yield s
    assert s.server.process.returncode == 0, s.server.log()[-3000:]
    assert s.told().splitlines()[-1] == "CacheFinalize of ours"


def test_hits(caching):
    assert caching.told().splitlines()[0] == 'CacheInitialize version 0.1 config {"a":"1","b":"two"}'
    n = caching.fresh()
    execution = caching.kept(n)
    hits = caching.told().count("hit")
    assert [caching.ask(n) for _ in range(3)] == [execution] * 3
    assert until(lambda: caching.told().count("hit") == hits + 3), "the library was asked"
    assert caching.number("up") == 1


def test_large(caching):
    """A value that does not travel in a frame."""
    values = list(range(100_000))
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [len(values)], "data": values}]}
    before = caching.told().count(": kept")
    first = caching.server.infer("cached", body).json["outputs"][0]["data"]
    assert until(lambda: caching.told().count(": kept") > before), "the answer is kept"
    caching.answers(lambda: caching.server.infer("cached", body).json["outputs"][0]["data"] == first)


@pytest.mark.parametrize("what", ["garbage", "short", "empty", "two", "nocopy", "fail"])
def test_a_look_up_that_is_none(caching, what):
    """What is no answer is a miss, and the process goes on."""
    n, hosts = caching.fresh(), caching.hosts()
    execution = caching.kept(n)
    caching.do(f"{what} lookup")
    try:
        assert caching.ask(n) > execution
    finally:
        caching.do("")
    assert caching.hosts() == hosts


def test_a_copy_that_comes_twice(caching):
    n = caching.fresh()
    execution = caching.kept(n)
    caching.do("twice lookup")
    assert caching.ask(n) == execution
    caching.do("")


def test_an_insertion_that_fails(caching):
    caching.do("fail insert")
    n = caching.fresh()
    execution = caching.ask(n)
    assert until(lambda: caching.number("dropped_total") > 0), "it is counted"
    assert until(lambda: caching.ask(n) > execution), "it was not kept"
    caching.do("")
    assert caching.server.log().count("the response cache refuses to store responses") == 1


@pytest.mark.parametrize("call", ["lookup", "insert"])
@pytest.mark.parametrize("what, text", [("crash", "SIGSEGV"), ("abort", "SIGABRT"), ("hang", "within 5s")])
def test_a_library_that_dies(caching, what, text, call):
    """No request fails of it; it is asked again when another process answers."""
    caching.ask(caching.fresh())
    assert until(lambda: caching.number("up") == 1), "the cache answers"
    seen, logged = caching.hosts(), caching.server.log().count("the response cache does not answer")
    caching.do(f"{what} {call}")
    for _ in range(5):
        caching.ask(caching.fresh())
    assert until(lambda: caching.number("up") == 0), "the circuit is open"
    for _ in range(20):
        caching.ask(caching.fresh())
    assert until(lambda: text in caching.server.log()), "the log says why"
    caching.do("")
    assert until(lambda: caching.number("up") == 1), "the cache answers again"
    assert caching.server.log().count("the response cache does not answer") == logged + 1 or call == "insert"
    assert caching.hosts() != seen
    # An insertion that had begun before may end the process once more, and what waits behind it is dropped.
    assert until(caching.keeps), "answers are kept again"
    n = caching.fresh()
    execution = caching.kept(n)
    assert caching.ask(n) == execution


def test_the_process_is_killed(caching):
    assert until(lambda: caching.number("up") == 1), "the cache answers"
    for _ in range(3):
        for pid in caching.hosts():
            os.kill(pid, signal.SIGKILL)
        for _ in range(10):
            caching.ask(caching.fresh())
        assert until(lambda: len(caching.hosts()) == 1), "there is another process"
    assert until(lambda: caching.number("up") == 1), "the cache answers again"


def test_wrong_questions(caching):
    n = caching.fresh()
    caching.do("ask insert")
    execution = caching.kept(n)
    text = caching.told()
    for line in (
        "1 buffers",
        "base null, size above 0, type 0",
        "GetBuffer behind the last -> Invalid argument: index was greater than count",
        "SetBuffer behind the last -> Invalid argument: index was greater than count",
        "GetBuffer without attributes -> Invalid argument: entry, base, or attrs was nullptr",
        "SetBuffer null -> ok",
        "Copy without a place -> Invalid argument: the buffer of the cache entry has no memory",
        "AddBuffer null -> Invalid argument: entry, base, or attrs was nullptr",
        "AddBuffer on a GPU -> Invalid argument: Only buffers in CPU memory are allowed in cache currently",
    ):
        assert line in text, line
    caching.do("ask lookup")
    assert caching.ask(n) == execution
    caching.do("")
    assert (
        "0 buffers" in caching.told()
        and "GetBuffer 0 -> Invalid argument: index was greater than count" in caching.told()
    )


HEAD = '#include <stdint.h>\n#include <stdlib.h>\n#include "triton/core/tritoncache.h"\n'
FAULTS = {
    "empty": (
        r"unable to find required entrypoint 'TRITONCACHE_CacheInitialize' in shared library",
        "int nothing;\n",
        (),
    ),
    "partly": (
        r"unable to find required entrypoint 'TRITONCACHE_CacheFinalize' in shared library",
        HEAD
        + "TRITONSERVER_Error* TRITONCACHE_CacheInitialize(TRITONCACHE_Cache** c, const char* t) { (void)c, (void)t; return NULL; }\n",
        (),
    ),
    "major": (r"made for another version", "caches/tells.c", ("-DMAJOR=TRITONCACHE_API_VERSION_MAJOR+1",)),
    "minor": (r"made for another version", "caches/tells.c", ("-DMINOR=TRITONCACHE_API_VERSION_MINOR+1",)),
    "text": (r"libtritoncache_text\.so: it is no shared library of Linux", None, ()),
    "machine": (r"unable to load shared library: .*: it is for \w+, this server runs on \w+", "int nothing;\n", ()),
    "lacks": (r"libnowhere\.so: cannot open shared object file: .*; install libnowhere\.so", "int nothing;\n", ()),
    "newer": (
        r"undefined symbol: TRITONCACHE_OfTomorrow; the library was made for a newer server",
        HEAD + "TRITONSERVER_Error* TRITONCACHE_OfTomorrow(void);\nvoid* keep = (void*)TRITONCACHE_OfTomorrow;\n",
        (),
    ),
    "absent": (r"unable to find 'libtritoncache_absent\.so' for cache. Searched: /", None, ()),
    "../tells": (r"invalid cache name '\.\./tells', the name must not contain path traversal characters", None, ()),
    "refuse": (r"it does not want to", "caches/tells.c", ("--cache-config=refuse,refuse=1",)),
    "crash": (r"SIGSEGV", "caches/tells.c", ("crash initialize",)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_library_that_cannot_be_started(tmp_path, name):
    """It is the server's own fault then: the server does not start, as the peer's."""
    have_host()
    text, source, options = FAULTS[name]
    if name == "lacks":
        nowhere = compile(source, tmp_path / "libnowhere.so", "-Wl,-soname,libnowhere.so")
        options = ("-Wl,--no-as-needed", str(nowhere))
    if source:
        made = cache(
            tmp_path / "caches", name, source, *[o for o in options if not o.startswith("--") and " " not in o]
        )
    if name == "lacks":
        nowhere.unlink()
    elif name == "machine":
        other = bytearray(made.read_bytes())
        other[18] = 0xB7 if other[18] != 0xB7 else 0x3E  # e_machine
        made.write_bytes(other)
    elif name == "text":
        (tmp_path / "caches" / "text").mkdir(parents=True)
        (tmp_path / "caches" / "text" / "libtritoncache_text.so").write_text("not a library")
    (tmp_path / "models").mkdir()
    do = tmp_path / "do"
    do.write_text("".join(o for o in options if not o.startswith("-")))
    with Server(
        tmp_path / "models",
        f"--cache-directory={tmp_path / 'caches'}",
        f"--cache-config={name},{'refuse' if name == 'refuse' else 'a'}=1",
        env={"TELLS_DO": str(do)},
        wait=False,
    ) as s:
        assert s.process.wait(60) == 1
        assert re.search(rf"error: creating server: .*{text}", s.log()), s.log()[-2000:]


def test_local_cache_of_nvidia(tmp_path):
    """The peer's own binary, out of its wheel, keeps the answers of this server."""
    packages = next(Path(os.environ.get("PEER", "/nowhere")).glob("lib/python3*/site-packages"), None)
    if packages is None:
        pytest.skip("PEER names no environment with nvidia-pytriton==0.7.0")
    have_host()
    libs = tmp_path / "caches"
    (libs / "theirs").mkdir(parents=True)
    shutil.copy(
        packages / "pytriton" / "tritonserver" / "caches" / "local" / "libtritoncache_local.so",
        libs / "theirs" / "libtritoncache_theirs.so",
    )
    s = Caching(libs, tmp_path, "--cache-config=theirs,size=1048576")
    with s.server:
        executions = {n: s.ask(n) for n in range(20)}
        assert until(lambda: all(s.ask(n) == e for n, e in executions.items())), "all answers are hits"
        hits = s.number("hits_total")
        for n, e in executions.items():
            assert s.ask(n) == e
        assert s.number("hits_total") == hits + 20 and s.number("up") == 1
        pid = s.hosts()[0]
        opened = Path(f"/proc/{pid}/maps").read_text()
        assert "libtritoncache_theirs.so" in opened and "libtritonserver-" not in opened.replace(str(ROOT), "")


def test_metrics_of_a_library(tmp_path, libraries):
    """They are on the server's page, and those of a process that has died begin anew with the next one."""
    made = Caching(libraries, tmp_path, "--cache-config=tells,measure=1")
    with made.server as s:

        def counted() -> float:
            found = re.search(r'^tells_lookups_total\{cache="tells"\} (\S+)$', s.metrics(), re.M)
            return float(found[1]) if found else -1

        assert counted() >= 0
        before = counted()
        for _ in range(3):
            made.ask(made.fresh())
        assert counted() == before + 3
        os.kill(made.hosts()[0], signal.SIGKILL)
        assert until(lambda: 0 <= counted() < before + 3), "the next process has its own"


def test_address_sanitizer(tmp_path):
    """A cache and an agent with AddressSanitizer in their processes: every byte that they are handed is theirs to touch."""
    have_host()
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    sanitized = ["-fsanitize=address", "-g", "-Wno-clobbered"]
    cache(tmp_path, "tells", "caches/tells.c", *sanitized)
    agent = tmp_path / "agents" / "a" / "libtritonrepoagent_a.so"
    compile("agents/tells.c", agent, '-DNAME="a"', *sanitized)
    story.model(tmp_path / "models", "cached", extra=CACHED + story.agents(("a", {"is": "sound"})))
    lines = tmp_path / "tells.log"
    env = {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0",
        "TELLS_LOG": str(lines),
        "TELLS_DO": str(tmp_path / "do"),
    }
    options = [
        f"--cache-directory={tmp_path}",
        "--cache-config=tells,a=1",
        f"--repoagent-directory={tmp_path / 'agents'}",
    ]
    with Server(tmp_path / "models", *options, env=env) as s:
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in hosts(s.process.pid)]
        assert len(maps) == 2 and all("libasan" in m for m in maps)
        for what in ("", "ask lookup", "ask insert", "short lookup", "two lookup", "twice lookup"):
            (tmp_path / "do").write_text(what)
            for n in range(4):
                assert s.infer("cached", story.request(n // 2)).status == 200
        assert until(lambda: lines.read_text().count("CacheLookup hit") > 0), lines.read_text()
    log = s.log()
    assert "AddressSanitizer" not in log, log
    assert "CacheFinalize of ours" in lines.read_text()


@pytest.mark.parametrize("flags", [[], ["-fsanitize=address"]], ids=["plain", "sanitized"])
def test_c_options(tmp_path, libraries, flags):
    """A program that uses the server as a library names directories and configuration by its options."""
    compile("agents/tells.c", tmp_path / "agents" / "a" / "libtritonrepoagent_a.so", '-DNAME="a"')
    for name, refuse in (("asked", ""), ("refused", "LOAD")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        said = story.agents(("a", {"is": name, "refuse": refuse}))
        (tmp_path / "models" / name / "config.pbtxt").write_text(f'backend: "identity"\n{story.IO}{said}')
    library = ROOT / "build" / "lib"
    source, program = Path(__file__).parent / "programs" / "plugins.c", tmp_path / "plugins"
    flags = [
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        f"-I{ROOT / 'include'}",
        f"-L{library}",
        "-ltritonserver",
        *flags,
    ]
    subprocess.run(["gcc", "-o", program, source, *flags], check=True)
    sanitizer = "detect_leaks=0:detect_odr_violation=0:handle_segv=0"
    env = {
        **os.environ,
        "ASAN_OPTIONS": sanitizer,
        "LD_LIBRARY_PATH": str(library),
        "TELLS_LOG": str(tmp_path / "tells.log"),
    }
    folders = [tmp_path / "agents", libraries, tmp_path / "models"]
    run = subprocess.run([program, *folders], env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (tmp_path / "tells.log").read_text().splitlines()
    assert lines[0] == 'CacheInitialize version 0.1 config {"c":"3"}'
    assert [line.split(" type")[0] for line in lines if line.startswith("a: asked ")] == [
        "a: asked ModelInitialize state null",
        *(f"a: asked {action}" for action in ("LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE")),
        "a: asked ModelFinalize state kept",
    ]
    assert "CacheFinalize of ours" in lines
