"""Helpers of scripts that start servers."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Optional

DEFAULT_LOG_FORMAT = "%(asctime)s - %(levelname)8s - %(process)8d - %(threadName)s - %(name)s: %(message)s"

_LOGGER = logging.getLogger(__name__)


def find_free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def search_warning_on_too_verbose_log_level(logs: str) -> Any:
    """Finds the warning about verbose logs."""
    return re.search(r"Triton Inference Server is running with enabled verbose logs.*It may affect inference", logs)


def get_current_container_version() -> Optional[str]:
    """The version of NVIDIA's container that this runs in, None outside of one."""
    found = os.environ.get("NVIDIA_PYTORCH_VERSION") or os.environ.get("NVIDIA_TENSORFLOW_VERSION")
    return found.split("-")[0] if found else None


def verify_docker_image_in_readme_same_as_tested(readme_path: Any, image_name_with_version: str) -> None:
    """Raises AssertionError when a text names another version of an image."""
    name = re.escape(image_name_with_version.rpartition(":")[0].rpartition("/")[2])
    for found in re.finditer(rf"[\w/.:-]+/{name}:[\w.-]+", pathlib.Path(readme_path).read_text()):
        assert found[0] == image_name_with_version, f"{found[0]} != {image_name_with_version}"


class ProcessMonitoring:
    """Logs the state of a process when asked to."""

    def __init__(
        self,
        pid: int,
        logger: Optional[logging.Logger] = None,
        loglevel: int = logging.INFO,
        remove_color: bool = False,
    ) -> None:
        """``pid`` is the process."""
        self._pid = pid
        self._logger = logger or _LOGGER
        self._loglevel = loglevel
        self._custom: list[Callable[[int], None]] = []

    def register_custom_monitor(self, custom_monitor: Callable[[int], None]) -> None:
        """Adds a function that is called with the process id."""
        self._custom.append(custom_monitor)

    def dump_state(self) -> None:
        """Logs whether the process lives, and calls what was registered."""
        try:
            os.kill(self._pid, 0)
            self._logger.log(self._loglevel, "process %d is alive", self._pid)
        except OSError:
            self._logger.log(self._loglevel, "process %d is gone", self._pid)
        for monitor in self._custom:
            monitor(self._pid)

    @property
    def children(self) -> list[Any]:
        """Processes below this one; needs psutil."""
        import psutil

        return list(psutil.Process(self._pid).children(recursive=True))


class ProcessMonitoringThread:
    """Logs the state of a process from time to time."""

    def __init__(self, monitoring: ProcessMonitoring, interval: float = 60) -> None:
        """``interval`` is in seconds."""
        self._monitoring = monitoring
        self._interval = interval
        self._done = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Begins."""
        self._done.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> ProcessMonitoringThread:
        """Begins."""
        self.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        """Ends."""
        self.stop()

    def _run(self) -> None:
        while True:
            self._monitoring.dump_state()
            if self._done.wait(self._interval):
                return


def _popen() -> Any:
    """psutil's Popen, whose objects know their children, where it can be had."""
    try:
        import psutil
    except ImportError:
        return subprocess.Popen
    return psutil.Popen


class ScriptThread(threading.Thread):
    """Runs a command on a thread and keeps its output."""

    def __init__(self, cmd: Any, workdir: Any = None, **kwargs: Any) -> None:
        """``cmd`` is a list of arguments."""
        super().__init__(daemon=True, **kwargs)
        self._cmd = cmd
        self._workdir = workdir
        self._flag: Optional[threading.Event] = None
        self._lines: list[str] = []
        self.returncode: Optional[int] = None
        self._process: Optional[subprocess.Popen[str]] = None

    def __enter__(self) -> ScriptThread:
        """Starts it and waits until the process runs."""
        flag = threading.Event()
        self.start(flag)
        flag.wait()
        return self

    def __exit__(
        self, exc_type: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]
    ) -> None:
        """Stops it."""
        self.stop()

    def start(self, flag: Optional[threading.Event] = None) -> None:
        """Starts; ``flag`` is set when the process runs."""
        self._flag = flag
        super().start()

    def stop(self) -> None:
        """Sends SIGINT and waits."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.join()

    def run(self) -> None:
        """Runs the command to its end."""
        with _popen()(
            self._cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self._workdir
        ) as process:
            self._process = process
            if self._flag is not None:
                self._flag.set()
            assert process.stdout is not None
            for line in process.stdout:
                self._lines.append(line)
        self.returncode = process.returncode

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return "".join(self._lines)

    @property
    def process(self) -> Optional[subprocess.Popen[str]]:
        """The process."""
        return self._process
