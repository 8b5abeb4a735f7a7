"""A line for each case that a test of scripts/qa.sh ran, in the file $QA_CASES.

As sitecustomize it watches unittest in scripts that are tests, as a plugin
(PYTEST_PLUGINS=sitecustomize) pytest. A line is `pass`, `fail` or `skip`, a
blank, and the name of the case.
"""

import os
import sys


def note(word, name):
    with open(os.environ["QA_CASES"], "a") as f:
        f.write(f"{word} {name}\n")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        word = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
        note(word, report.nodeid)


def watch():
    import unittest

    def watched(method, word):
        original = getattr(unittest.TestResult, method)

        def add(self, test, *args, **kwargs):
            if word:
                note(word, test.id())
            elif args[1] is not None:  # a part of a case, and what went wrong
                note("fail", args[0].id())
            return original(self, test, *args, **kwargs)

        setattr(unittest.TestResult, method, add)

    for method, word in (
        ("addSuccess", "pass"),
        ("addFailure", "fail"),
        ("addError", "fail"),
        ("addSkip", "skip"),
        ("addSubTest", ""),
    ):
        watched(method, word)


def has_cases(script):
    try:
        with open(script, errors="replace") as f:
            return script.endswith(".py") and "unittest.main(" in f.read()
    except OSError:
        return False


if os.environ.get("QA_CASES") and any(a == "unittest" or has_cases(a) for a in sys.orig_argv[1:]):
    watch()
