"""The tensors that go into and come out of a compiled or exported module: the leaves of its arguments and of its result.

Such a module has a specification: a tree of tuples, lists and dictionaries for (args, kwargs), and one for what it gives. A leaf
has Triton's name, the path to it (`ARGS[2][key]`, `KWARGS[key]`, `RESULT[0]`), a number (`INPUT__3`, `OUTPUT__0`: its place among all
leaves), and a plain name where it is an argument or a key by itself.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional


class Leaf(NamedTuple):
    """One tensor of a specification."""

    # The path to it, with its prefix.
    path: str
    # The key of a dictionary at the top, "" for anything else.
    key: str
    nested: bool


class Result(NamedTuple):
    """One output of a module."""

    name: str
    aliases: tuple[str, ...]
    # Which leaf of the result it is.
    place: int


def leaves(spec: dict[str, Any], prefix: str) -> list[Leaf]:
    """The leaves of a specification, in its order."""
    if spec["type"] is None:
        return [Leaf(prefix, "", False)]
    keys, named = _keys(spec)
    found = []
    for key, child in zip(keys, spec["children_spec"]):
        leaf = child["type"] is None
        if leaf:
            found.append(Leaf(f"{prefix}[{key}]", key if named else "", False))
        else:
            found += [Leaf(path, "", True) for path, _, _ in leaves(child, f"{prefix}[{key}]")]
    return found


def _keys(spec: dict[str, Any]) -> tuple[list[str], bool]:
    """What leads to each child, and whether these are keys; all but dictionaries are counted through."""
    children = spec["children_spec"]
    if spec["type"] in ("builtins.dict", "collections.OrderedDict", "collections.defaultdict"):
        context = spec["context"]
        context = json.loads(context) if isinstance(context, str) else context
        if isinstance(context, dict):  # of a defaultdict
            context = context.get("dict_context")
        if isinstance(context, list) and len(context) == len(children):
            return [str(key) for key in context], True
    return [str(place) for place in range(len(children))], False


def tree(text: str) -> dict[str, Any]:
    """A specification as PyTorch writes it: [version, tree]."""
    return json.loads(text)[1]


def inputs(spec: dict[str, Any]) -> list[Leaf]:
    """The leaves of (args, kwargs)."""
    positional, keywords = spec["children_spec"]
    return leaves(positional, "ARGS") + leaves(keywords, "KWARGS")


def results(spec: dict[str, Any], is_tensor: Optional[list[bool]] = None) -> list[Result]:
    """The outputs of a module. is_tensor says which leaves are tensors, None: all of them are."""
    found = leaves(spec, "RESULT")
    paths = any(leaf.nested for leaf in found)
    made = []
    for place, leaf in enumerate(found):
        if is_tensor is not None and not is_tensor[place]:
            continue
        number = f"OUTPUT__{place}"
        names = [leaf.path, number, leaf.key] if paths else [leaf.key or number, leaf.path, number]
        made.append(Result(names[0], tuple(name for name in names[1:] if name), place))
    return made


def by_name(named: Any) -> dict[str, Any]:
    """Arguments or results by each of their names; the first one has a name that several claim."""
    found: dict[str, Any] = {}
    for one in named:
        found.setdefault(one.name, one)
    for one in named:
        for name in one.aliases:
            found.setdefault(name, one)
    return found
