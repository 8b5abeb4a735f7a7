"""Decorators on functions that are called directly, and on bound ones."""

from __future__ import annotations

import numpy as np
import pytest

from neso._context import inject
from neso.decorators import (
    ConstantPadder,
    TritonContext,
    batch,
    batch_call,
    fill_optionals,
    first_value,
    group_by_keys,
    group_by_values,
    pad_batch,
    sample,
    triton_context,
)
from neso.exceptions import PyTritonBadParameterError, PyTritonRuntimeError, PyTritonValidationError
from neso.model_config import DynamicBatcher
from neso.model_config.triton_model_config import TensorSpec, TritonModelConfig
from neso.proxy.types import Request

INPUTS = [TensorSpec("a", (1,), np.float64), TensorSpec("b", (1,), np.float64, True)]
OUTPUTS = [TensorSpec("o", (1,), np.float64)]


def request(**data):
    return Request(data=data, parameters={})


def ones(rows):
    return np.ones((rows, 1))


def bound(function, **settings):
    """Gives a function the context of a bound model."""
    context = TritonContext()
    context.model_configs[function] = TritonModelConfig("m", **{"inputs": INPUTS, "outputs": OUTPUTS, **settings})
    return inject(context, function)


def lists(answers):
    return [{name: value.tolist() for name, value in answer.items()} for answer in answers]


def test_batch_joins_and_splits():
    @batch
    def add(a, b):
        return {"o": a + b}

    answers = add([request(a=ones(2), b=ones(2)), request(a=ones(1), b=3 * ones(1))])
    assert lists(answers) == [{"o": [[2.0], [2.0]]}, {"o": [[4.0]]}]


def test_batch_of_a_generator():
    @batch
    def count(a):
        yield {"o": a}
        yield {"o": a + 1}

    assert [lists(x) for x in count([request(a=ones(1))])] == [[{"o": [[1.0]]}], [{"o": [[2.0]]}]]


def test_batch_on_a_method_and_a_list_of_outputs():
    class Model:
        @batch
        def infer(self, a):
            return [a]

    model = Model()
    bound(model.infer)
    assert lists(model.infer([request(a=ones(1))])) == [{"o": [[1.0]]}]


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda a: {"o": a[:1]}, ValueError, r"different batch sizes: o: \(1, 1\). Expected batch size: 2"),
        (lambda a: 3, PyTritonValidationError, "Unsupported output type <class 'int'>."),
        (lambda a: [a, a], PyTritonValidationError, "Outputs length different than config outputs length"),
    ],
)
def test_batch_refuses(function, error, text):
    with pytest.raises(error, match=text):
        bound(batch(function))([request(a=ones(2))])


def test_batch_refuses_different_inputs():
    with pytest.raises(PyTritonValidationError, match="different set of inputs keys"):
        batch(lambda **inputs: inputs)([request(a=ones(1)), request(a=ones(1), b=ones(1))])


def test_a_function_that_is_not_bound_has_no_configuration():
    with pytest.raises(PyTritonValidationError, match="must bound with triton to get  __triton_context__"):
        batch(lambda a: [a])([request(a=ones(1))])


def test_sample_takes_one_request():
    assert lists(sample(lambda a: {"o": a})([request(a=ones(1))])) == [{"o": [[1.0]]}]


def test_group_by_keys_keeps_the_order():
    @group_by_keys
    @batch
    def add(a, b=None):
        return {"o": a if b is None else a + b}

    answers = add([request(a=ones(1), b=ones(1)), request(a=ones(1)), request(a=2 * ones(1), b=ones(1))])
    assert lists(answers) == [{"o": [[2.0]]}, {"o": [[1.0]]}, {"o": [[3.0]]}]


def test_group_by_values_puts_rows_back():
    @batch
    @group_by_values("k")
    def size(a, k):
        return {"o": a * 0 + len(a)}

    answers = size([request(a=ones(3), k=np.array([[b"x"], [b"y"], [b"x"]], dtype=object))])
    assert lists(answers) == [{"o": [[2.0], [1.0], [2.0]]}]


def test_group_by_values_goes_below_batch():
    with pytest.raises(PyTritonRuntimeError, match="must be used after the @batch"):
        group_by_values("k")(batch(lambda a, k: a))([request(a=ones(1), k=ones(1))])


def test_padding_joins_groups_of_different_shapes():
    @batch
    @group_by_values("k", pad_fn=ConstantPadder(0))
    def wide(k):
        return {"o": np.ones((len(k), int(k[0, 0])))}

    assert lists(wide([request(k=np.array([[1], [2]]))])) == [{"o": [[1.0, 0.0], [1.0, 1.0]]}]


@pytest.mark.parametrize(("rows", "seen"), [(1, 4), (4, 4), (5, 6), (7, 8)])
def test_pad_batch_fills_up(rows, seen):
    @pad_batch
    def identity(a):
        assert len(a) == seen
        return {"o": a}

    bound(identity, max_batch_size=8, batcher=DynamicBatcher(preferred_batch_size=[4, 6]))
    identity(a=ones(rows))


def test_first_value():
    @first_value("k")
    def give(a, k):
        return k

    bound(give)
    assert give(a=ones(2), k=np.array([[5], [5]])) == 5
    with pytest.raises(PyTritonRuntimeError, match="The values on the 'k' input are not equal"):
        give(a=ones(2), k=np.array([[5], [6]]))
    bound(give, batching=False)
    with pytest.raises(PyTritonRuntimeError, match="only be used with models that support batching"):
        give(a=ones(2), k=np.array([[5], [5]]))
    with pytest.raises(PyTritonBadParameterError, match="__triton_context__ are not allowed"):
        first_value("__triton_context__")


