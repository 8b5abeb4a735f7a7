"""The cluster of tools/cluster with four replicas of the chart; `make e2e-cluster` starts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from load import Sender
from release import HERE, Cluster, command, load_image
from report import Report
from server import BINARY, ROOT

BASE = Path(os.environ.get("NESO_CLUSTER_BASE", ROOT / "build" / "images" / "neso-python-amd64.tar"))
report = Report()


class Images:
    """Images of `neso image build` on the project's own, in both nodes."""

    repository = "docker.io/neso/models"

    def __init__(self, directory: Path):
        self.directory, self.made = directory, set()

    def __call__(self, tag: str, models: Path = HERE / "models") -> dict:
        """The chart's values for the image of a tag; it is made when it is asked for first."""
        if tag not in self.made:
            file = self.directory / f"{tag}.tar"
            build = [BINARY, "image", "build", "--base", BASE, "--model-repository", models, "--label", f"tag={tag}"]
            command(*build, "-t", f"{self.repository}:{tag}", "-o", file)
            self.load(file)
            self.made.add(tag)
        return {"image": {"tag": tag}}

    def load(self, file: Path) -> None:
        load_image(file)
        file.unlink()


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    assert BASE.exists(), f"{BASE} is missing: make images makes it"
    return Images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def whole(images):
    """The cluster, for tests that install releases of their own."""
    c = Cluster()
    c.until(c.described, "the API server has the description that kubectl holds objects against", limit=300)
    report.about(c)
    clients = ROOT / "build" / "images" / "clients.tar"
    assert clients.exists(), f"{clients} is missing: make e2e-cluster makes it"
    load_image(clients)
    Sender.start(c)
    return c


@pytest.fixture(scope="module")
def cluster(whole, images):
    """Four replicas of the release `neso`, with the values of e2e/cluster/values.yaml, at the begin of each file of tests."""
    whole.helm(images("one"))
    return whole


@pytest.fixture
def row(request):
    """The test's line in the report."""
    return report.row(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    made = yield
    if made.when == "call":
        skipped = str(made.longrepr[2]).removeprefix("Skipped: ") if made.skipped else ""
        report.outcome(item, made.passed, skipped)
    return made


def pytest_sessionfinish(session):
    if not (file := os.environ.get("NESO_CLUSTER_REPORT")):
        return
    told = session.config.pluginmanager.get_plugin("terminalreporter").stats
    counts = [f"{len(told[kind])} {kind}" for kind in ("passed", "failed", "error", "skipped") if told.get(kind)]
    # Of this folder and not of some files of it, nor by names, and to its end.
    everything = [(session.config.invocation_params.dir / a).resolve() for a in session.config.args] == [HERE]
    chosen = not everything or session.config.option.keyword
    whole = not chosen and sum(len(told.get(k, [])) for k in told if k) >= session.testscollected
    full = ", NESO_FULL=1" if os.environ.get("NESO_FULL") == "1" else ""
    report.write(Path(file), f"{', '.join(counts)}{full}" if whole else "")
