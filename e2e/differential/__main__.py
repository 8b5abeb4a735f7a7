"""Makes the folder runnable: `python e2e/differential` and `python -m e2e.differential`."""

import pathlib
import sys

if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from differential.cli import main

    sys.exit(main())
