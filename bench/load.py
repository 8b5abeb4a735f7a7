"""Runs the load generators, neso perf, wrk for HTTP and h2load for gRPC, and reads what they print."""

import csv
import json
import os
import pathlib
import re
import resource
import subprocess
from dataclasses import dataclass

SCRIPT = pathlib.Path(__file__).resolve().parent / "request.lua"
GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"
GRPC_STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"


@dataclass
class Sample:
    """What one run of a load generator saw."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    max_us: float
    errors: int
    generator_cores: float = 0.0
    cpu_us: float = 0.0  # of the server, a request; filled in by the caller

    @property
    def rps(self):
        return self.requests / self.seconds if self.seconds else 0.0


class LoadError(Exception):
    pass


def wrk_command(url, body, headers, connections, seconds):
    threads = 1 if connections < 64 else 2
    command = [
        "wrk",
        f"-t{threads}",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "60s",
        "-s",
        str(SCRIPT),
        url,
    ]
    command += ["--", str(body)]
    for name, value in headers.items():
        command += [name, value]
    return command


def h2load_command(url, body, headers, connections, streams, requests, log, h1=False):
    command = [
        "h2load",
        "-n",
        str(requests),
        "-c",
        str(connections),
        "-m",
        str(streams),
        "-t",
        "1",
    ]
    command += [
        "--connection-inactivity-timeout",
        "60",
        "--log-file",
        str(log),
        "-d",
        str(body),
    ]
    if h1:
        command.append("--h1")
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    return command + [url]


def parse_wrk(text):
    match = re.search(r"^RESULT (.*)$", text, re.MULTILINE)
    if not match:
        raise LoadError(f"wrk printed no result:\n{text}")
    values = dict(part.split("=") for part in match[1].split())
    numbers = {name: int(value) for name, value in values.items()}
    failed = sum(numbers[name] for name in ("connect", "read", "write", "status", "timeout"))
    return Sample(
        # wrk counts an answer with an error status as a request; it is none of ours.
        requests=max(numbers["requests"] - numbers["status"], 0),
        seconds=numbers["duration_us"] / 1e6,
        p50_us=numbers["p50_us"],
        p99_us=numbers["p99_us"],
        max_us=numbers["max_us"],
        errors=failed,
    )


UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def parse_h2load(text):
    """Duration, requests asked for, answered with 2xx, and bytes of DATA frames or bodies received."""
    finished = re.search(r"^finished in ([\d.]+)(us|ms|s|m)", text, re.MULTILINE)
    total = re.search(r"^requests: (\d+) total", text, re.MULTILINE)
    good = re.search(r"^status codes: (\d+) 2xx", text, re.MULTILINE)
    data = re.search(r"^traffic: .*\((\d+)\) data", text, re.MULTILINE)
    if not (finished and total and good and data):
        raise LoadError(f"h2load printed no result:\n{text}")
    return (
        float(finished[1]) * UNITS[finished[2]],
        int(total[1]),
        int(good[1]),
        int(data[1]),
    )


def percentile(ordered, share):
    """Nearest-rank percentile of an ascending list."""
    if not ordered:
        return 0.0
    rank = max(0, min(len(ordered) - 1, int(share * len(ordered) + 0.999999) - 1))
    return float(ordered[rank])


def parse_h2load_log(lines):
    """Ascending latencies in microseconds out of h2load's request log (start, status, duration)."""
    latencies = []
    for line in lines:
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].startswith("2"):
            latencies.append(int(fields[2]))
    latencies.sort()
    return latencies


def answered(total, good, data, answer_bytes):
    """Requests that got a whole answer.

    A gRPC failure is HTTP status 200 with the code in a trailer, which h2load takes for success. It has no
    message, so the bytes received tell how many calls were answered.
    """
    if answer_bytes <= 0:
        return good
    return min(good, total, data // answer_bytes)


def _run(command, timeout):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        raise LoadError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}\n{done.stdout}")
    return done.stdout, cpu


def run_wrk(url, body, headers, connections, seconds):
    return run_and_parse(wrk_command(url, body, headers, connections, seconds), seconds)


def run_and_parse(command, seconds):
    """Runs a generator that ends with the result line of request.lua."""
    text, cpu = _run(command, seconds + 120)
    sample = parse_wrk(text)
    sample.generator_cores = cpu / sample.seconds
    return sample


def run_h2load(url, body, headers, connections, streams, requests, log, answer_bytes, h1=False):
    if os.path.exists(log):
        os.unlink(log)  # h2load appends
    text, cpu = _run(h2load_command(url, body, headers, connections, streams, requests, log, h1), 600)
    seconds, total, good, data = parse_h2load(text)
    with open(log, encoding="ascii") as file:
        latencies = parse_h2load_log(file)
    whole = answered(total, good, data, answer_bytes)
    return Sample(
        requests=whole,
        seconds=seconds,
        p50_us=percentile(latencies, 0.50),
        p99_us=percentile(latencies, 0.99),
        max_us=latencies[-1] if latencies else 0,
        errors=total - whole,
        generator_cores=cpu / seconds,
    )


def answer_size(url, body, headers, log, h1=False):
    """Bytes of one answer as h2load counts them."""
    text, _ = _run(h2load_command(url, body, headers, 1, 1, 1, log, h1), 120)
    _, _, good, data = parse_h2load(text)
    if good != 1 or data == 0:
        raise LoadError(f"no answer from {url}:\n{text}")
    return data


def perf_command(binary, address, protocol, model, data, connections, seconds=None, requests=None):
    """One window of so many seconds, or exactly so many requests; binary is the command's first words."""
    command = [
        *binary,
        "-m",
        model,
        "-u",
        address,
        "-i",
        "grpc" if protocol == "grpc" else "http",
        "--input-data",
        str(data),
    ]
    command += ["--concurrency-range", str(connections)]
    if protocol == "json":
        command += ["--input-tensor-format", "json", "--output-tensor-format", "json"]
    if requests:
        return [*command, "--request-count", str(requests)]
    return [*command, "-p", str(round(seconds * 1000)), "-r", "1"]


UNSTABLE = 2  # one window alone is never stable


def parse_perf(text):
    """A report of neso perf as JSON."""
    [x] = json.loads(text)["results"]
    latency = x["latency_us"]
    return Sample(
        requests=x["requests"],
        seconds=x["measured_seconds"],
        p50_us=latency["p50"],
        p99_us=latency["p99"],
        max_us=latency["max"],
        errors=x["failed"],
        generator_cores=x.get("client_cpu_us_per_request", 0.0) * x["requests"] / 1e6 / (x["measured_seconds"] or 1),
    )


def run_perf(command, seconds):
    done = subprocess.run(
        [*command, "--format=json"], capture_output=True, text=True, timeout=seconds + 120, check=False
    )
    if done.returncode not in (0, UNSTABLE):
        raise LoadError(f"{command[0]} perf ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return parse_perf(done.stdout)


def run_analyzer(command, seconds, file):
    """The real perf_analyzer; how many requests it counted stands in its text alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of one window it writes no file: three that need not agree.
    command = [*command[: command.index("-r")], "-r", "3", "-s", "999", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * seconds + 120, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise LoadError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    with open(file, encoding="utf-8") as opened:
        [values] = csv.DictReader(opened)
    rate = float(values["Inferences/Second"])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    requests = int(re.search(r"Request count: (\d+)", done.stdout)[1])
    return Sample(
        requests=requests,
        seconds=requests / rate,
        p50_us=float(values["p50 latency"]),
        p99_us=float(values["p99 latency"]),
        max_us=0.0,
        errors=0,
        generator_cores=cpu * rate / requests,
    )
