"""What servers log while no test runs belongs to the next one: conftest.py keeps it."""

from __future__ import annotations

import sys
import threading

from conftest import Log


class Output:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def test_a_line_between_two_tests_waits(monkeypatch):
    log, output = Log(), Output()
    monkeypatch.setattr(sys, "stderr", output)
    log("between")
    assert output.text == ""
    log.runs(True)
    log("during")
    assert output.text == "between\nduring\n"
    log.runs(False)
    thread = threading.Thread(target=log, args=("after",))
    thread.start()
    thread.join()
    assert output.text == "between\nduring\n"
    log.runs(True)
    assert output.text == "between\nduring\nafter\n"
