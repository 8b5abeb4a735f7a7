"""Repository agents that are libraries: what they are told, in which order, what they may do, and what becomes of those that misbehave.

REWRITE=1 writes the transcript anew; PEER names an environment with the real server, which is asked the same.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import story
from libraries import ROOT, compile, have_host, hosts
from repository import until
from server import Server

TRANSCRIPT = Path(__file__).parent / "transcripts" / "agents.txt"
EXPLICIT = ("--model-control-mode=explicit", "--exit-on-error=false", "--strict-readiness=false")


def agent(directory: Path, name: str, source: str = "agents/tells.c", *options: str) -> Path:
    return compile(source, directory / name / f"libtritonrepoagent_{name}.so", f'-DNAME="{name}"', *options)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("agents")
    for name in "abc":
        agent(top, name)
    return top


def told(libraries, home: Path, peer: str = "") -> str:
    (home / "models").mkdir()
    env = {"TELLS_LOG": str(home / "tells.log")}
    options = (*EXPLICIT, f"--repoagent-directory={libraries}")
    if peer:
        server = story.Peer(peer, home / "models", home, *options, env=env)
    else:
        server = Server(home / "models", *options, env=env)
    with server:
        return story.tell_of_agents(story.Story(server, home, home / "models"))


def test_transcript(libraries, tmp_path):
    text = told(libraries, tmp_path)
    if os.environ.get("REWRITE"):
        TRANSCRIPT.parent.mkdir(exist_ok=True)
        TRANSCRIPT.write_text(text)
    assert text == TRANSCRIPT.read_text()


def test_transcript_of_the_peer(libraries, tmp_path):
    if not os.environ.get("PEER"):
        pytest.skip("PEER names no environment with nvidia-pytriton==0.7.0")
    # It finalizes an agent's model that failed when it feels like it, and so the agent.
    late = re.compile(r"^.: (\w+ ModelFinalize|Finalize|fails\w* LOAD_FAIL).*\n", re.M)
    assert late.sub("", told(libraries, tmp_path, os.environ["PEER"])) == late.sub("", TRANSCRIPT.read_text())


class Loads:
    """A server with agents that misbehave."""

    def __init__(self, libraries: Path, home: Path, *options: str):
        self.repository, self.lines = home / "models", home / "tells.log"
        self.repository.mkdir()
        self.server = Server(
            self.repository,
            *EXPLICIT,
            f"--repoagent-directory={libraries}",
            *options,
            env={"TELLS_LOG": str(self.lines)},
        )

    def load(self, name: str, *chain, **more):
        story.model(self.repository, name, *chain, **more)
        return self.server.post(f"/v2/repository/models/{name}/load", {})

    def unload(self, name: str):
        return self.server.post(f"/v2/repository/models/{name}/unload", {})

    def told(self) -> str:
        return self.lines.read_text()


@pytest.fixture(scope="module")
def loads(libraries, tmp_path_factory):
    s = Loads(libraries, tmp_path_factory.mktemp("loads"))
    with s.server:
        yield s
    assert s.server.process.returncode == 0, s.server.log()[-3000:]


LIMIT = 'parameters { key: "LOAD_TIMEOUT_SECONDS" value { string_value: "1" } }\n'


@pytest.mark.parametrize(
    "do, text",
    [
        ("crash", r"repository agent 'a', in TRITONREPOAGENT_ACTION_LOAD: .*killed by SIGSEGV"),
        ("abort", r"repository agent 'a', in TRITONREPOAGENT_ACTION_LOAD: .*killed by SIGABRT"),
        ("exit", r"repository agent 'a', in TRITONREPOAGENT_ACTION_LOAD: .*(status|code) 3"),
        (
            "hang",
            r"repository agent 'a': TRITONREPOAGENT_ACTION_LOAD did not come back within 1s .*, its process was ended",
        ),
    ],
)
def test_an_agent_that_dies(loads, do, text):
    r = loads.load(f"dies_{do}", ("b", {}), ("a", {"do": do}), extra=LIMIT)
    assert r.status == 500 and re.search(text, r.error), r
    assert f"b: dies_{do} LOAD_FAIL" in loads.told()
    assert until(lambda: f"b: dies_{do} ModelFinalize" in loads.told()), "the other agent is told of the end"
    r = loads.load(f"lives_{do}", ("a", {}))  # in another process
    assert r.status == 200, r
    loads.unload(f"lives_{do}")


def test_an_agent_that_dies_later(loads):
    """The model serves: it was loaded when the agent died, which is not told of the rest."""
    r = loads.load("late", ("a", {"do": "crash_late"}), ("b", {}))
    assert r.status == 200, r
    assert loads.server.infer("late", story.request(1)).status == 200
    assert "Agent model returns error on TRITONREPOAGENT_ACTION_LOAD_COMPLETE" in loads.server.log()
    assert loads.load("other", ("a", {})).status == 200
    assert loads.unload("late").status == 200
    assert until(lambda: "b: late ModelFinalize" in loads.told()), "the other agent is told of the end"
    assert "a: late UNLOAD" not in loads.told()
    loads.unload("other")
    assert until(lambda: "a: other ModelFinalize" in loads.told()), "the agent of another process is told of the end"


@pytest.mark.parametrize("action", ["LOAD_COMPLETE", "UNLOAD", "LOAD_FAIL"])
def test_an_agent_that_refuses_what_cannot_be_refused(loads, action):
    name = f"against_{action.lower()}"
    r = loads.load(name, ("a", {}), ("b", {"refuse": action}), ("c", {}), fails=action == "LOAD_FAIL")
    assert r.status == (400 if action == "LOAD_FAIL" else 200), r
    loads.unload(name)
    assert until(lambda: loads.told().count(f": {name} ModelFinalize") == 3), "all three are told of the end"
    assert [line[0] for line in loads.told().splitlines() if f"{name} {action} " in line] == [
        *("abc" if action == "UNLOAD" else "cba")
    ]
    assert until(
        lambda: (
            f"Agent model returns error on TRITONREPOAGENT_ACTION_{action}: not while b is here" in loads.server.log()
        )
    ), "logged"


@pytest.mark.parametrize("name", ["../a", "a/../a", "..", ".", "/a", "", "a/b"])
def test_a_name_that_leads_out(loads, name):
    r = loads.load("outside", (name, {}))
    assert r.status == 500 and f"invalid repo agent name '{name}'" in r.error, r


def test_a_failed_reload_leaves_what_serves(loads):
    assert loads.load("serves", ("a", {})).status == 200
    assert loads.load("serves", ("a", {"refuse": "LOAD"})).status == 500
    assert loads.server.infer("serves", story.request(1)).status == 200
    assert loads.told().count("a: serves LOAD_FAIL") == 1 and "a: serves UNLOAD" not in loads.told()
    assert loads.load("serves").status == 200  # without agents any more
    assert until(lambda: loads.told().count("a: serves UNLOAD_COMPLETE") == 1), "the agent hears of the end"
    loads.unload("serves")


def test_a_moved_model_leaves_nothing(loads):
    """What an agent acquires is there as long as the model, whether the agent gives it back or not."""
    for _ in range(3):
        assert loads.load("moves", ("a", {"move": "1"}), ("b", {})).status == 200
        assert loads.server.infer("moves", story.request(1)).status == 200
    places = set(re.findall(r"b: moves LOAD type 0 at (\S+)", loads.told()))
    assert len(places) == 3
    assert until(lambda: sum(Path(p).exists() for p in places) == 1), "the former places are gone"
    loads.unload("moves")
    assert until(lambda: not any(Path(p).exists() for p in places)), "all places are gone"


def test_other_questions(loads):
    """What the peer takes and should not."""
    loads.load("questions", ("a", {"ask": "more"}))
    text = loads.told()
    for line in (
        "LocationRelease of another -> Invalid argument: location '/nowhere' was not acquired, that was '",
        "ModelRepositoryUpdate to nowhere -> Invalid argument: location '/nowhere' is no directory",
        "ModelRepositoryUpdate to a relative place -> Invalid argument: location '.' is no absolute path",
        "ModelRepositoryUpdate remote -> Unsupported: a model can be moved to a directory of this machine only, 's3://a/b' is remote",
        "ModelRepositoryUpdate of a type out of range -> Invalid argument: artifact type 7 is unknown",
        "ModelRepositoryUpdate of null -> Invalid argument: the location must not be null",
        "ModelRepositoryLocation of no agent -> Invalid argument: the repository agent has been deleted, or never was one",
        "ModelRepositoryLocation of no model -> Invalid argument: the agent's model has been deleted, or never was one",
        "ModelRepositoryLocation into null -> Invalid argument: ",
        "ModelParameter into null -> Invalid argument: ",
        "ModelConfig into null -> Invalid argument: ",
        "State into null -> Invalid argument: ",
        "ModelState of an agent -> Invalid argument: the agent's model has been deleted, or never was one",
    ):
        assert line in text, (line, text[-4000:])
    loads.unload("questions")


ACTION = """#include "agent.h"
TRITONSERVER_Error* TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent* a, TRITONREPOAGENT_AgentModel* m, TRITONREPOAGENT_ActionType t) {
  (void)a, (void)m, (void)t;
  return NULL;
}
"""
VERSION = """TRITONSERVER_Error* TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent* agent) {
  uint32_t major, minor;
  (void)agent;
  TRY(TRITONREPOAGENT_ApiVersion(&major, &minor));
  return major == MAJOR && minor >= MINOR ? NULL : ERR(UNSUPPORTED, "made for another version");
}
"""
NEWER = "TRITONSERVER_Error* TRITONREPOAGENT_OfTomorrow(void);\nvoid* keep = (void*)TRITONREPOAGENT_OfTomorrow;\n"
FAULTS = {
    "empty": r"unable to find required entrypoint 'TRITONREPOAGENT_ModelAction' in shared library: .*undefined symbol",
    "major": r"made for another version",
    "minor": r"made for another version",
    "text": r"unable to load shared library: .*libtritonrepoagent_text\.so: it is no shared library of Linux",
    "machine": r"unable to load shared library: .*: it is for \w+, this server runs on \w+",
    "lacks": r"unable to load shared library: libnowhere\.so: cannot open shared object file: .*; install libnowhere\.so",
    "newer": r"undefined symbol: TRITONREPOAGENT_OfTomorrow; the library was made for a newer server",
    "folder": r"unable to find 'libtritonrepoagent_folder\.so' for repo agent 'folder', searched: /",
    "least": "",
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("faulty")
    libs = top / "agents"
    include = f"-I{Path(__file__).parent / 'agents'}"
    agent(libs, "empty", "int nothing;\n")
    agent(libs, "least", ACTION, include)
    version = ("-DMAJOR=TRITONREPOAGENT_API_VERSION_MAJOR", "-DMINOR=TRITONREPOAGENT_API_VERSION_MINOR")
    agent(libs, "major", ACTION + VERSION, include, version[0] + "+1", version[1])
    agent(libs, "minor", ACTION + VERSION, include, version[0], version[1] + "+1")
    agent(libs, "newer", ACTION + NEWER, include)
    machine = bytearray(agent(libs, "machine", ACTION, include).read_bytes())
    machine[18] = 0xB7 if machine[18] != 0xB7 else 0x3E  # e_machine
    (libs / "machine" / "libtritonrepoagent_machine.so").write_bytes(machine)
    (libs / "text").mkdir()
    (libs / "text" / "libtritonrepoagent_text.so").write_text("not a library")
    (libs / "folder" / "libtritonrepoagent_folder.so").mkdir(parents=True)
    nowhere = compile("int here;\n", top / "libnowhere.so", "-Wl,-soname,libnowhere.so")
    agent(libs, "lacks", ACTION, include, "-Wl,--no-as-needed", str(nowhere))
    subprocess.run(["rm", nowhere], check=True)
    s = Loads(libs, top)
    with s.server:
        yield s


@pytest.mark.parametrize("name", FAULTS)
def test_a_library_that_cannot_be_loaded(faults, name):
    r = faults.load(f"of_{name}", (name, {}))
    if not FAULTS[name]:
        assert r.status == 200, r
    else:
        assert r.status == 500 and re.search(FAULTS[name], r.error), r


def test_no_process_is_left(loads, libraries):
    """An agent that no model asks for has no process, and many loads leave no descriptors behind."""
    pid = loads.server.process.pid
    many = int(os.environ.get("LOADS", "30"))

    def files() -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    for _ in range(3):
        loads.load("many", ("c", {"n": "0"}))
        loads.unload("many")
    assert until(lambda: not hosts(pid)), "no agent has a process"
    before = files()
    for n in range(many):
        assert loads.load("many", ("c", {"n": str(n), "refuse": "LOAD" if n % 3 == 2 else ""})).status == (
            500 if n % 3 == 2 else 200
        )
        loads.unload("many")
    assert until(lambda: not hosts(pid)), "no agent has a process"
    assert until(lambda: files() <= before + 3), f"{before} files before, {files()} after {many} loads"


def test_example(tmp_path):
    """The example of docs/models/native-agents-caches.md."""
    have_host()
    page = (ROOT / "docs" / "models" / "native-agents-caches.md").read_text()
    source = re.search(r"```c\n(.*?)```", page, re.S).group(1)
    config = re.search(r"```text\n(backend.*?)```", page, re.S).group(1)
    refused = re.search(r"^(\{\"error\".*)$", page, re.M).group(1)
    agent(tmp_path / "agents", "seal", source)
    (tmp_path / "models" / "sealed" / "1").mkdir(parents=True)
    (tmp_path / "models" / "sealed" / "config.pbtxt").write_text(config)
    with Server(tmp_path / "models", *EXPLICIT, f"--repoagent-directory={tmp_path / 'agents'}") as s:
        r = s.post("/v2/repository/models/sealed/load", {})
        assert r.body.decode() == refused, r
        (tmp_path / "models" / "sealed" / "SEAL").write_text("mine")
        assert s.post("/v2/repository/models/sealed/load", {}).status == 200


def test_metrics(loads):
    """Metrics that an agent makes are on the server's page."""
    for name in ("counted", "counted_too"):
        assert loads.load(name, ("b", {"count": "1"})).status == 200
    assert re.search(r"^tells_loads_total 2$", loads.server.metrics(), re.M)
