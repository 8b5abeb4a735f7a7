"""``python -m neso SCRIPT.py [--reload] [arguments]``: see ``neso._command.script``."""

import sys

from ._command.script import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
