"""In-place operations of PyTorch in a model.py, on inputs that others read too: a write to read-only memory was SIGSEGV."""

from __future__ import annotations

from bls import ask, write
from server import Server

SIZE = 100_000
ENSEMBLE = """platform: "ensemble"
input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "B" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "C" data_type: TYPE_INT32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "adds" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "A" } },
  { model_name: "doubles" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "B" } },
  { model_name: "doubles" model_version: -1 input_map { key: "X" value: "A" } output_map { key: "Y" value: "C" } } ] }
"""
ADDS = """import torch
torch.from_numpy(x).add_(1)
return self.reply(x)"""
DOUBLES = """import torch
t = torch.from_dlpack(pb_utils.get_input_tensor_by_name(request, "X").to_dlpack())
t *= 2
return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", t)])"""


def test_in_place_operations(tmp_path):
    repo = tmp_path / "repo"
    write(repo, "adds", ADDS, init="import torch")
    write(repo, "doubles", DOUBLES, init="import torch")
    (repo / "split" / "1").mkdir(parents=True)
    (repo / "split" / "config.pbtxt").write_text(ENSEMBLE)
    with Server(repo) as server:
        for n in range(1, 6):
            r = server.infer("split", ask(*[n] * SIZE))
            assert r.status == 200, r
            assert {o["name"]: set(o["data"]) for o in r.json["outputs"]} == {
                "A": {n + 1},
                "B": {2 * n},
                "C": {2 * n + 2},
            }
