"""The dashboard in a real browser, looking at a real server under load."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bls
import pytest
from chromium import browser
from repository import place, python_model
from server import ROOT, Server
from test_auth import Keys

HOSTILE = "<img src=x onerror=document.title='taken'>\u202e\"'"
PICTURES = os.environ.get("NESO_PICTURES")  # a directory that takes the pictures of the docs
ADD_SUB = {
    "inputs": [
        {"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
        {"name": "INPUT1", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]},
    ]
}
TWICE = json.loads(json.dumps(ADD_SUB).replace("INPUT0", "A").replace("INPUT1", "B"))


class Page:
    """The dashboard, as a user has it."""

    def __init__(self, b):
        self.b = b

    def wait(self, until):
        """What until gives, once that is true; an element that was redrawn while until looked at it is looked for again."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.b, 60, ignored_exceptions=[StaleElementReferenceException]).until(lambda _: until())

    def becomes(self, get, right):
        """What get gives, once that is right. It is read in one step: the next frame of the feed may say something else."""
        from selenium.common.exceptions import TimeoutException

        seen = []

        def good():
            seen[:] = [get()]
            return seen[0] and right(seen[0])

        try:
            self.wait(good)
        except TimeoutException:
            raise AssertionError(f"it stays {seen}") from None
        return seen[0]

    def open(self, server, at="models"):
        self.b.get("about:blank")
        self.b.get(f"http://127.0.0.1:{server.metrics_port}/dashboard/#/{at}")
        self.wait(lambda: self.live() == "Live" or self.all("dialog"))

    def all(self, css):
        return self.b.find_elements("css selector", css)

    def text(self, css="main"):
        return self.b.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent).join('\\n')", css
        )

    def live(self):
        return self.text(".live")

    def press(self, text):
        script = """return [...document.querySelectorAll('button')].filter(b => b.offsetParent
            && b.textContent.trim() === arguments[0]).at(-1)"""
        self.click(lambda: self.b.execute_script(script, text))

    def click(self, find):
        """Click the element that find gives, once it gives one."""

        def clicked():
            if element := find():
                element.click()
            return element

        self.wait(clicked)

    def row(self, model):
        """The cells of a model in the list."""
        script = """const rows = [...document.querySelectorAll('.vt-body > [role=row]')];
            const row = rows.find(r => r.children[0].textContent === arguments[0]);
            return row ? [...row.children].map(c => c.textContent) : null"""
        return self.b.execute_script(script, model)

    def complaints(self):
        """What axe finds in light and in dark."""
        axe = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
        if not axe.exists():
            print("accessibility is not looked at: axe is not installed (make web)")
            return []
        self.b.execute_script(axe.read_text())
        return self.b.execute_async_script("""const done = arguments[0], root = document.documentElement, before = root.dataset.theme;
            (async () => {
              const all = [];
              for (const theme of ["light", "dark"]) {
                root.dataset.theme = theme;
                const { violations } = await axe.run();
                all.push(...violations.map(v => theme + ' ' + v.id + ': ' + v.nodes.map(n => n.html).join(' ')));
              }
              root.dataset.theme = before;
              done(all);
            })()""")

    def wide(self):
        """By how much the page is wider than the window."""
        return self.b.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def picture(self, name):
        if PICTURES:
            self.b.save_screenshot(str(Path(PICTURES) / f"dashboard-{name}.png"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    b = browser(tmp_path_factory.mktemp("browser"))
    yield Page(b)
    b.quit()


@contextlib.contextmanager
def load(server):
    """Requests to add_sub and twice until the end, each tenth of which fails."""
    end = threading.Event()

    def send():
        n = 0
        while not end.wait(0.003):  # the page is to have some of this process, too
            n += 1
            server.infer(
                "add_sub" if n % 2 else "twice", {"inputs": []} if n % 10 == 0 else ADD_SUB if n % 2 else TWICE
            )

    threads = [threading.Thread(target=send) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        end.set()
        for t in threads:
            t.join()


def test_a_server_under_load(page, tmp_path):
    repo = tmp_path / "models"
    shutil.copytree(ROOT / "examples" / "models", repo)
    (repo / HOSTILE.replace("/", "")).mkdir()
    page.b.set_window_size(1280, 900)
    with Server(repo, "--model-control-mode=explicit", "--load-model=add_sub", "--load-model=twice") as s, load(s):
        page.open(s)
        page.becomes(
            lambda: page.row("add_sub"),
            lambda cells: (
                cells[2] == "READY"
                and cells[3] not in ("", "–", "0")
                and cells[6].endswith("s")
                and cells[10].endswith("MB")
            ),
        )
        # What is not loaded comes apart from the feed.
        page.becomes(lambda: page.row("digits"), lambda cells: cells[2] == "NOT LOADED")
        assert "\\u202e" in page.text() and page.b.title == "Neso: Models", "a model's name has become markup"
        page.picture("models")
        for theme in ("light", "dark"):
            page.press(f"Theme: {'system' if theme == 'light' else 'light'}")
            assert page.complaints() == []
        page.press("Theme: dark")

        page.b.execute_script("location.hash = '#/models/twice'")
        page.wait(
            lambda: page.all(".graph .node.step") and page.all("#try form") and "config.pbtxt" in page.b.page_source
        )
        page.wait(lambda: "/s · p50" in page.text(".node-under"))
        assert "add_sub" in page.text(".node-label") and "ensemble_scheduling" in page.text(".code")
        assert page.complaints() == []
        page.picture("ensemble")

        page.b.execute_script("location.hash = '#/models/add_sub'")
        page.wait(lambda: "%" in page.text("[aria-label=Instances]"))
        page.wait(lambda: "infer" in page.text(".tiles") and "Batches by size" in page.text())
        assert page.complaints() == []
        page.picture("model")
        page.press("Unload")
        page.wait(lambda: page.all("dialog"))
        assert page.complaints() == []
        page.press("Cancel")
        page.wait(lambda: not page.all("dialog"))
        page.press("Unload")
        page.click(lambda: next(iter(page.all("dialog button[value=yes]")), None))
        page.wait(lambda: "It is unloaded" in page.text())
        page.wait(lambda: "UNAVAILABLE" in page.text("[aria-label=Versions]"))
        assert s.infer("add_sub", ADD_SUB).status != 200
        page.press("Load")
        page.click(lambda: next(iter(page.all("dialog button[value=yes]")), None))
        page.wait(lambda: "It is loaded" in page.text() and page.all("#try form"))
        assert s.infer("add_sub", ADD_SUB).status == 200

        page.b.execute_script("location.hash = '#/requests'")
        page.wait(lambda: page.all(".timeline rect") and "inputs" in page.text())
        # In one script, since the next frame of the feed may draw other rows.
        script = """document.querySelectorAll('details:has(.spans)').forEach(d => d.open = true);
            const first = document.querySelector('details .spans li');
            return first && first.innerText + ' | ' + first.querySelector('svg').ariaLabel"""
        seen = page.wait(lambda: page.b.execute_script(script))
        assert "add_sub 1" in seen and "infer " in seen.partition(" | ")[2], seen
        assert page.complaints() == []
        page.picture("requests")
        page.b.execute_script("location.hash = '#/log'")
        page.wait(lambda: "successfully loaded" in page.text(".log") or "add_sub" in page.text(".log"))
        assert page.complaints() == []

        for width in (320, 3840):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            page.b.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for at, seen in (
                ("models", ".vt-row"),
                ("models/add_sub", "#try form"),
                ("requests", ".timeline"),
                ("log", ".log li"),
            ):
                page.b.execute_script("location.hash = '#/' + arguments[0]", at)
                page.wait(lambda seen=seen: page.all(seen))
                assert page.wide() <= 0, f"{at} is too wide at {width}"
        page.b.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        loud = [e for e in page.b.get_log("browser") if "400" not in e["message"]]
        assert loud == []


def test_by_keys_alone(page, tmp_path):
    """From the list to a model, and through the questions before it is unloaded and loaded; the focus comes back."""
    tab, back, enter, escape, shift = "\ue004", "\ue008\ue004\ue000", "\ue007", "\ue00c", "\ue008"
    repo = tmp_path / "models"
    for model in ("add_sub", "identity", "twice"):
        shutil.copytree(ROOT / "examples" / "models" / model, repo / model)
    page.b.set_window_size(1280, 900)

    def focused():
        return page.b.execute_script("return (document.activeElement.textContent || document.activeElement.id).trim()")

    def press(*keys):
        from selenium.webdriver import ActionChains

        for k in keys:
            chain = ActionChains(page.b)
            if k == back:
                chain.key_down(shift).send_keys(tab).key_up(shift).perform()
            else:
                chain.send_keys(k).perform()

    def go(to, most=60):
        seen = []
        while focused() != to:
            seen.append(focused())
            assert len(seen) < most, f"{to} is not reached by Tab: {seen}"
            press(tab)
        outline = page.b.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"nobody sees that {to} has the focus"

    with Server(repo, "--model-control-mode=explicit", "--load-model=*") as s:
        page.open(s)
        page.wait(lambda: page.row("identity"))
        press(tab)
        assert focused() == "To the content"
        press(enter)
        assert page.b.execute_script("return document.activeElement.id") == "main"
        go("identity")
        press(enter)
        page.wait(lambda: page.all("#try form") and page.all(".actions button"))
        for button, done, state in (("Unload", "It is unloaded", "UNAVAILABLE"), ("Load", "It is loaded", "READY")):
            page.b.execute_script("document.activeElement.blur()")
            go(button)
            press(enter)
            page.wait(lambda: page.all("dialog") and focused() == "Cancel")
            assert page.complaints() == []
            press(escape)
            page.wait(lambda button=button: not page.all("dialog") and focused() == button)
            press(enter)
            page.wait(lambda: page.all("dialog") and focused() == "Cancel")
            press(back)
            assert focused() == button, "the button before the one that cancels"
            press(enter)
            page.wait(lambda done=done: done in page.text())
            assert focused() == button
            page.wait(lambda state=state: state in page.text("[aria-label=Versions]"))

        # What the user is in holds still, and keeps the focus, whatever comes.
        with load(s):
            page.b.execute_script("location.hash = '#/requests'")
            page.wait(lambda: page.all("details .spans"))
            page.b.execute_script("document.querySelector('details summary').focus()")
            press(enter)
            at = page.b.execute_script("return document.activeElement")
            page.b.execute_script("window.frames_seen = 0; new MutationObserver(() => window.frames_seen++).observe("
                                  "document.querySelector('main'), {childList: true, subtree: true})")  # fmt: skip
            page.wait(lambda: page.b.execute_script("return window.frames_seen") > 1)
            assert page.b.switch_to.active_element == at and page.all("details .spans")[0].is_displayed()


FORK = """platform: "ensemble"
max_batch_size: 64
input [ { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "LEFT" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "RIGHT" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "add_sub" model_version: -1
    input_map [ { key: "INPUT0" value: "A" }, { key: "INPUT1" value: "B" } ]
    output_map [ { key: "OUTPUT0" value: "sum" }, { key: "OUTPUT1" value: "difference" } ] },
  { model_name: "identity" model_version: -1
    input_map { key: "INPUT0" value: "sum" } output_map { key: "OUTPUT0" value: "LEFT" } },
  { model_name: "identity" model_version: -1
    input_map { key: "INPUT0" value: "difference" } output_map { key: "OUTPUT0" value: "RIGHT" } }
] }
"""


def test_each_edge_has_its_own_number(page, tmp_path):
    """Requests ask for one output of a fork, and the model of its other branch is busy: that edge is idle all the same."""
    repo = tmp_path / "models"
    for model in ("add_sub", "identity"):
        shutil.copytree(ROOT / "examples" / "models" / model, repo / model)
    place(repo / "fork", {"config.pbtxt": FORK, "1/x": ""})
    page.b.set_window_size(1280, 900)
    end = threading.Event()

    def send():
        while not end.wait(0.005):
            s.infer("fork", {**TWICE, "outputs": [{"name": "LEFT"}]})

    with Server(repo) as s:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            page.open(s, "models/fork")

            def rates():
                shown = page.b.execute_script(
                    "return [...document.querySelectorAll('.edge-label')].map(e => e.firstChild.textContent.split(' '))"
                )
                return {tensor: float(rate.removesuffix("/s").replace(",", "")) for tensor, rate in shown}

            got = page.becomes(rates, lambda seen: seen.get("LEFT"))
            assert set(got) == {"A", "B", "sum", "difference", "LEFT", "RIGHT"}, got
            assert got["difference"] == got["RIGHT"] == 0 < got["sum"] == got["LEFT"] == got["A"] == got["B"], got
            assert "sum, " in page.b.execute_script("return document.querySelector('.graph').ariaLabel")
        finally:
            end.set()
            sender.join()


LATER = """def work():
    sender = request.get_response_sender()
    sender.send(self.reply(self.value(self.call("leaf", x))))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
threading.Thread(target=work).start()
"""
BESIDE = """import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        x = pb_utils.get_input_tensor_by_name(requests[0], "X")
        both = pb_utils.Tensor("X", np.array([2], np.int32))
        calls = [pb_utils.InferenceRequest(model_name=m, inputs=[both], requested_output_names=["Y"]) for m in ("first", "second")]
        done = await asyncio.gather(*[c.async_exec() for c in calls])
        y = pb_utils.get_output_tensor_by_name(done[0], "Y").as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)])]
"""
INT32 = """input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }
"""


def calling(repo):
    """Models that call others: one after the other, beside each other, from a thread, in vain, and as the step of an ensemble."""
    bls.write(repo, "leaf", "return self.reply(x)")
    # Where beside asks for both, the first one holds until the second has begun: else a busy machine could have one after the other.
    begun = str(repo.parent / "begun")
    hold = f"while x[0] == 2 and not os.path.exists({begun!r}):\n    time.sleep(0.005)\n"
    bls.write(repo, "first", hold + 'time.sleep(0.1)\nreturn self.reply(self.value(self.call("leaf", x)))')
    bls.write(repo, "second", f"if x[0] == 2:\n    open({begun!r}, 'w').close()\ntime.sleep(0.2)\nreturn self.reply(x)")
    bls.write(repo, "fails", 'raise ValueError("not today")')
    bls.write(repo, "caller", 'return self.reply(self.value(self.call("second", self.value(self.call("first", x)))))')
    bls.write(repo, "quick", 'return self.reply(self.value(self.call("leaf", self.value(self.call("leaf", x)))))')
    bls.write(repo, "in_vain", 'return self.reply(int(self.call("fails", x).has_error()))')
    bls.write(repo, "later", LATER, config="model_transaction_policy { decoupled: true }\n")
    code = repo / "later" / "1" / "model.py"
    code.write_text(code.read_text().replace("return [self.one(", "[self.one("))
    place(repo / "beside", {"config.pbtxt": 'backend: "python"\n' + INT32, "1/model.py": BESIDE})
    step = 'step { model_name: "caller" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } }'
    chain = f'platform: "ensemble"\n{INT32}ensemble_scheduling {{ {step} }}\n'
    place(repo / "chain", {"config.pbtxt": chain, "1/x": ""})


def slow(server, models, times=1, least=1):
    """The slowest requests of each of these models, as the page is told, once there are as many of all as are wanted at least; each is
    sent so many times at once."""
    c = http.client.HTTPConnection("127.0.0.1", server.metrics_port, timeout=60)
    c.request("GET", "/dashboard/feed", headers={"X-Neso-Dashboard": "1"})
    found, reply = {}, c.getresponse()
    assert json.loads(reply.readline())["whole"]
    for m in models:
        if m == "later":
            assert server.post("/v2/models/later/generate_stream", {"X": 1}).status == 200
        else:
            with ThreadPoolExecutor(times) as pool:
                list(pool.map(lambda _, m=m: bls.value(server, m), range(times)))
    for _ in range(60):  # one comes a second
        if found.keys() == set(models):
            break
        frame = json.loads(reply.readline())
        for m in models:
            of_m = [r for r in frame.get("slow", []) if r["model"] == m and not r.get("internal")]
            if len(of_m) >= least:
                found[m] = of_m
    c.close()
    return found


def tree(steps):
    return [(s["model"], *([tree(s["steps"])] if "steps" in s else [])) for s in steps or []]


def test_calls_of_models(page, tmp_path):
    """A slow request shows what its model has called, each call in its place in time with its own phases, and those within it."""
    repo = tmp_path / "models"
    calling(repo)
    page.b.set_window_size(1280, 900)
    with Server(repo) as s:
        found = {m: r[0] for m, r in slow(s, ["caller", "in_vain", "later", "beside", "chain"]).items()}
        of = {m: tree(r.get("steps")) for m, r in found.items()}
        called = [("first", [("leaf",)]), ("second",)]
        assert of == {
            "caller": called, "in_vain": [("fails",)], "later": [("leaf",)], "beside": called, "chain": [("caller", called)]
        }  # fmt: skip
        assert (
            found["in_vain"]["steps"][0]["failed"] and "composed" not in found["caller"] and found["chain"]["composed"]
        )
        one, two = found["caller"]["steps"]
        assert (
            100 <= one["took"] <= two["from"]
            and two["took"] >= 200
            and two["from"] + two["took"] <= found["caller"]["took"]
        )
        assert one["phases"][2] >= 100 and one["from"] <= one["steps"][0]["from"] <= one["from"] + one["took"]
        one, two = found["beside"]["steps"]
        assert two["from"] < one["from"] + one["took"], "calls beside each other look as if one came after the other"

        page.open(s, "requests")
        page.wait(lambda: page.all("details .spans"))
        page.b.execute_script("document.querySelectorAll('details:has(.spans)').forEach(d => d.open = true)")
        script = """const row = [...document.querySelectorAll('details:has(.spans)')].find(
              d => d.closest('tr').children[1].textContent.trim() === arguments[0] + ' 1');
            const bar = li => { const r = li.querySelector(':scope > svg rect'); return [li.querySelector('.span-name').textContent,
              +r.getAttribute('x'), +r.getAttribute('width')]; };
            return [row.querySelector('summary').textContent, [...row.querySelectorAll('li')].map(bar)]"""
        summary, bars = page.b.execute_script(script, "caller")
        took = found["caller"]["took"]
        flat = [found["caller"]["steps"][0], found["caller"]["steps"][0]["steps"][0], found["caller"]["steps"][1]]
        assert summary == "2 calls" and [b[0] for b in bars] == ["first 1", "leaf 1", "second 1"]
        for (_, x, width), want in zip(bars, flat):
            assert (
                abs(x - want["from"] / took * 300) < 0.1 and abs(width - max(want["took"] / took, 1 / 300) * 300) < 0.1
            )
        assert page.b.execute_script(script, "chain")[0] == "1 step"
        assert page.complaints() == [] and page.wide() <= 0
        # Last, for they would take the places of the others. With two calls in each, a third of the places that are left is theirs.
        busy = slow(s, ["quick"], times=16, least=5)["quick"]
        assert all(tree(r.get("steps")) == [("leaf",), ("leaf",)] for r in busy), busy


def test_a_key_that_goes_and_a_server_that_comes_back(page, tmp_path):
    repo = tmp_path / "models"
    python_model(repo, "open-1")
    python_model(repo, "closed")
    keys = Keys(tmp_path / "keys.json", app=["--models", "open-*", "--scopes", "infer,read"], all=["--scopes", "read"])
    page.b.set_window_size(1280, 900)
    with Server(repo, f"--auth-file={keys.path}") as s:
        page.open(s)
        page.wait(lambda: page.all("dialog input"))[0].send_keys("nobody's\n")
        page.wait(lambda: "not known" in page.text("dialog"))
        assert page.complaints() == []
        page.all("dialog input")[0].send_keys(keys.key["app"] + "\n")
        page.wait(lambda: page.row("open-1"))
        assert page.row("closed") is None
        kept = page.b.execute_script("return JSON.stringify(localStorage) + document.cookie")
        assert keys.key["app"] not in kept, "the key outlives the tab"
        keys.entries = [e for e in keys.entries if e["name"] != "app"]
        keys.write()
        page.wait(lambda: page.all("dialog input"))[0].send_keys(keys.key["all"] + "\n")
        page.wait(lambda: page.row("closed"))
        ports = (s.http_port, s.grpc_port, s.metrics_port)
    page.wait(lambda: page.live().startswith("Not live"))
    assert page.row("closed"), "what was known is not shown any more"
    with Server(repo, f"--auth-file={keys.path}", ports=ports):
        page.wait(lambda: page.live() == "Live")


def test_ten_thousand_models(page, tmp_path):
    repo = tmp_path / "models"
    for i in range(10_000):
        (repo / f"model-{i:05}").mkdir(parents=True)
    place(repo / "served", {"config.pbtxt": 'backend: "identity"\n', "1/x": ""})
    page.b.set_window_size(1280, 900)
    with Server(
        repo, "--model-control-mode=explicit", "--dashboard-address=127.0.0.1:0", "--allow-metrics=false", wait=False
    ) as s:
        address = page.wait(lambda: [x for x in s.log().splitlines() if "Started Dashboard at" in x])[0]
        s.metrics_port = int(address.rsplit(":", 1)[1].strip('"'))
        page.open(s)
        page.wait(lambda: "10001 versions" in page.text())
        assert len(page.all(".vt-body > .vt-row")) < 100, "rows that nobody sees are elements"
        table = page.all(".vt")[0]
        assert table.get_attribute("aria-rowcount") == "10002"
        page.b.execute_script("arguments[0].scrollTop = 1e9", table)
        page.wait(lambda: page.row("model-09999") or page.row("served"))
        page.all("#filter")[0].send_keys("model-04999")
        page.wait(lambda: page.row("model-04999") and "1 of 10001" in page.text())
        for width in (320, 3840):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            page.b.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.wait(lambda: page.row("model-04999"))
            assert page.wide() <= 0 and len(page.all(".vt-body > .vt-row")) < 100
        page.b.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_off(tmp_path):
    python_model(tmp_path, "m")
    with Server(tmp_path, "--allow-dashboard=false") as s:
        assert s.get("/dashboard/", port=s.metrics_port).body == b""
