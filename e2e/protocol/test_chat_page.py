"""The dashboard's chat with a model of OpenAI's routes, in a real browser."""

from __future__ import annotations

import json

import pytest
from chromium import browser
from repository import place, python_model
from server import ROOT, Server
from test_auth import Keys
from test_dashboard import Page

ESCAPE, ENTER, SHIFT, TAB = "\ue00c", "\ue007", "\ue008", "\ue004"
ODD = "<b>talks</b>\u202e".replace("/", "")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    b = browser(tmp_path_factory.mktemp("browser"))
    b.set_window_size(1280, 900)
    yield ChatPage(b)
    b.quit()


class ChatPage(Page):
    def turns(self):
        return self.b.execute_script(
            "return [...document.querySelectorAll('.chat-turn')].map(t => [t.className.split('chat-').pop(),"
            " t.querySelector('.chat-text').textContent, t.querySelector('small').textContent])"
        )

    def focused(self):
        return self.b.execute_script("const e = document.activeElement; return e.textContent || e.id || e.tagName")

    def box(self):
        return self.all(".chat-form textarea")[0]

    def paste(self, text):
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
        self.b.execute_script(script, self.box(), text)

    def ready(self):
        self.wait(lambda: self.all(".chat-form button[type=submit]:enabled"))


def test_a_chat_by_keys_alone(page, tmp_path):
    with Server(ROOT / "examples" / "openai", "--openai=true") as s:
        page.open(s)
        page.wait(lambda: page.all("nav a[href='#/chat']") and page.all("nav a[href='#/chat']")[0].is_displayed())
        page.b.execute_script("location.hash = '#/models/parrot'")
        page.wait(lambda: page.all("a[href='#/chat/parrot']"))[0].send_keys(ENTER)
        page.wait(lambda: page.all(".chat-form"))
        page.ready()
        assert page.b.switch_to.active_element == page.box(), "the field for the message has not the focus"
        assert [o.text for o in page.all("select option")] == ["parrot"], "a model that is not for chats is offered"
        page.box().send_keys("one <b>two</b>" + SHIFT + ENTER + "\ue000" + "three", ENTER)
        page.wait(lambda: len(page.turns()) == 2 and page.turns()[1][2])
        (_, mine, _), (who, text, note) = page.turns()
        assert (mine, who, text) == ("one <b>two</b>\nthree", "assistant", "one <b>two</b> three")
        assert "3 tokens" in note and "first word after" in note and not page.all(".chat-text b")
        assert page.b.switch_to.active_element == page.box() and page.box().get_attribute("value") == ""
        assert page.complaints() == []

        page.picture("chat")
        # Another one is stopped by Escape, and the words so far stay.
        page.b.execute_script("document.querySelector('.chat-form details').open = true")
        system, *_, stop = page.all(".chat-form details textarea")
        system.send_keys("be brief")
        page.paste("word " * 20_000)
        page.box().send_keys(ENTER)
        page.wait(lambda: len(page.turns()) == 4 and page.turns()[3][1].startswith("word word"))
        assert page.all("[role=log]")[0].get_attribute("aria-busy") == "true"
        page.box().send_keys(ESCAPE)
        page.wait(lambda: page.turns()[3][2] == "stopped")
        page.ready()
        assert page.b.switch_to.active_element == page.box()
        stop.send_keys("d t")
        page.box().send_keys("end three", ENTER)
        page.wait(lambda: len(page.turns()) == 6 and page.turns()[5][2])
        assert page.turns()[5][1] == "en"
        shell = page.text(".try-code")
        assert "/v1/chat/completions" in shell and '"role":"system","content":"be brief"' in shell

        # What was said stays while other pages are looked at, and goes with a new chat.
        page.b.execute_script("location.hash = '#/models'")
        page.wait(lambda: page.row("parrot"))
        page.b.execute_script("location.hash = '#/chat'")
        page.wait(lambda: len(page.turns()) == 6)
        page.ready()
        for width in (320, 3840):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            page.b.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            assert page.wide() <= 0, f"too wide at {width}"
        page.b.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.press("New chat")
        assert page.turns() == [] and page.b.switch_to.active_element == page.box()
        assert page.b.get_log("browser") == [], "the content security policy has something to say"


FAILS = """import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            text = pb_utils.get_input_tensor_by_name(r, "messages").as_numpy().reshape(-1)[0].decode()
            sender = r.get_response_sender()
            if "begin" in text:
                out = pb_utils.Tensor("text_output", np.array(["half \\u202e"], dtype=object))
                sender.send(pb_utils.InferenceResponse([out]))
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("it is <i>broken</i>")), flags=1)
"""
CONFIG = """backend: "python"
input [ { name: "messages" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
"""


def test_failures_names_and_keys(page, tmp_path):
    repo = tmp_path / "models"
    place(repo / ODD, {"config.pbtxt": CONFIG, "1/model.py": FAILS})
    keys = Keys(tmp_path / "keys.json", app=["--scopes", "infer,read"], other=[])
    page.b.execute_script("sessionStorage.clear()")
    with Server(repo, "--openai=true", f"--auth-file={keys.path}") as s:
        page.open(s, "chat")
        page.wait(lambda: page.all("dialog input"))[0].send_keys(keys.key["app"] + "\n")
        page.wait(lambda: page.all(".chat-form"))
        page.ready()
        assert page.text("option") == "<b>talks<b>\\u202e"
        page.box().send_keys("hi", ENTER)
        page.wait(lambda: page.text(".chat-form .bad") == "it is <i>broken</i>")
        assert page.turns() == [] and page.box().get_attribute("value") == "hi", "what was not answered is lost"
        page.box().send_keys(" begin", ENTER)
        page.wait(lambda: page.turns() and page.turns()[1][2] == "broken off")
        assert page.turns()[1][1] == "half \\u202e"
        keys.entries = [e for e in keys.entries if e["name"] != "app"]
        keys.write()
        page.ready()
        page.wait(lambda: page.all("dialog input"))
        assert page.complaints() == []
        assert keys.key["app"] not in page.b.execute_script("return JSON.stringify(localStorage)")


def test_without_the_routes(page, tmp_path):
    python_model(tmp_path, "m")
    page.b.execute_script("sessionStorage.clear()")
    with Server(tmp_path) as s:
        page.open(s, "chat")
        page.wait(lambda: "--openai=true" in page.text(".chat-form [role=status]"))
        assert not page.all("nav a[href='#/chat']")[0].is_displayed()
        assert json.loads(page.b.execute_script("return JSON.stringify([location.hash])")) == ["#/chat"]
