"""Starts and stops the two servers, each on free ports of the loopback, and waits until they are ready."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import procstat

HOST = "127.0.0.1"
READY_TIMEOUT = 60
STOP_TIMEOUT = 30


# Without proxies: an http_proxy in the environment is not for the loopback.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerFailed(Exception):
    pass


def free_ports(count):
    """Ports nobody listens on; held together while they are picked, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind((HOST, 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def post(url, data=b"", timeout=60):
    request = urllib.request.Request(url, data=data, method="POST")
    with DIRECT.open(request, timeout=timeout) as answer:
        return answer.read()


class Server:
    """One server process. start returns the seconds until it was ready, stop those until it had ended."""

    def __init__(self, name, command, environment, repository, log, flags=()):
        self.name = name
        self.http, self.grpc, self.metrics = free_ports(3)
        self.command = list(command) + [
            f"--model-repository={repository}",
            f"--http-address={HOST}",
            f"--http-port={self.http}",
            f"--grpc-address={HOST}",
            f"--grpc-port={self.grpc}",
            f"--metrics-address={HOST}",
            f"--metrics-port={self.metrics}",
            *flags,
        ]
        self.environment = environment
        self.log = pathlib.Path(log)
        self.process = None
        self.crashes = 0
        self.family = []  # its processes when they were last looked at

    @property
    def pid(self):
        return self.process.pid

    @property
    def http_address(self):
        return f"{HOST}:{self.http}"

    @property
    def grpc_address(self):
        return f"{HOST}:{self.grpc}"

    def url(self, path):
        return f"http://{self.http_address}{path}"

    def start(self):
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            begin = time.perf_counter()
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_ready(begin + READY_TIMEOUT)
        except BaseException:
            self.stop()
            raise
        return time.perf_counter() - begin

    def _wait_ready(self, deadline):
        while time.perf_counter() < deadline:
            if self.process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with {self.process.returncode} at start: {self.last_words()}")
            if self.is_ready():
                return
            time.sleep(0.001)
        raise ServerFailed(f"{self.name} was not ready in {READY_TIMEOUT} s: {self.last_words()}")

    def last_words(self):
        """The end of the log, for the report."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "its log is empty"

    def is_ready(self):
        try:
            with DIRECT.open(self.url("/v2/health/ready"), timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def restart_if_dead(self):
        """True when the server had died. Its death is the server's result, not the end of the comparison."""
        if self.alive():
            return False
        self.crashes += 1
        _end_orphans(self.family)
        self.start()
        return True

    def stop(self):
        if self.process is None:
            return 0.0
        if self.process.poll() is None:
            self.family = procstat.tree(self.pid)
        begin = time.perf_counter()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        took = time.perf_counter() - begin
        _end_orphans(self.family)
        self.process = None
        return took

    def cpu_seconds(self):
        self.family = procstat.tree(self.pid) or self.family
        return procstat.cpu_ticks(self.family) * procstat.TICK_SECONDS


def _end_orphans(family):
    """Kills what a server left behind; pid and start time together name a process for sure."""
    deadline = time.perf_counter() + 5
    known = {(stat.pid, stat.start) for stat in family}
    while True:
        left = [stat for stat in procstat.read_all() if (stat.pid, stat.start) in known]
        if not left:
            return
        if time.perf_counter() > deadline:
            for stat in left:
                os.kill(stat.pid, signal.SIGKILL)
            return
        time.sleep(0.01)


class Launcher:
    """Makes servers of one kind; each gets a copy of its repository, since Python leaves caches beside model.py."""

    def __init__(self, name, command, environment, models, work):
        self.name, self.command, self.environment = name, command, environment
        self.models, self.work = pathlib.Path(models), pathlib.Path(work)

    def server(self, repository, flags=()):
        copy = self.work / self.name / repository
        shutil.rmtree(copy, ignore_errors=True)
        source = self.models / repository
        shutil.copytree(source if source.is_dir() else self.work / "generated" / repository, copy)
        log = self.work / "logs" / f"{self.name}-{repository}.log"
        return Server(self.name, self.command, self.environment, copy, log, flags)

    def empty(self):
        """A server without a model."""
        copy = self.work / self.name / "empty"
        copy.mkdir(parents=True, exist_ok=True)
        return Server(
            self.name,
            self.command,
            self.environment,
            copy,
            self.work / "logs" / f"{self.name}-empty.log",
        )
