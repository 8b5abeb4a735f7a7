"""Trying models out in the dashboard, in a real browser; the lines of programs that it writes are run."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import wave
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from chromium import browser
from repository import place
from server import ROOT, Server

HOSTILE = "it's$(id)&'m"  # a name that a URL has as it is
INPUTS = {  # name: datatype, elements as typed
    "<img src=x onerror=document.title='taken'>": ("INT64", "9007199254740993 -9223372036854775808"),
    'quo"te\\ \'; rm -rf "$HOME" `id`': ("STRING", '["$(id)", "\'\\"\\\\\\n`x`??/ \u202e%s"]'),
    "half": ("FP16", "0.1 -65504"),
    "truth": ("BOOL", "true false"),
    "float": ("FP32", "0.1 NaN"),
}
ECHO = """import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        import json
        self.config = json.loads(args["model_config"])
    def execute(self, requests):
        answers = []
        for r in requests:
            out = []
            for i, o in zip(self.config["input"], self.config["output"]):
                t = pb_utils.get_input_tensor_by_name(r, i["name"])
                if t is not None:
                    out.append(pb_utils.Tensor(o["name"], t.as_numpy()))
            answers.append(pb_utils.InferenceResponse(out))
        return answers
"""


def echo(repo, name, inputs, extra=""):
    """A model that gives its inputs back: name, (datatype, dims, more of the configuration)."""
    text = 'backend: "python"\n' + extra
    for kind in ("input", "output"):
        for tensor, (datatype, dims, more) in inputs.items():
            shown = json.dumps(tensor if kind == "input" else f"{tensor} again")
            text += f"{kind} {{ name: {shown} data_type: TYPE_{datatype} dims: [ {dims} ] {more if kind == 'input' else ''} }}\n"
    place(repo / name, {"config.pbtxt": text, "1/model.py": ECHO})


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    repo = tmp_path_factory.mktemp("models")
    for name in ("add_sub", "digits", "words"):
        (repo / name).symlink_to(ROOT / "examples" / "models" / name)
    echo(repo, HOSTILE, {name: (datatype, "-1", "") for name, (datatype, _) in INPUTS.items()})
    echo(
        repo,
        "media",
        {
            "image": ("UINT8", "3, 8, 16", "format: FORMAT_NCHW optional: true"),
            "sound": ("FP32", "-1", "optional: true"),
            "file": ("STRING", "1", "optional: true"),
        },
    )
    with Server(repo) as s:
        yield s


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    b = browser(tmp_path_factory.mktemp("browser"))
    yield Page(b)
    b.quit()


class Page:
    """The page of a model, as a user has it."""

    def __init__(self, b):
        self.b = b
        b.set_window_size(1200, 1400)

    def open(self, server, model):
        from urllib.parse import quote

        self.b.get("about:blank")
        self.b.get(f"http://127.0.0.1:{server.metrics_port}/dashboard/#/models/{quote(model, safe='')}")
        self.wait(lambda: self.all(".try form"))

    def wait(self, until):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.b, 60).until(lambda _: until())

    def click(self, element, done):
        """Click until it is done: where the page above grows while the mouse is on its way, that meets something else."""
        from selenium.common.exceptions import ElementClickInterceptedException

        def clicked():
            if not done():
                with contextlib.suppress(ElementClickInterceptedException):
                    element.click()
            return done()

        self.wait(clicked)

    def all(self, css, within=None):
        return (within or self.b).find_elements("css selector", css)

    def one(self, css, within=None):
        return self.all(css, within)[0]

    def field(self, tensor):
        return next(f for f in self.all(".try-input") if self.one("bdi", f).text == shown(tensor))

    def give(self, field, mode):
        self.pick(self.one(".try-row select", field), mode)

    def pick(self, select, option):
        from selenium.webdriver.support.ui import Select

        Select(select).select_by_visible_text(option)

    def labelled(self, label, within=None):
        found = next(e for e in self.all("label", within) if e.text.strip() == label)
        return self.b.find_element("id", found.get_attribute("for"))

    def type(self, area, text):
        area.clear()
        self.b.execute_script("arguments[0].value = arguments[1]", area, text)

    def send(self):
        button = self.one(".try button[type=submit]")
        self.b.execute_script("document.querySelector('.try-status').textContent = ''")  # which a click fills at once
        self.click(button, self.status)
        self.wait(lambda: button.is_enabled() and self.status() != "waiting")
        return self.status()

    def options(self):
        """Open what the form has beside the inputs."""
        self.click(self.one(".try-options summary"), lambda: self.one(".try-options").get_attribute("open") is not None)

    def status(self):
        return self.one(".try-status").text

    def output(self, name):
        return next(r for r in self.all(".try-result") if self.one("h4 bdi", r).text == name)

    def pixels(self, output, *at):
        """The size of the image that an output is shown as, and the colours of some of its pixels."""
        return self.b.execute_script(
            "const [c, at] = arguments; const colours = at.map(([x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]);"
            "return [[c.width, c.height], ...colours]",
            self.one("canvas", self.output(output)),
            at,
        )

    def button(self, text):
        return next(e for e in self.all(".try button") if e.text == text)

    def complaints(self):
        """What axe finds in the form and its answer."""
        axe = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
        if not axe.exists():
            print("accessibility is not looked at: axe is not installed (make web)")
            return []
        self.b.execute_script(axe.read_text())
        run = "axe.run(document.querySelector('#try')).then(r => done(r.violations.map(v => v.id + v.nodes[0].html)))"
        return self.b.execute_async_script(f"const done = arguments[0]; {run}")

    def cells(self, name):
        return [c.text for c in self.all("tbody bdi", self.output(name))]

    def lines(self):
        programs = {}
        for radio in self.all(".try-lines input[type=radio]"):
            self.click(radio, radio.is_selected)
            programs[radio.get_attribute("value")] = self.one(".try-code").get_attribute("textContent")
        return programs


def shown(text):
    """What the page shows of a name."""
    return "".join(f"\\u{ord(c):04x}" if c == "\u202e" else c for c in text)


@functools.cache
def missing(language):
    """Why a language's lines cannot be run, or nothing."""
    if language == "C++":
        if not shutil.which("g++"):
            return "there is no g++"
        program = "#include <curl/curl.h>\nint main() { return curl_easy_init() == nullptr; }\n"
        r = subprocess.run(
            ["g++", "-x", "c++", "-", "-lcurl", "-o", "/dev/null"], input=program, text=True, capture_output=True
        )
        return "" if r.returncode == 0 else "libcurl's headers are not there (Debian: libcurl4-openssl-dev)"
    tool = {"curl": "curl", "Go": "go", "Python": sys.executable}[language]
    return "" if shutil.which(tool) else f"there is no {tool}"


