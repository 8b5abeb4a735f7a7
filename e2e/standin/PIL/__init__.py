"""A stand-in for Pillow, of which NVIDIA's backend for vLLM takes one name."""

import types

Image = types.SimpleNamespace()
