#!/usr/bin/env python3
"""Language models: tokens a second of `genai` with one stream and with several, beside a bare loop over the library's Python API.

`python bench/operate/language.py` makes networks with random weights below build/bench/language, measures by turns, and prints a table. It
needs bin/neso and, in this interpreter, onnxruntime-genai, onnx and numpy. `--paged` measures models for the library's own engine too.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench")]
import servers  # noqa: E402

WORK = ROOT / "build" / "bench" / "language"
PROMPT = (
    "A server keeps models in memory and answers requests. Each request has a prompt, and the model goes on with it"
)
SIZES = {
    "tiny (0.6 MB)": [],
    "medium (90 MB)": ["--hidden=512", "--layers=8", "--heads=8", "--vocabulary=4000"],
    "large (430 MB)": ["--hidden=1024", "--layers=10", "--heads=16", "--vocabulary=8000"],
}


def make(name, options):
    directory = WORK / "models" / name / "1"
    if not (directory / "genai_config.json").exists():
        command = [sys.executable, ROOT / "examples" / "export_tiny_llm.py", directory, "--context=512", *options]
        subprocess.run(command, check=True)
    return directory


def library(directory, tokens, texts):
    """Tokens a second of the library by itself, one text after the other. Runs in a process of its own."""
    import onnxruntime_genai as og

    model = og.Model(str(directory))
    ids = og.Tokenizer(model).encode(PROMPT)
    took = 0.0
    for number in range(texts + 1):
        begin = time.perf_counter()
        params = og.GeneratorParams(model)
        params.set_search_options(do_sample=False, max_length=len(ids) + tokens, min_length=len(ids) + tokens)
        generator = og.Generator(model, params)
        generator.append_tokens(ids)
        while not generator.is_done():
            generator.generate_next_token()
        if number > 0:  # the first one warms up
            took += time.perf_counter() - begin
    return tokens * texts / took


def stream(server, model, tokens, texts):
    """One client: a text after the other."""
    connection = http.client.HTTPConnection(servers.HOST, server.http)
    body = json.dumps({"text_input": PROMPT, "max_tokens": tokens, "ignore_eos": True})
    for _ in range(texts):
        connection.request("POST", f"/v2/models/{model}/generate", body)
        reply = json.loads(connection.getresponse().read())
        assert reply["num_output_tokens"] == tokens, reply
    connection.close()


def served(server, model, tokens, texts, clients):
    stream(server, model, tokens, 1)
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda _: stream(server, model, tokens, texts), range(clients)))
    return clients * texts * tokens / (time.perf_counter() - begin)


def measure(server, name, directory, o):
    """Medians over rounds, in each of which all are measured once, forwards and backwards by turns."""

    def loop():
        command = [sys.executable, __file__, f"--loop={directory}", f"--tokens={o.tokens}", f"--texts={o.texts}"]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    runs = {"library": loop} | {n: lambda n=n: served(server, name, o.tokens, o.texts, n) for n in (1, o.streams)}
    seen = {key: [] for key in runs}
    for number in range(o.rounds):
        for key in list(runs)[:: 1 if number % 2 == 0 else -1]:
            seen[key].append(runs[key]())
    return {key: statistics.median(values) for key, values in seen.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tokens", type=int, default=100, help="of each text")
    p.add_argument("--texts", type=int, default=4, help="of each stream in a round")
    p.add_argument("--streams", type=int, default=8)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="a part of the model's name")
    p.add_argument("--paged", action="store_true")
    p.add_argument("--loop", help=argparse.SUPPRESS)
    o = p.parse_args()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    if o.loop:
        print(library(o.loop, o.tokens, o.texts))
        return
    models = {}
    for title, options in SIZES.items():
        if o.only in title:
            models[title] = title.split()[0], options
            if o.paged:
                models[f"{title}, paged"] = title.split()[0] + "_paged", [*options, "--paged"]
    directories = {title: make(name, options) for title, (name, options) in models.items()}
    environment = {**os.environ, "NESO_PYTHON": sys.executable}
    server = servers.Server("neso", [ROOT / "bin" / "neso", "serve"], environment, WORK / "models", WORK / "server.log")
    server.start()
    result = {}
    try:
        print(f"| model | library, 1 | neso, 1 | of the library's | neso, {o.streams} | times the library's |")
        print("|---|---|---|---|---|---|")
        for title, directory in directories.items():
            r = result[title] = measure(server, models[title][0], directory, o)
            bare, one, many = r["library"], r[1], r[o.streams]
            print(
                f"| {title} | {bare:,.0f} | {one:,.0f} | {one / bare:.2f} | {many:,.0f} | {many / bare:.2f} |",
                flush=True,
            )
    finally:
        server.stop()
    (WORK / "language.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