def test_fill_optionals():
    @fill_optionals(b=np.array([2.0]))
    @batch
    def add(a, b):
        return {"o": b}

    bound(add)
    assert lists(add([request(a=ones(2)), request(a=ones(1), b=ones(1))])) == [{"o": [[2.0], [2.0]]}, {"o": [[1.0]]}]


@pytest.mark.parametrize("kind", [np.bytes_, np.object_])
def test_fill_optionals_with_texts(kind):
    give = fill_optionals(b=np.array([b"no"], kind))(batch(lambda a, b: {"o": b}))
    bound(give, inputs=[INPUTS[0], TensorSpec("b", (1,), np.bytes_, True)])
    assert lists(give([request(a=ones(2)), request(a=ones(1), b=np.array([[b"yes"]]))])) == [
        {"o": [[b"no"], [b"no"]]},
        {"o": [[b"yes"]]},
    ]


@pytest.mark.parametrize(
    ("default", "text"),
    [
        ({"b": 3}, "Could not use b=3 defaults as they are not NumPy arrays"),
        ({"zz": np.array([1.0])}, "Could not found zz inputs"),
        ({"b": np.array([1], np.int32)}, "different than input signature dtypes"),
        ({"b": np.array([1.0, 2.0])}, "different than input signature shapes"),
    ],
)
def test_fill_optionals_refuses(default, text):
    add = bound(fill_optionals(**default)(batch(lambda a, b: [a])))
    with pytest.raises(PyTritonBadParameterError, match=text):
        add([request(a=ones(1))])


def test_context_reaches_the_function():
    @batch
    @triton_context
    def name(triton_context, a):
        return {"o": np.full((len(a), 1), len(triton_context.model_configs))}

    assert lists(bound(name)([request(a=ones(1))])) == [{"o": [[1]]}]


def test_what_the_server_may_join():
    config = TritonModelConfig("m", inputs=INPUTS, outputs=OUTPUTS)

    class Model:
        @batch
        def __call__(self, a):
            return [a]

    assert batch_call(batch(lambda a: [a]), config) is not None
    assert batch_call(group_by_keys(batch(lambda a: [a])), config) is not None
    assert batch_call(Model(), config)({"a": ones(2)})["o"].shape == (2, 1)
    assert batch_call(lambda requests: requests, config) is None
    assert batch_call(sample(lambda a: [a]), config) is None
    assert batch_call(triton_context(batch(lambda a: [a])), config) is None


def test_the_order_in_which_groups_are_called():
    """PyTriton's: by the names of inputs, by the bytes of values."""
    seen = []

    @group_by_keys
    def by_keys(requests):
        seen.append([sorted(r) for r in requests])
        return [{"n": np.array([len(requests)])} for _ in requests]

    one = np.ones((1, 1), np.float32)
    answers = by_keys([{"b": one}, {"a": one}, {"b": one}, {"b": one, "a": one}])
    assert seen == [[["a"]], [["a", "b"]], [["b"], ["b"]]]
    assert [a["n"].tolist() for a in answers] == [[2], [1], [2], [1]]

    values = []

    @group_by_values("key")
    def by_values(x, key):
        values.append(key[0].tolist())
        return {"y": x}

    x = np.arange(4, dtype=np.float32)[:, None]
    assert by_values(x=x, key=np.array([[1], [-1], [256], [1]], np.int16))["y"].tolist() == x.tolist()
    assert values == [[256], [1], [-1]]
    values.clear()
    by_values(x=x, key=np.array([[b"z"], [b"aa"], [b"z"], [b""]]))
    assert values == [[b""], [b"z"], [b"aa"]]


def test_group_by_keys_with_too_few_answers():
    """They are not filled up: the check of answers says how many are missing."""
    assert group_by_keys(lambda requests: [{"n": 1}])([{"b": 1}, {"b": 1}, {"a": 1}]) == [{"n": 1}] * 2


def test_padding_what_differs():
    ones = np.ones((1, 2), np.float32)
    assert ConstantPadder()([]) == []
    padded = ConstantPadder()([{"a": ones}, {"b": ones}, {"a": np.ones((2, 1), np.float32)}])
    assert [{k: v.tolist() for k, v in p.items()} for p in padded] == [
        {"a": [[1, 1]]},
        {"b": [[1, 1]]},
        {"a": [[1, 0], [1, 0]]},
    ]
    texts = ConstantPadder()([{"a": np.array([[b"a"]])}, {"a": np.array([[b"bb", b"c"]])}])
    assert [p["a"].dtype for p in texts] == [np.dtype("S2")] * 2
    objects = ConstantPadder()([{"a": np.array([[b"a"]], object)}, {"a": np.array([[b"bb", b"c"]], object)}])
    assert type(objects[0]["a"][0, 1]) is bytes


def test_several_outputs_with_wrong_rows():
    with pytest.raises(ValueError, match=r"sizes: p: \(1, 1\), q: \(\)\. Expected batch size: 2\. $"):
        batch(lambda x: {"p": x[:1], "q": np.float32(1), "r": x})([{"x": np.ones((2, 1))}])