def run(tmp_path, language, text):
    """What the lines print, pasted into a file or a shell as they stand."""
    file = tmp_path / {"curl": "call.sh", "Python": "call.py", "Go": "call.go", "C++": "call.cpp"}[language]
    file.write_text(text + "\n")
    command, where = {
        "curl": (["bash", str(file)], tmp_path),
        "Python": ([sys.executable, str(file)], tmp_path),
        "Go": (
            ["sh", "-c", f"cd {ROOT} && go build -o {tmp_path}/called {file} && cd {tmp_path} && ./called"],
            tmp_path,
        ),
        "C++": (["sh", "-c", "g++ -std=c++17 -Wall -Wextra -Werror call.cpp -lcurl -o call && ./call"], tmp_path),
    }[language]
    # As `make build` compiles: what it has in Go's cache is not compiled anew, minutes on a busy machine.
    env = {"GOFLAGS": "-trimpath", **os.environ, "CGO_ENABLED": "0"}
    r = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, errors="replace", timeout=300)
    assert r.returncode == 0, (language, text, r.stdout, r.stderr)
    return r.stdout


def run_all(tmp_path, programs, languages=("curl", "Python", "Go", "C++")):
    """The output of the lines of each of these languages that can be run here."""
    assert list(programs) == ["curl", "Python", "Go", "C++"]
    can = {}
    for language in languages:
        if why := missing(language):
            print(f"the lines of {language} are not run: {why}")
        else:
            can[language] = programs[language]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(can, pool.map(lambda item: run(tmp_path, *item), can.items())))


