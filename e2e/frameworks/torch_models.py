"""PyTorch models for the tests. TorchScript compiles from source, so that they lie in a file."""

from __future__ import annotations

from typing import Dict, List, Optional  # noqa: UP035 (TorchScript knows these)

import torch


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def forward(self, x: torch.Tensor):
        return self.net(x)


class AddSub(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor):
        return a + b, a - b


class Named(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: Optional[torch.Tensor] = None) -> Dict[str, torch.Tensor]:  # noqa: UP006, UP045
        if b is None:
            return {"double": a * 2, "sum": a}
        return {"double": a * 2, "sum": a + b}


class Dictionary(torch.nn.Module):
    def forward(self, tensors: Dict[str, torch.Tensor]):  # noqa: UP006
        return tensors["p"] * tensors["q"]


class Texts(torch.nn.Module):
    def forward(self, texts: List[str]) -> List[str]:  # noqa: UP006
        out: List[str] = []  # noqa: UP006
        for text in texts:
            out.append(text + "!")
        return out


class InPlace(torch.nn.Module):
    """Writes to its input, as models may."""

    def forward(self, x: torch.Tensor):
        x.mul_(2)
        return x


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x


class Picky(torch.nn.Module):
    """Fails on rows whose first value is negative."""

    def forward(self, x: torch.Tensor):
        if bool((x[:, 0] < 0).any()):
            raise ValueError("negative")
        return x


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, image: torch.Tensor):
        return self.conv(image).mean((2, 3))


class Huge(torch.nn.Module):
    """Asks for eight TiB."""

    def forward(self, x: torch.Tensor):
        return x + torch.zeros([1 << 41, 1])[0]


class Nested(torch.nn.Module):
    """Tuples, lists and dictionaries go in and come out; each leaf counts differently."""

    def forward(self, a, pair, options, *, scale, extra):
        return {
            "sum": a + pair[0] * 10 + pair[1][0] * 100,
            "parts": (options["key"] * scale, [extra["inner"] - a]),
            "last": {"deep": a + options["other"]},
        }

    @staticmethod
    def example(rows=2):
        """Arguments and keyword arguments."""
        a, b, c, d, e, f, g = (torch.zeros(rows, 2) for _ in range(7))
        return (a, (b, [c]), {"key": d, "other": e}), {"scale": f, "extra": {"inner": g}}


class Flagged(torch.nn.Module):
    """An argument that is a constant of the export, in the middle of others."""

    def forward(self, a, flag, b):
        return a + b if flag else a - b
