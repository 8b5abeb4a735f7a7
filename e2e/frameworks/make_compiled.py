"""Writes AOTInductor packages into a repository, and what the module answers into expected.json: it is compiled in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch_models import Nested


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return {"y": self.layer(x)}


def main(repo):
    torch.manual_seed(0)
    net = Net().eval()
    rows = torch.export.Dim("rows", max=64)
    program = torch.export.export(net, (torch.zeros(2, 4),), dynamic_shapes=({0: rows},))
    (repo / "package" / "1").mkdir(parents=True)
    torch._inductor.aoti_compile_and_package(program, package_path=str(repo / "package" / "1" / "model.pt2"))
    positional, keywords = Nested.example()
    nested = torch.export.export(Nested(), positional, keywords)
    torch._inductor.aoti_compile_and_package(nested, package_path=str(repo / "nested.pt2"))
    (repo / "expected.json").write_text(json.dumps(net(torch.arange(8.0).reshape(2, 4))["y"].tolist()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
