"""Writes models that call torchvision::nms, in each format of PyTorch that is asked for: file=format ..."""

from __future__ import annotations

import sys

import torch
import torchvision  # noqa: F401 - it registers the operator


class Best(torch.nn.Module):
    def forward(self, boxes: torch.Tensor, scores: torch.Tensor):
        return torch.ops.torchvision.nms(boxes, scores, 0.5)


def main(orders):
    for order in orders:
        path, kind = order.rsplit("=", 1)
        if kind == "script":
            torch.jit.script(Best()).save(path)
            continue
        program = torch.export.export(Best(), (torch.zeros(3, 4), torch.zeros(3)))
        if kind == "exported":
            torch.export.save(program, path)
        else:
            torch._inductor.aoti_compile_and_package(program, package_path=path)


if __name__ == "__main__":
    main(sys.argv[1:])
