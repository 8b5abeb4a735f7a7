"""The crate of rust/: its tests, its declarations against the header, and the example of its page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from libraries import have_host
from server import ROOT
from test_library import LIBRARY, repository  # noqa: F401  (a fixture)

CRATE = ROOT / "rust"
CARGO = shutil.which("cargo")

needs_cargo = pytest.mark.skipif(not CARGO, reason="needs cargo")


def cargo(*args: str | Path) -> str:
    """Runs cargo without the network and returns its standard output."""
    have_host()
    env = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "build" / "rust"), "NESO_LIBRARY_DIR": str(LIBRARY.parent)}
    done = subprocess.run([CARGO, *args], cwd=CRATE, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@needs_cargo
def test_crate():
    printed = cargo("test", "--offline", "--locked")
    assert len(re.findall(r"^test result: ok\. [1-9]\d* passed; 0 failed; 0 ignored", printed, re.M)) == 3, printed


@needs_cargo
def test_example_of_the_docs(repository):  # noqa: F811
    page = (ROOT / "docs" / "use" / "rust.md").read_text()
    shown = re.search(r"```rust\n(.*?)```", page, re.S)[1]
    assert shown == (CRATE / "examples" / "infer.rs").read_text()
    promised = re.search(r"```console\n.*cargo run[^\n]*\n(.*?)```", page, re.S)[1]
    assert cargo("run", "--offline", "--locked", "--quiet", "--example", "infer", "--", repository) == promised


@needs_cargo
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("cargo-fmt", ["fmt", "--check"]),
        ("cargo-clippy", ["clippy", "--offline", "--locked", "--all-targets", "--", "-D", "warnings"]),
    ],
    ids=["fmt", "clippy"],
)
def test_lint(tool, args):
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    cargo(*args)


def test_declarations_agree_with_the_header():
    """What the crate says of functions and constants is what the header says."""
    numbers = {"int": "c_int", "unsigned": "c_uint", "double": "f64", "size_t": "usize", "bool": "bool"}
    numbers |= {f"{sign}int{bits}_t": f"{'u' if sign else 'i'}{bits}" for sign in ("", "u") for bits in (32, 64)}

    def rust(c: str) -> str:
        """The type of Rust for one of C."""
        words = [w for w in c.replace("*", " * ").split() if w not in ("int",) or c.split()[0] != "unsigned"]
        name = next(w for w in words if w not in ("const", "*"))
        made = {"void": "c_void", "char": "c_char"}.get(name) or numbers.get(name, name)
        pointers = words.count("*")
        for i in range(pointers):
            made = f"*{'const' if words[0] == 'const' and i == 0 else 'mut'} {made}"
        return made

    header = re.sub(r"/\*.*?\*/", "", (ROOT / "include/triton/core/tritonserver.h").read_text(), flags=re.S)
    declared = {
        name: (result.strip(), [" ".join(p.split()) for p in parameters.split(",")])
        for result, name, parameters in re.findall(
            r"^TRITONSERVER_DECLSPEC ([^(]*?)\b(TRITONSERVER_\w+)\(([^;]*)\);", header, re.M | re.S
        )
    }
    text = (CRATE / "src" / "sys.rs").read_text()
    functions = re.findall(r"pub fn (TRITONSERVER_\w+)\((.*?)\)(?: -> ([^;]*))?;", text, re.S)
    for name, parameters, result in functions:
        want_result, want_parameters = declared[name]
        got = [" ".join(p.split(":", 1)[1].split()) for p in parameters.split(",") if p.strip()]
        want = [rust(re.sub(r"\w+$", "", p)) for p in want_parameters]
        # An array of parameters is read, which C does not say of its outer pointer.
        want = [w.replace("*mut *const TRITONSERVER_P", "*const *const TRITONSERVER_P") for w in want]
        assert got == want, name
        assert (result or "c_void") == rust(want_result), name
    assert len(functions) > 60, f"only {len(functions)} functions were compared"

    constants = dict(re.findall(r"pub const (TRITONSERVER_\w+): \w+ = (\d+);", text))
    values = dict(re.findall(r"(TRITONSERVER_\w+) = (\d+)", header))
    values |= dict(re.findall(r"#define (TRITONSERVER_\w+) (\d+)", header))
    assert constants == {name: values.get(name) for name in constants}
    assert len(constants) > 30, f"only {len(constants)} constants were compared"
