"""A decorated function whose arguments are not the model's inputs is refused when it is bound, and only then."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from neso import Tensor, Triton, batch, fill_optionals, first_value, group_by_keys, group_by_values, pad_batch, sample
from neso.decorators import triton_context
from neso.exceptions import PyTritonValidationError

A, B = Tensor((-1,), np.float32, "a"), Tensor((-1,), np.float32, "b")
MAYBE = Tensor((-1,), np.float32, "b", optional=True)
Y = [Tensor((-1,), np.float32, "y")]


def bind(function, *inputs):
    Triton().bind("m", function, inputs, Y)


def other(x, y=1, *, z):
    return {"y": x}


def renaming(function):
    @functools.wraps(function)
    def call(**inputs):
        return function(**{f"{name}_": value for name, value in inputs.items()})

    return call


class Model:
    @batch
    def method(self, a, b):
        return {"y": a + b}

    @batch
    def __call__(self, c):
        return {"y": c}


@pytest.mark.parametrize(
    ("function", "inputs", "text"),
    [
        (batch(other), [A], r"`other\(x, y=1, \*, z\)` cannot .* model `m`, `a`: it does not take `a` and nothing .* "
                            r"`x`, `z`\."),
        (sample(other), [A], "does not take `a`"),
        (batch(lambda a: {"y": a}), [A, B], "does not take `b`\\."),
        (batch(lambda a, b: {"y": a}), [A], "nothing is given for its `b`\\."),
        (batch(lambda a, /: {"y": a}), [A], "nothing is given for its `a`"),
        (batch(lambda **inputs: inputs), [], None),
        (Model(), [A], "nothing is given for its `c`"),
        (Model().method, [A], "nothing is given for its `b`"),
        (group_by_keys(batch(first_value("a")(lambda x: {"y": x}))), [A], "does not take `a`"),
        (triton_context(batch(lambda a: {"y": a})), [A], "does not take `triton_context`"),
        ([batch(lambda a: {"y": a}), batch(lambda x: {"y": x})], [A], "does not take `a`"),
    ],
)  # fmt: skip
def test_what_can_never_be_called(function, inputs, text):
    if text is None:
        bind(function, *inputs)
        return
    with pytest.raises(PyTritonValidationError, match=text):
        bind(function, *inputs)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (batch(lambda a, b: {"y": a}), [A, B]),
        (batch(lambda **inputs: {"y": inputs["a"]}), [A, B]),
        (batch(lambda a, **rest: {"y": a}), [A, B]),
        (batch(lambda a, scale=2: {"y": a * scale}), [A]),
        (batch(lambda a, b=None: {"y": a}), [A, MAYBE]),
        (batch(lambda a: {"y": a}), [A, MAYBE]),
        (fill_optionals(b=np.zeros(1, np.float32))(batch(lambda a, b: {"y": a})), [A, MAYBE]),
        (batch(triton_context(lambda a, triton_context: {"y": a})), [A]),
        (triton_context(batch(lambda a, triton_context: {"y": a})), [A]),
        (batch(group_by_values("a")(pad_batch(lambda a: {"y": a}))), [A]),
        (Model().method, [A, B]),
        # What a decorator of somebody else's makes of the names is not known here.
        (batch(renaming(lambda a_: {"y": a_})), [A]),
        (renaming(batch(other)), [A]),
        (batch(functools.partial(lambda x, a: {"y": a}, 1)), [A]),
        (functools.partial(batch(lambda a, x: {"y": a}), x=1), [A]),
        (lambda requests: requests, [A]),
    ],
)
def test_what_can_be_called(function, inputs):
    bind(function, *inputs)