def test_numbers_and_programs(served, page, tmp_path):
    page.open(served, "add_sub")
    page.type(page.one("textarea", page.field("INPUT0")), "1, 2 3.5")
    page.type(page.one("textarea", page.field("INPUT1")), "[[10, 20, 0.25]]")
    assert page.send().startswith("answered by version 1"), page.status()
    assert page.cells("OUTPUT0") == ["11", "22", "3.75"] and page.cells("OUTPUT1") == ["-9", "-18", "3.25"]
    out = run_all(tmp_path, page.lines())
    for language in ("curl", "C++"):
        if language in out:
            assert json.loads(out[language])["outputs"][0]["data"] == [11, 22, 3.75]
    if "Go" in out:
        assert out["Go"].splitlines()[0] == "OUTPUT0 [1,3] [11 22 3.75]"
    assert "OUTPUT0 [1, 3] [[11.   22.    3.75]]" in out["Python"]
    page.type(page.one("textarea", page.field("INPUT1")), "1 2 x")
    assert page.send() == 'INPUT1: element 3: expected a number, got "x"'
    page.type(page.one("textarea", page.field("INPUT1")), "1 2")
    assert "broadcast" in page.send()  # the model's own words: the shapes differ


def test_a_drawing_becomes_bars(served, page, tmp_path):
    from selenium.webdriver import ActionChains

    page.open(served, "digits")
    field = page.field("IMAGE")
    canvas = page.one("canvas", field)
    page.b.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    page.pick(page.labelled("Values", field), "0 to N")
    for _ in range(3):  # a browser that hardly gets a core draws other lines than it was told to
        canvas.send_keys("\ue017")  # Delete
        drag = ActionChains(page.b).move_to_element_with_offset(canvas, 0, -110).click_and_hold()
        drag.move_to_element_with_offset(canvas, 0, 0).move_to_element_with_offset(canvas, 0, 110).release().perform()
        assert page.send().startswith("answered by version 1"), page.status()
        rows = page.all("tbody tr", page.output("PROBABILITIES"))
        if page.one("th", rows[0]).text == "one":
            break
    assert page.one("th", rows[0]).text == "one" and len(rows) == 10
    meter = page.one("meter", rows[0])
    assert float(meter.get_attribute("value")) > 0.2 and "one: 0." in meter.get_attribute("aria-label")
    for language, out in run_all(tmp_path, page.lines(), ("curl", "Python")).items():
        assert ":1:one" in out, (language, out)
    # The same by keys alone.
    canvas.send_keys("\ue017")  # Delete
    assert page.one("[role=status]", field).text == "pen up at 50 %, 50 %"
    canvas.send_keys("\ue013" * 12 + " " + "\ue015" * 22)  # up, pen down, down
    assert page.one("[role=status]", field).text == "pen down at 50 %, 86 %"
    assert page.send().startswith("answered")
    assert page.one("th", page.one("tbody tr", page.output("PROBABILITIES"))).text == "one"


def test_a_stream(served, page, tmp_path):
    page.open(served, "words")
    page.type(page.one("textarea", page.field("text_input")), "one <b>two</b> 'three'\n")
    assert page.send().startswith("3 responses")
    assert [r.text for r in page.all(".try-responses li")] == [
        "text_output: one",
        "text_output: <b>two</b>",
        "text_output: 'three'",
    ]
    assert page.one(".try-text").text == "one<b>two</b>'three'"
    for language, out in run_all(tmp_path, page.lines(), ("curl", "Python", "Go")).items():
        words = [json.loads(e.removeprefix("data:"))["text_output"] for e in out.splitlines() if e]
        assert words == ["one", "<b>two</b>", "'three'"], language
    page.options()
    page.type(page.labelled("Parameters of the request"), '{"pause_ms": 100}')
    page.type(page.one("textarea", page.field("text_input")), "word " * 10_000)
    stop = page.one(".try-row button:nth-of-type(2)")
    page.click(page.one(".try button[type=submit]"), stop.is_enabled)
    page.click(stop, lambda: page.status().startswith("stopped after"))


