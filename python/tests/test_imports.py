"""Our Python packages import each other in one direction: no circles, also not hidden in functions or from run time.

An import is an import here wherever it stands: at the top, in a function, or under ``TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The packages in rows: each may import those above it and itself.
ROWS = ("neso_runtime", "neso_worker", "neso", "pytriton")
WHERE = {"pytriton": ROOT / "pytriton-compat"}


def modules(packages=ROWS, where=WHERE):
    """The files of the packages by the names of their modules."""
    found = {}
    for package in packages:
        top = where.get(package, ROOT)
        for path in sorted((top / package).rglob("*.py")):
            parts = path.relative_to(top).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name, path, known):
    """The modules among those known that a module imports, with the lines where it does."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = {}
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
                assert base in known, f"{path}:{node.lineno} imports {base}, which is not there"
            targets = []
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                targets.append(inner if inner in known else base)
        else:
            continue
        for target in targets:
            if target in known and target != name:
                found.setdefault(target, node.lineno)
    return found


def circles(edges):
    """The sets of modules that import each other, by Tarjan's way through the graph."""
    number, low, stack, found = {}, {}, [], []

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        for target in edges[name]:
            if target not in number:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], number[target])
        if low[name] == number[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in number:
            visit(name)
    return [group for group in found if len(group) > 1]


def graph(files):
    return {name: imported(name, path, files) for name, path in files.items()}


def test_no_circles():
    edges = graph(modules())
    assert sum(map(len, edges.values())) > 200, "the reading of imports is broken"
    told = []
    for group in circles(edges):
        told.append(f"{', '.join(group)}:")
        told += [f"  {a}:{edges[a][b]} imports {b}" for a in group for b in edges[a] if b in group]
    assert not told, "modules that import each other:\n" + "\n".join(told)


def test_rows():
    """The runtime knows none of its users, the worker nothing of the bound callables, and nobody the import name."""
    wrong = []
    for name, targets in graph(modules()).items():
        row = ROWS.index(name.partition(".")[0])
        wrong += [f"{name}:{line} imports {t}" for t, line in targets.items() if ROWS.index(t.partition(".")[0]) > row]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "from . import b",
        "from .b import x",
        "from p.b import x",
        "import p.b",
        "def f():\n    from .b import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import x",
    ],
)
def test_a_circle_is_seen(tmp_path, line):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(line)
    (package / "b.py").write_text("from .c import y")
    (package / "c.py").write_text("import p.a")
    assert circles(graph(modules(["p"], {"p": tmp_path}))) == [["p.a", "p.b", "p.c"]]


@pytest.mark.parametrize("package", ["neso", "neso.inprocess", "neso.testing", "neso.client", "pytriton"])
def test_every_name_can_be_had(package, monkeypatch):
    """A name that is imported when it is first asked for is there."""
    monkeypatch.syspath_prepend(WHERE.get(package, ROOT))
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", []):
        assert getattr(module, name) is not None, name
