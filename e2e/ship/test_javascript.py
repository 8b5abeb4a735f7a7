"""The program of docs/use/javascript.md prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from server import ROOT, Server

PAGE = ROOT / "docs" / "use" / "javascript.md"
PACKAGES = ROOT / ".tools" / "javascript" / "node_modules"


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js")
@pytest.mark.skipif(
    not PACKAGES.exists(), reason="the packages are not installed: scripts/setup.sh does that where npm is"
)
def test_the_program_of_the_page(tmp_path):
    blocks = dict(re.findall(r"```(js|console)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (tmp_path / "client.mjs").write_text(blocks["js"])
    (tmp_path / "node_modules").symlink_to(PACKAGES.resolve())
    with Server(ROOT / "examples" / "models") as s:
        env = {**os.environ, "NESO_URL": f"http://{s.http}", "NESO_GRPC": s.grpc}
        r = subprocess.run(["node", "client.mjs"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    assert r.stdout == blocks["console"].split("$ node client.mjs\n")[1]
