"""Lines of the log: their form, files that change, texts that are not plain."""

from __future__ import annotations

import ctypes as c
import re

from library import Library, P


def log_lines(lib: Library, home) -> None:
    """Lines of the log: their form, files that change, texts that are not plain."""
    o = P(lib.value_first("ServerOptionsNew"))
    first, second = home / "first.log", home / "second.log"

    def lines(question, path):
        for line in path.read_text(errors="backslashreplace").splitlines() if path.exists() else []:
            line = re.sub(r"^([IWE])(\d{4}) \d\d:\d\d:\d\d\.\d{6} \d+ ", r"\1DATE TIME PID ", line)
            line = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ([IWE]) ?\d+ ?", r"ISODATE \1 PID ", line)
            line = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "ISODATE", line)
            line = re.sub(r"(ISODATE[ \w\]]*?)\d{2,}", r"\1PID", line)
            lib.say(question, line)
        path.unlink(missing_ok=True)

    def message(level, file, line, what):
        lib.ask(
            f"message {what!r}", "LogMessage", level, file, line, c.c_char_p(what) if isinstance(what, bytes) else what
        )

    first.write_text("what was there\n")
    lib.must("ServerOptionsSetLogFile", o, str(first))
    for name in ("LogInfo", "LogWarn", "LogError"):
        lib.must("ServerOptionsSet" + name, o, True)
    lib.must("ServerOptionsSetLogVerbose", o, 0)
    lib.must("ServerOptionsSetLogFormat", o, 0)
    message(0, "a/b/c.cc", 12, "plain")
    message(1, "c.cc", -3, "a negative line")
    message(2, "/a/b/", 0, "a folder for a file")
    for what in (
        "tab\tand\r\nlines\nand \"quotes\" 'q' \\ back",
        "\x01\x1b[31mred\x7f",
        "ä € 😀",
        b"\xff\xfe bytes",
        "%s %d %n",
        "\n",
        " ",
    ):
        message(0, "f.cc", 1, what)
    lines("default", first)
    lib.must("ServerOptionsSetLogFile", o, str(first))
    lib.must("ServerOptionsSetLogFormat", o, 1)
    for level in (0, 1, 2):
        message(level, "a/b/c.cc", 12, f"level {level}")
    lib.must("ServerOptionsSetLogVerbose", o, 3)
    message(3, "a/b/c.cc", 12, "verbose")
    lib.must("ServerOptionsSetLogVerbose", o, 0)
    lib.must("ServerOptionsSetLogFile", o, str(second))
    message(0, "c.cc", 1, "into the second")
    lines("first", first)
    lines("second", second)
    lib.must("ServerOptionsSetLogFile", o, str(first))
    lib.must("ServerOptionsSetLogFile", o, str(first))
    message(0, "c.cc", 1, "the same file again")
    lines("first", first)
    for format in (-1, 2, 99):
        lib.ask(f"format {format}", "ServerOptionsSetLogFormat", o, format)
    for verbose in (-1, 1, 2147483647, 0):
        lib.ask(f"verbose {verbose}", "ServerOptionsSetLogVerbose", o, verbose)
        lib.say(f"verbose {verbose}: enabled", lib("LogIsEnabled", 3))
    for level in (-1, 4, 99):
        lib.say(f"level {level}: enabled", lib("LogIsEnabled", level))
    lib.must("ServerOptionsSetLogFile", o, str(first))
    lib.must("ServerOptionsSetLogFormat", o, 0)
    other = P(lib.value_first("ServerOptionsNew"))
    message(0, "c.cc", 1, "with other options there")
    lib.must("ServerOptionsDelete", o)
    message(0, "c.cc", 1, "without the options")
    lib.must("ServerOptionsSetLogInfo", other, False)
    message(0, "c.cc", 1, "not any more")
    lib.must("ServerOptionsSetLogInfo", other, True)
    lib.ask("no file", "ServerOptionsSetLogFile", other, "")
    message(2, "c.cc", 1, "to the standard error")
    lib.must("ServerOptionsDelete", other)
    lines("first", first)


STORIES = [log_lines]
