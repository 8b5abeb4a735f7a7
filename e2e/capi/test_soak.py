"""That the C library leaves nothing behind: over many requests, under valgrind, and under AddressSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_library import CC, LIBRARY, program, run
from test_library import repository as repository  # the fixture

pytestmark = pytest.mark.skipif(not CC or not LIBRARY.exists(), reason="needs a C compiler and `make capi`")


def test_flat(repository, tmp_path):
    """100,000 requests with traces, streams, refusals, cancellation, metrics and documents between them."""
    print(run(program("soak", tmp_path, "-O1"), repository, "100000").stdout)


def faults(report: Path) -> list[str]:
    """What valgrind found that is a fault: lost memory, and wrong accesses to blocks of malloc's or from code that is not Go's.

    It takes the memory of Go, whose stacks and heap it has not seen allocated, for none.
    """
    found = []
    for error in ElementTree.parse(report).iter("error"):
        kind, about = error.findtext("kind", ""), " ".join(a.text or "" for a in error.iter("auxwhat"))
        where = [frame.findtext("obj", "") for frame in error.iter("frame")]
        if kind.startswith("Leak_"):
            wrong = kind == "Leak_DefinitelyLost"
        else:
            ours = all(not obj or Path(obj).name == LIBRARY.name for obj in where)
            wrong = "block of size" in about or not ours and "anonymous segment" not in about
        if wrong:
            what = error.findtext("what") or error.findtext("xwhat/text") or ""
            found.append(
                f"{kind}: {what} {about} at {where[:6]} {[f.findtext('fn', '') for f in error.iter('frame')][:8]}"
            )
    return found


def valgrind(made: Path, *args: object) -> tuple[int, list[str]]:
    report = made.parent / "valgrind.xml"
    command = [
        "valgrind",
        "--undef-value-errors=no",
        "--error-limit=no",
        "--leak-check=full",
        "--xml=yes",
        f"--xml-file={report}",
    ]
    done = subprocess.run(
        [*command, made, *map(str, args)],
        env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert report.exists(), done.stderr[-3000:]
    return done.returncode, faults(report)


needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind (Debian: valgrind)")


@needs_valgrind
def test_valgrind(repository, tmp_path):
    status, found = valgrind(program("soak", tmp_path), repository, 20)
    assert status == 0
    assert not found, "\n".join(found)


@needs_valgrind
def test_valgrind_sees(tmp_path):
    """What the test above would miss without anybody seeing it."""
    source = tmp_path / "wrong.c"
    source.write_text(
        '#include <stdlib.h>\n#include <string.h>\n#include "triton/core/tritonserver.h"\n'
        "int main() { TRITONSERVER_Message* m; const char* b; size_t n; char* p = malloc(8); memset(p, ' ', 8);\n"
        "  if (TRITONSERVER_MessageNewFromSerializedJson(&m, p, 9)) return 1; /* reads beyond the block, in Go */\n"
        "  if (TRITONSERVER_MessageSerializeToJson(m, &b, &n) || TRITONSERVER_MessageDelete(m)) return 2;\n"
        "  p = malloc(100); return b[0] == 'x'; /* gone with its message */ }\n"
    )
    made = tmp_path / "wrong"
    include = LIBRARY.parents[2] / "include"
    subprocess.run(
        [CC, "-O0", "-g", f"-I{include}", source, "-o", made, f"-L{LIBRARY.parent}", "-ltritonserver"], check=True
    )
    found = "\n".join(valgrind(made)[1])
    assert "InvalidRead" in found, found
    assert "a block of size 8 alloc" in found and "free'd" in found, found
    assert "Leak_DefinitelyLost" in found, found


@pytest.mark.parametrize(
    ("name", "more"), [("infer", ()), ("trace", ()), ("control", ()), ("misuse", ()), ("soak", ("2000",))]
)
def test_address_sanitizer(name, more, repository, tmp_path):
    """Every byte that the library handed to the program comes back, and none is touched after: allocators, traces, metrics."""
    made = program(name, tmp_path, "-fsanitize=address")
    run(made, repository, *more, ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0:handle_segv=0")
