"""Asks a library the questions of one story and prints its answers. usage: probe LIBRARY HOME STORY, where HOME is empty; probe list"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import inferences
import lines
import measures
import models
import more_servers
import natives
import objects
import pages
import reports
import requests
import servers
import tellers
import tracing
from library import Library

PARTS = (
    objects,
    measures,
    requests,
    inferences,
    natives,
    servers,
    tracing,
    tellers,
    pages,
    lines,
    more_servers,
    reports,
)
STORIES = {s.__name__: s for part in PARTS for s in part.STORIES}


def main() -> None:
    path, home, story = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    os.environ["PROBE_HOME"] = str(home)
    models.write(home / "models")
    (home / "empty").mkdir(exist_ok=True)
    lib = Library(path, {str(home): "HOME", os.environ.get("PROBE_LIBS", "LIBS"): "LIBS"})
    STORIES[story](lib, home)
    sys.stdout.flush()
    os._exit(0)  # a server of the peer's that could not be stopped would abort


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(STORIES))
    else:
        main()
