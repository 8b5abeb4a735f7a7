"""A pickle of backend fil is read by a process that is confined as workers are."""

from __future__ import annotations

import json
import os
import pickle
import pwd
from pathlib import Path

import nobody
import numpy as np
import pytest
from repository import until
from server import Server, alive

lightgbm = pytest.importorskip("lightgbm")
treelite = pytest.importorskip("treelite")

SECRETS = {"NESO_ADMIN_KEY": "s3cr3t-1", "AWS_SECRET_ACCESS_KEY": "s3cr3t-2"}
LIMIT = 'parameters { key: "WORKER_OPEN_FILES" value { string_value: "100" } }\n'

# Tells what it may do, leaves a process behind, and is an object that the converter takes for a booster of LightGBM.
CODE = """
import json, os, subprocess
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
left = int(subprocess.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True).stdout)
told = {{"nnp": status["NoNewPrivs"], "uid": os.getuid(), "env": dict(os.environ), "left": left}}
with open({told!r}, "w") as file:
    json.dump(told, file)
def save(self, path):
    {save}
booster = type("Booster", (), {{"__module__": "lightgbm", "save_model": save}})()
"""


class Evil:
    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        return eval, (f"(lambda d: (exec({self.code!r}, d), d['booster'])[1])(dict())",)


def forest():
    rows = np.arange(400, dtype=np.float32).reshape(100, 4)
    data = lightgbm.Dataset(rows, rows[:, 0])
    return lightgbm.train({"verbose": -1, "num_threads": 1}, data, 2).model_to_string()


def evil_model(repo, told, save, extra=""):
    directory = repo / "evil" / "1"
    directory.mkdir(parents=True)
    (directory / "model.pkl").write_bytes(pickle.dumps(Evil(CODE.format(told=str(told), save=save))))
    (repo / "evil" / "config.pbtxt").write_text('backend: "fil"\n' + extra)


def options():
    library = next((Path(treelite.__file__).parent / "lib").glob("libtreelite.*"))
    return ["--allow-pickle=true", "--model-control-mode=explicit"], {"NESO_FIL_LIBRARY": str(library)}


@nobody.needs_root
def test_pickle_runs_as_the_workers_user(tmp_path):
    told = nobody.writable(tmp_path / "told") / "told.json"
    evil_model(tmp_path / "models", told, f"path.write_text({forest()!r})")
    flags, env = options()
    with nobody.served(tmp_path / "models", *flags, env={**env, **SECRETS}) as s:
        r = s.post("/v2/repository/models/evil/load", {})
        assert r.status == 200, r
        t = json.loads(told.read_text())
        assert t["uid"] == pwd.getpwnam("nobody").pw_uid and t["nnp"] == "1" and t["env"]["USER"] == "nobody"
        assert not set(SECRETS) & set(t["env"])
        assert until(lambda: not alive(t["left"]))
        x = {"inputs": [{"name": "input__0", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
        assert s.infer("evil", x).status == 200


@nobody.needs_root
@pytest.mark.parametrize("save", ["os.symlink('/etc/passwd', path)", "os.mkfifo(path)", "os.mkdir(path)"])
def test_pickle_that_leaves_no_file(tmp_path, save):
    """The server neither follows a link that the pickle has left, nor waits for a pipe."""
    told = nobody.writable(tmp_path / "told") / "told.json"
    evil_model(tmp_path / "models", told, save)
    flags, env = options()
    with nobody.served(tmp_path / "models", *flags, env=env) as s:
        r = s.post("/v2/repository/models/evil/load", {})
        assert r.status == 400 and "what the converter has written" in r.error, r


@pytest.mark.parametrize("extra", ["", LIMIT], ids=["in the server", "in a worker"])
def test_pickle_is_confined(tmp_path, extra):
    told = tmp_path / "told.json"
    evil_model(tmp_path / "models", told, f"path.write_text({forest()!r})", extra)
    flags, env = options()
    with Server(tmp_path / "models", *flags, env={**env, **SECRETS}) as s:
        r = s.post("/v2/repository/models/evil/load", {})
        assert r.status == 200, r
        t = json.loads(told.read_text())
        assert t["uid"] == os.getuid() and t["nnp"] == "1" and not set(SECRETS) & set(t["env"])
        if not extra:  # in a worker it ends with that
            assert until(lambda: not alive(t["left"]))
        assert s.post("/v2/repository/models/evil/unload", {}).status == 200
        assert until(lambda: not alive(t["left"]))