def test_hostile_names_and_exact_values(served, page, tmp_path):
    page.open(served, HOSTILE)
    for name, (_, typed) in INPUTS.items():
        field = page.field(name)
        if "JSON" in page.one(".try-row select", field).text:
            page.give(field, "JSON")
        page.type(page.one("textarea", field), typed)
    assert page.send().startswith("answered by version 1"), page.status()
    assert page.b.title == f"Neso: {HOSTILE}", "a name has become markup"
    for name, (datatype, typed) in INPUTS.items():
        if datatype != "STRING":
            assert page.cells(f"{name} again") == typed.split()
    assert page.complaints() == []
    texts = json.loads(INPUTS['quo"te\\ \'; rm -rf "$HOME" `id`'][1])
    programs = page.lines()
    for language, out in run_all(tmp_path, programs).items():
        text = out
        if language == "Go":
            for values in (
                "[9007199254740993 -9223372036854775808]",
                "[$(id) '\"\\\n`x`??/ \u202e%s]",
                "[true false]",
                "[0.1 NaN]",
            ):
                assert values in out
            assert "half again [2] [0.099975586 -65504]" in out
            continue
        if language in ("curl", "C++"):  # which put an answer with bytes into a file
            data = (tmp_path / "answer.bin").read_bytes()
            end = json.JSONDecoder().raw_decode(data.decode("latin-1"))[1]
            assert data[end:] == np.array([0.1, -65504], np.float16).tobytes()
            text = data[:end].decode()
        outputs = {o["name"]: o for o in json.JSONDecoder().raw_decode(text)[0]["outputs"]}
        assert [outputs[f"{name} again"].get("data") for name in INPUTS][:4] == [
            [9007199254740993, -(2**63)],
            texts,
            None,
            [True, False],
        ], language
    assert "\u202e" not in "".join(programs.values())


DROP = """const [zone, text, name] = arguments, data = new DataTransfer();
data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));"""


def png(pixels):
    """A file of an image, of rows of (r, g, b)."""
    height, width = len(pixels), len(pixels[0])
    raw = b"".join(b"\0" + bytes(c for p in row for c in p) for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(raw))
        + chunk(b"IEND", b"")
    )


def test_images_and_sounds(served, page, tmp_path):
    """An image is resized and laid out as the configuration says, a sound resampled; both come back as they were sent."""
    image, sound = tmp_path / "two.png", tmp_path / "tone.wav"
    image.write_bytes(png([[(255, 0, 0)] * 32 + [(0, 0, 255)] * 32] * 32))
    with wave.open(str(sound), "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(8000)
        w.writeframes(np.full(8000, 16384, "<i2").tobytes())
    page.open(served, "media")
    for name, mode, file in (("image", "Image", image), ("sound", "Sound", sound), ("file", "File", image)):
        field = page.field(name)
        box = page.one(".try-check input", field)
        page.click(box, box.is_selected)
        page.give(field, mode)
        if name == "image":
            page.b.execute_script(
                DROP, page.one(".try-drop", field), base64.b64encode(file.read_bytes()).decode(), file.name
            )
        else:
            page.one("input[type=file]", field).send_keys(str(file))
        page.wait(lambda field=field, file=file: file.name in field.text)
    assert "16000 samples at 16000 Hz, 1.00 s" in page.field("sound").text
    page.options()
    box = next(
        e for e in page.all(".try-options .try-check") if e.text.strip() == "file again comes as bytes, not as JSON"
    )
    ticked = page.one("input", box)
    page.click(ticked, ticked.is_selected)
    assert page.send().startswith("answered"), page.status()
    assert page.pixels("image again", (0, 0), (15, 7)) == [[16, 8], [255, 0, 0, 255], [0, 0, 255, 255]]
    page.wait(lambda: "64 x 32 pixels" in page.output("file again").text)
    assert page.pixels("file again", (31, 0), (32, 0)) == [[64, 32], [255, 0, 0, 255], [0, 0, 255, 255]]
    heard = page.output("sound again")
    page.pick(page.labelled("Show as", heard), "Sound")
    page.wait(lambda: page.b.execute_script("return arguments[0].duration", page.one("audio", heard)) == 1)
    # 64 kB are too long for a line: the page saves them beside the lines.
    page.b.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    saved = tmp_path / "input-2.bin"  # which a browser may make before it fills it
    page.click(page.button("Save input-2.bin (64000 bytes)"), lambda: saved.exists() and saved.stat().st_size == 64000)
    samples = np.frombuffer(saved.read_bytes(), "<f4")
    assert samples.size == 16000 and abs(float(samples[8000]) - 0.5) < 0.01
    for language, out in run_all(tmp_path, page.lines()).items():
        head = (tmp_path / "answer.bin").read_text(errors="replace") if language in ("curl", "C++") else out
        assert "sound again" in head, language
    loud = [e for e in page.b.get_log("browser") if e["level"] == "SEVERE" and "status of 500" not in e["message"]]
    assert loud == []
