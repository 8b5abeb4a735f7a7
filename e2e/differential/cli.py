"""The command: new seeds, a program again, transcripts anew."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import allow, run, shrink, sides, transcripts
from .bound.generate import generate as bound_program
from .bound.sides import BoundPool, OursBound, PyTriton
from .compare import Difference, differences, place
from .generate import generate, of_ensembles
from .program import Program, dump, steps_of

AGAIN = 2  # how often a program that differs is run once more
SHOWN = 4  # of one seed: most of the others follow from the first ones
FOUND = sides.ROOT / "build" / "differential"


class Found(NamedTuple):
    """What is left to be told of a program, and the places where the real server does not answer the same twice."""

    differences: list[Difference]
    unstable: list[str]


class Comparison:
    """Both servers, and what is known of their differences."""

    def __init__(self, peer: Any, ours: Any, make: Callable[[int], Program]):
        self.peer, self.ours, self.make, self.allowed = peer, ours, make, allow.AllowList()

    def once(self, program: Program) -> tuple[list[Difference], run.Result]:
        """What differs, but for what has a reason, and what the peer's clients and models saw."""
        peer, ours = run.run_both(self.peer, self.ours, program)
        return self.allowed.unexplained(differences(program, peer, ours)), peer

    def findings(self, program: Program) -> Found:
        """The differences that have no reason, are there each time, and where the peer does not differ from itself."""
        found, peer = self.once(program)
        unstable: set[tuple[Any, ...]] = set()
        for _ in range(AGAIN):
            if not found:
                break
            again, other = self.once(program)
            unstable |= {place(d.path) for d in differences(program, peer, other)}
            there = {(d.where, d.what) for d in again}
            found = [d for d in found if (d.where, d.what) in there and not d.below(unstable)]
        return Found(found, sorted({"/".join(map(str, path)) for path in unstable}))

    def shows(self, what: str) -> shrink.Shows:
        def check(program: Program) -> bool:
            return any(d.what == what for d in self.once(program)[0])

        return check


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e/differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many new programs (default 20)")
    parser.add_argument("--first", type=int, default=None, help="the first seed (default: any)")
    parser.add_argument("--replay", type=Path, help="a program to run again, in place of seeds")
    parser.add_argument("--show", type=int, metavar="SEED", help="prints the program of a seed, and runs nothing")
    parser.add_argument("--shrink", type=float, default=120, metavar="SECONDS", help="for each finding (default 120)")
    parser.add_argument(
        "--ensembles", action="store_true", help="programs of ensembles whose models come, go and change"
    )
    parser.add_argument("--bound", action="store_true", help="programs of bind() calls: PyTriton and Neso's package")
    parser.add_argument("--keep", action="store_true", help="prints what the models and clients of both sides saw")
    parser.add_argument("--record", action="store_true", help="writes transcripts of seeds that do not differ")
    args = parser.parse_args()
    make = bound_program if args.bound else of_ensembles if args.ensembles else generate
    if args.show is not None:
        print(dump(make(args.show)), end="")
        return 0
    try:
        peer = sides.make_peer()
    except sides.peers.PeerMissing as error:
        print(error, file=sys.stderr)
        return 2
    first = secrets.randbelow(10**9) if args.first is None else args.first
    read = json.loads(args.replay.read_text()) if args.replay else {}
    bound = args.bound or read.get("program", read).get("kind") == "bound"
    with pools(bound, peer) as (theirs, ours):
        comparison = Comparison(theirs, ours, make)
        if args.replay:
            return replay(comparison, read, args.keep)
        if args.record:
            return transcripts.record(comparison, range(first, first + args.seeds))
        return seeds(comparison, range(first, first + args.seeds), args.shrink)


@contextlib.contextmanager
def pools(bound: bool, peer: sides.peers.Peer) -> Iterator[tuple[Any, Any]]:
    """The real server and ours, or PyTriton and our package, in the same interpreter."""
    if bound:
        both = BoundPool(PyTriton(peer)), BoundPool(OursBound(peer.python))
    else:
        both = sides.Pool("peer", peer), sides.Pool("ours")
    try:
        yield both
    finally:
        for pool in both:
            pool.close()


def replay(comparison: Comparison, program: Program, keep: bool) -> int:
    program = program.get("program", program)
    if keep:
        for name, result in zip(("peer", "ours"), run.run_both(comparison.peer, comparison.ours, program)):
            print(f"-- {name}\n{dump(result)}", end="")
    found = comparison.findings(program)
    for difference in found.differences:
        print(difference.line())
    for where in found.unstable:
        print(f"not the same in two runs of the real server: {where}")
    return 1 if found.differences else 0


def seeds(comparison: Comparison, numbers: range, seconds: float) -> int:
    FOUND.mkdir(parents=True, exist_ok=True)
    failed = unstable = untold = 0
    kinds: dict[str, list[int]] = {}
    for seed in numbers:
        begun = time.monotonic()
        program = comparison.make(seed)
        print(f"seed {seed}: {len(program['models'])} models, {len(steps_of(program))} steps", flush=True)
        try:
            found, wavering = comparison.findings(program)
        except RuntimeError as error:  # a side does not start: PyTriton gives up in seconds on a busy machine
            untold += 1
            print(f"seed {seed}: not compared: {error}", flush=True)
            continue
        unstable += bool(wavering)
        print(f"seed {seed}: {len(found)} differences, {time.monotonic() - begun:.1f} s", flush=True)
        for where in wavering[:SHOWN]:
            print(f"  not the same in two runs of the real server: {where}", flush=True)
        if not found:
            continue
        failed += 1
        for difference in found[:SHOWN]:
            print(difference.line(), flush=True)
        for difference in found:
            kinds.setdefault(difference.what, []).append(seed)
        small = shrink.shrink(program, comparison.shows(found[0].what), seconds) if seconds else program
        path = FOUND / f"seed-{seed}.json"
        path.write_text(dump(small))
        print(
            f"  {len(small['models'])} models, again: python e2e/differential --replay {os.path.relpath(path)}",
            flush=True,
        )
    for what, where in sorted(kinds.items()):
        print(f"{what}: seeds {' '.join(map(str, sorted(set(where))))}")
    for entry in comparison.allowed.unused():
        print(f"never met in this run: {entry.row}")
    print(f"{failed} of {len(numbers)} seeds differ; in {unstable} the real server differs from itself")
    if untold:
        print(f"{untold} could not be compared")
    return 1 if failed or untold else 0
