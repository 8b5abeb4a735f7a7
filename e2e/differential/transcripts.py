"""Programs with what the real Triton answered, kept so that a machine without it can compare too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import canonical, run
from .compare import Difference, differences
from .program import dump

if TYPE_CHECKING:
    from .cli import Comparison

FOLDER = Path(__file__).with_name("transcripts")
AGAIN = 2  # a program counts as fixed when the real Triton has answered so often in the same way


def every() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.json")):
        yield path.stem, json.loads(path.read_text())


def against(pool: Any, transcript: dict[str, Any]) -> list[Difference]:
    """The differences between what is kept and what a side answers now."""
    program = transcript["program"]
    return differences(program, canonical.loosen(program, transcript["peer"]), run.run(pool, program))


def record(comparison: Comparison, seeds: range) -> int:
    """Keeps the programs of those seeds that differ in nothing, and that the real Triton always answers the same."""
    FOLDER.mkdir(exist_ok=True)
    kept = 0
    for seed in seeds:
        program = comparison.make(seed)
        peer, ours = run.run_both(comparison.peer, comparison.ours, program)
        found = comparison.allowed.unexplained(differences(program, peer, ours))
        changed = [d for _ in range(AGAIN) for d in differences(program, peer, run.run(comparison.peer, program))]
        text = dump({"program": program, "peer": peer})
        for difference in (found or changed)[:1]:
            print(difference.line())
        if not found and not changed:
            (FOLDER / f"{'bound-' if program.get('kind') == 'bound' else ''}{seed}.json").write_text(text)
            kept += 1
        word = "differs" if found else "is not always the same" if changed else f"kept, {len(text)} bytes"
        print(f"seed {seed}: {word}", flush=True)
    print(f"{kept} of {len(seeds)} kept in {FOLDER}")
    return 0
