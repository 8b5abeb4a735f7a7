"""Texts of different length through the ensembles of examples/minilm: what shares a batch, and what filling up costs."""

import json
import pathlib
import random
import shutil

import engines
import load
import measure
import servers
from scenarios import Scenario

SCRIPT = pathlib.Path(__file__).with_name("sentences.lua")
CONNECTIONS = 32
# Ensembles, and how their tokenizer fills up. embed and embed_ragged are those of the repository.
WAYS = {
    "filled up to a multiple of 16": ("embed", "16"),
    "filled up to the longest of the batch": ("embed_batch", "batch"),
    "not filled up, equal lengths share batches": ("embed_exact", "request"),
    "ragged": ("embed_ragged", "request"),
}
SENTENCES = [
    Scenario(f"MiniLM sentences, {way}, c{CONNECTIONS}", "sentences_http", CONNECTIONS, model, "", 0, repository="sentences", seconds=2)
    for way, (model, _) in WAYS.items()
]  # fmt: skip


def generate():
    """The repository: the ensembles, each with tokenizer and encoder of its own, so that their statistics are apart."""
    folder = engines.GENERATED / "sentences"
    shutil.rmtree(folder, ignore_errors=True)
    if not engines.ENCODER.exists():
        return
    for name in ("embed_ragged", "embed_tokenize_ragged", "embed_encode_ragged", "embed_pool"):
        shutil.copytree(engines.ENCODER / name, folder / name)
    for ensemble, pad in WAYS.values():
        if ensemble == "embed_ragged":
            continue
        copies = {part: part.replace("embed", ensemble) for part in ("embed_tokenize", "embed_encode")}
        for part, name in {**copies, "embed": ensemble}.items():
            shutil.copytree(engines.ENCODER / part, folder / name)
            config = folder / name / "config.pbtxt"
            text = config.read_text().replace('string_value: "16"', f'string_value: "{pad}"')
            for old, new in copies.items():
                text = text.replace(f'"{old}"', f'"{new}"')
            config.write_text(text)


def bodies():
    """Requests of one text each: one to eight sentences, 8 to 120 word pieces."""
    lines = (engines.ROOT / "examples" / "sentiment_corpus.tsv").read_text(encoding="utf-8").splitlines()
    chance = random.Random(3)
    for _ in range(256):
        text = " ".join(line.split("\t")[1] for line in chance.choices(lines, k=chance.randint(1, 8)))
        tensor = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
        outputs = [{"name": "EMBEDDING", "parameters": {"binary_data": True}}]
        yield json.dumps({"inputs": [tensor], "outputs": outputs}).encode()


class Runner(measure.Runner):
    """wrk with a file of bodies. That answers are right is a test's affair (e2e/frameworks/test_minilm.py)."""

    def __init__(self, scenario, server, model, work):
        self.scenario, self.server, self.side = scenario, server, measure.Side(model)
        self.file = pathlib.Path(work) / "sentences.txt"

    def url(self):
        return self.server.url(f"/v2/models/{self.side.model}/infer")

    def check(self):
        all_bodies = list(bodies())
        self.file.write_bytes(b"\n".join(all_bodies) + b"\n")
        servers.post(self.url(), all_bodies[0])

    def warm_up(self):
        self.generate(1)

    def generate(self, seconds):
        command = load.wrk_command(self.url(), self.file, {}, self.scenario.connections, max(1, round(seconds)))
        self.side.command = [str(SCRIPT) if part == str(load.SCRIPT) else part for part in command]
        return load.run_and_parse(self.side.command, seconds)
