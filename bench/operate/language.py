#!/usr/bin/env python3
"""Language models: tokens a second of `genai` with one stream and with several, beside a bare loop over the library's Python API.

`python bench/operate/language.py` makes networks with random weights below build/bench/language, measures by turns, and prints a table.
Each round has a server and a loop of its own, text by text in turn: a process may be a tenth faster or slower than another of its kind
for as long as it lives, by where its weights have come to lie. The spread is that of the rounds, the middle half of them.

It needs bin/neso and, in this interpreter, onnxruntime-genai, onnx and numpy. `--paged` measures models for the library's own engine too.
"""

import argparse
import concurrent.futures
import contextlib
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
NESO = ROOT / "bin" / "neso"
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


def library(directory, tokens):
    """A bare loop over the library: for each line that it reads it writes a text, and says how many seconds that took."""
    import onnxruntime_genai as og

    model = og.Model(str(directory))
    ids = og.Tokenizer(model).encode(PROMPT)
    for _ in sys.stdin:
        begin = time.perf_counter()
        params = og.GeneratorParams(model)
        params.set_search_options(do_sample=False, max_length=len(ids) + tokens, min_length=len(ids) + tokens)
        generator = og.Generator(model, params)
        generator.append_tokens(ids)
        while not generator.is_done():
            generator.generate_next_token()
        print(time.perf_counter() - begin, flush=True)


@contextlib.contextmanager
def bare(directory, o):
    """What has the loop write a text, and returns its tokens a second. The process is of its own, and rests between them."""
    command = [sys.executable, __file__, f"--loop={directory}", f"--tokens={o.tokens}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def loop():
            process.stdin.write("\n")
            process.stdin.flush()
            return o.tokens / float(process.stdout.readline())

        yield loop


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
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda _: stream(server, model, tokens, texts), range(clients)))
    return clients * texts * tokens / (time.perf_counter() - begin)


@contextlib.contextmanager
def serving(name):
    """A server of one of the models."""
    flags = ["--model-control-mode=explicit", f"--load-model={name}"]
    environment = {**os.environ, "NESO_PYTHON": sys.executable}
    server = servers.Server("neso", [NESO, "serve"], environment, WORK / "models", WORK / "server.log", flags)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def once(name, directory, o, loop_first):
    """Tokens a second of one pair of processes."""
    with contextlib.ExitStack() as stack:
        if loop_first:
            loop = stack.enter_context(bare(directory, o))
            loop()
        server = stack.enter_context(serving(name))
        served(server, name, o.tokens, 1, 1)
        if not loop_first:
            loop = stack.enter_context(bare(directory, o))
            loop()
        one, alone = [], []
        for _ in range(o.texts):
            one.append(served(server, name, o.tokens, 1, 1))
            alone.append(loop())
        many = served(server, name, o.tokens, o.texts, o.streams) if o.streams > 1 else 0
        return statistics.median(alone), statistics.median(one), many


def measure(name, directory, o):
    """Medians over rounds, and between what the middle half of them has one stream by the loop."""
    seen = [once(name, directory, o, number % 2 == 0) for number in range(o.rounds)]
    shares = sorted(one / alone for alone, one, _ in seen)
    spread = shares[len(shares) // 4], shares[-1 - len(shares) // 4]
    return [*(statistics.median(values) for values in zip(*seen)), *spread]


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
        library(o.loop, o.tokens)
        return
    models = {}
    for title, options in SIZES.items():
        if o.only in title:
            models[title] = title.split()[0], options
            if o.paged:
                models[f"{title}, paged"] = title.split()[0] + "_paged", [*options, "--paged"]
    directories = {title: make(name, options) for title, (name, options) in models.items()}
    result = {}
    print(f"| model | library, 1 | neso, 1 | of the library's | neso, {o.streams} | times the library's |")
    print("|---|---|---|---|---|---|")
    for title, directory in directories.items():
        alone, one, many, low, high = result[title] = measure(models[title][0], directory, o)
        print(
            f"| {title} | {alone:,.0f} | {one:,.0f} | {one / alone:.2f} ({low:.2f} to {high:.2f}) | {many:,.0f} | {many / alone:.2f} |",
            flush=True,
        )
    (WORK / "language.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
