"""The network of examples/models/digits as a module of PyTorch; convert_digits.py compiles it to TorchScript."""

import torch


class Digits(torch.nn.Module):
    """Grey values from 0 to 16 in, the probabilities of the ten digits out."""

    def __init__(self, weights):
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name, torch.from_numpy(value))

    def forward(self, IMAGE: torch.Tensor):  # noqa: N803 (the name of the input)
        hidden = torch.relu(IMAGE.flatten(1) / 16 @ self.w1 + self.b1)
        return {"PROBABILITIES": torch.softmax(hidden @ self.w2 + self.b2, 1)}
