"""The real Triton and Neso run the same generated programs, and what clients, models and counters saw is compared.

`python e2e/differential --seeds=20` runs new programs, `--replay FILE` one again. Open program.py first: it says what
a program is; generate/ makes one from a seed, run.py runs it on a side, compare.py tells the differences, allow.py
knows those that docs/differences.md gives a reason for, shrink.py makes a program small.
"""
