"""`neso serve FILE` and `neso config init FILE`, for the tests of all frameworks."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading

from server import BINARY, free_port


@contextlib.contextmanager
def serving(*paths, options=()):
    """Serves paths without a repository; gives a function of a URL path, and what was printed: (configuration,
    command line) for each model."""
    port = free_port()
    process = subprocess.Popen(
        [
            BINARY, "serve", *paths, f"--http-port={port}", "--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false",
            f"--python={sys.executable}", *options,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    bound = threading.Timer(400, process.kill)  # a server that prints nothing must not hang the tests
    bound.start()
    log, found, config = [], [], None
    try:
        for line in process.stdout:
            log.append(line)
            if line.startswith("# the configuration of "):
                config = []
            elif line.startswith("# call it:"):
                found.append(("".join(config), next(process.stdout)))
                config = None
                if len(found) == len(paths):
                    break
            elif config is not None:
                config.append(line)
        assert len(found) == len(paths), "".join(log)
        yield found
    finally:
        bound.cancel()
        process.terminate()
        process.stdout.read()
        process.stdout.close()
        assert process.wait(120) == 0, "".join(log)


def call(line):
    """What the printed command line answers."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=180, check=True)
    return json.loads(done.stdout)


def init(path, *options):
    """What `neso config init` writes for a file."""
    done = subprocess.run(
        [BINARY, "config", "init", path, "--output=-", f"--python={sys.executable}", *options],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def one_file_is_served(path, expect, options=()):
    """The file at path is served without a configuration: what is printed names expect, the printed call works, and
    config init writes the same."""
    with serving(path, options=options) as ((config, line),):
        for text in expect:
            assert text in config, config
        answer = call(line)
        assert answer.get("outputs"), answer
        assert all(o["data"] for o in answer["outputs"]), answer
    written = init(path, *[o for o in options if "pickle" in o])
    for text in expect:
        assert text in written, written
    return answer
