"""The differences that are meant. allow.json lists them; each names its row in docs/differences.md."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from .compare import Difference

FILE = Path(__file__).with_name("allow.json")


@dataclasses.dataclass
class Entry:
    """Fits a difference whose kind and texts match these expressions. `row` is the first cell of the reason's row."""

    row: str
    page: str = "docs/differences.md"
    what: str = ""
    step: str = ""
    peer: str = ""
    ours: str = ""
    of: str = ""
    after: str = ""
    matched: int = 0

    def fits(self, difference: Difference) -> bool:
        return all(
            re.search(expression, text, re.DOTALL) is not None
            for expression, text in (
                (self.what, difference.what),
                (self.step, difference.step),
                (self.peer, difference.peer),
                (self.ours, difference.ours),
                (self.of, difference.of),
                (self.after, difference.after),
            )
        )


class AllowList:
    def __init__(self, entries: list[dict[str, Any]] | None = None):
        self.entries = [Entry(**entry) for entry in (json.loads(FILE.read_text()) if entries is None else entries)]

    def unexplained(self, found: list[Difference]) -> list[Difference]:
        """Those that no entry explains; what an entry explains is counted for it."""
        left = []
        for difference in found:
            fitting = next((entry for entry in self.entries if entry.fits(difference)), None)
            if fitting is None:
                left.append(difference)
            else:
                fitting.matched += 1
        return left

    def unused(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.matched]
