"""The examples in README.md and docs/ run as they stand there, against a server on examples/models."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from programs import callables
from server import ROOT, Server, free_port
from single import call as served
from single import serving

PAGES = sorted([ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def examples():
    """Shell examples that call the server or the command, and Python examples that are clients."""
    for page in PAGES:
        for i, (language, text) in enumerate(BLOCK.findall(page.read_text())):
            name = f"{page.name}-{i}"
            if page.name == "python-client.md" or "KEY" in text:  # see test_the_python_clients, and with keys test_keys
                continue
            if language == "sh" and re.match(
                r"(curl|bin/neso config|bin/neso backends$|bin/neso (perf|tune|test-model)|\.venv/bin/python examples/client)",
                text,
            ):
                yield pytest.param("sh", text, id=name)
            elif language == "python" and "InferenceServerClient(" in text:
                yield pytest.param("python", text, id=name)


@pytest.fixture(scope="module")
def example_server(tmp_path_factory):
    traces = tmp_path_factory.mktemp("traces") / "trace.json"
    repositories = [ROOT / "examples" / "models", ROOT / "examples" / "frameworks"]
    with Server(repositories, "--cache-config=local,size=67108864", f"--trace-config=triton,file={traces}") as s:
        yield s


@pytest.mark.parametrize(("language", "text"), list(examples()))
def test_example(example_server, language, text):
    s = example_server
    for port, real in ((8000, s.http_port), (8001, s.grpc_port), (8002, s.metrics_port)):
        text = text.replace(f"localhost:{port}", f"127.0.0.1:{real}")
    command = (
        [sys.executable, "-c", text]
        if language == "python"
        else ["bash", "-euo", "pipefail", "-c", text.replace("curl -s ", "curl -sS --fail-with-body ")]
    )
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert r.returncode == 0 and r.stdout.strip(), r.stdout + r.stderr


def test_keys(tmp_path):
    """The examples of docs/security.md with a key, against the file that stands there."""
    blocks = BLOCK.findall((ROOT / "docs" / "security.md").read_text())
    [file] = [text for language, text in blocks if language == "json"]
    assert hashlib.sha256(b"foo").hexdigest() in file
    (tmp_path / "keys.json").write_text(file)
    uses = [(language, text) for language, text in blocks if language in ("sh", "python") and "KEY" in text]
    assert [language for language, _ in uses] == ["sh", "python"]
    with Server(ROOT / "examples" / "models", f"--auth-file={tmp_path}/keys.json") as s:
        for key, works in (("foo", True), ("wrong", False)):
            for language, text in uses:
                for port, real in ((8000, s.http_port), (8001, s.grpc_port)):
                    text = text.replace(f"localhost:{port}", f"127.0.0.1:{real}")
                shell = ["bash", "-euo", "pipefail", "-c", text.replace("curl -s ", "curl -sS --fail-with-body ")]
                command = [sys.executable, "-c", text] if language == "python" else shell
                env = {**os.environ, "KEY": key}
                r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, env=env)
                assert (r.returncode == 0) == works and ("digits" in r.stdout) == works, r.stdout + r.stderr


def commands(pattern):
    """Commands of the pages, in blocks and in the text, with the name of the page."""
    found = {(m.strip(), page.name) for page in PAGES for m in re.findall(pattern, page.read_text(), re.M)}
    assert found
    return sorted(found)


@pytest.mark.parametrize(("command", "page"), commands(r"(?:^\$? ?|`)(make [a-z-]+)(?=[` \n])"))
def test_make_has_the_target(command, page):
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert command.split()[1] in targets, page


@pytest.mark.parametrize(("command", "page"), commands(r"\bpython (bench/compare\.py[^`\n#]*)"))
def test_bench_has_the_scenarios(command, page):
    """As far as it goes without minutes of load: the options are there and choose scenarios."""
    always = 2  # which --only does not leave out
    r = subprocess.run(
        [sys.executable, *shlex.split(command), "--list"], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert r.returncode == 0 and len(r.stdout.splitlines()) > always, f"{page}: {r.stdout}{r.stderr}"


def test_one_file_by_itself(tmp_path):
    """The block on `neso serve FILE` of docs/models/frameworks.md."""
    text = (ROOT / "docs" / "models" / "frameworks.md").read_text()
    (block,) = [t for n, t in BLOCK.findall(text) if n == "console" and t.startswith("$ neso serve ")]
    command, first, name, *_, call = block.splitlines()
    file = command.split()[-1]
    shutil.copy(ROOT / "examples" / "frameworks" / "digits_onnx" / "1" / "model.onnx", tmp_path / file)
    with serving(tmp_path / file) as ((config, line),):
        assert first == f"# the configuration of {file.removesuffix('.onnx')}, completed:" and name in config
        assert all("/v2/models/digits/infer " in text for text in (call, line))
        assert served(line)["outputs"]


def test_serving_needs_little():
    """`make serve` installs what the models, the client that it names and the package import, `make test` the rest."""

    def plan(file, target):
        command = ["make", "--dry-run", f"--what-if=scripts/{file}.txt", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=True).stdout

    assert "scripts/setup.sh\n" in plan("requirements", "serve")
    assert "scripts/setup.sh" not in plan("requirements-tests", "serve").replace("scripts/setup.sh\n", "", 1)
    assert "scripts/setup.sh tests\n" in plan("requirements-tests", "test")
    assert "scripts/setup.sh wheel\n" in plan("requirements-wheel", "wheel")
    assert "scripts/setup.sh tests\n" not in plan("requirements-tests", "wheel")
    installed = re.findall(r"^(\w+)", (ROOT / "scripts" / "requirements.txt").read_text(), re.M)
    package = (ROOT / "python" / "pyproject.toml").read_text()
    needed = re.search(r"^dependencies = \[(.*)\]", package, re.M)[1]
    assert set(re.findall(r'"(\w+)', needed)) <= set(installed), "what the package neso needs"
    files = [ROOT / "examples" / "client.py", *(ROOT / "examples" / "models").rglob("*.py")]
    own = {"triton_python_backend_utils", *(file.stem for file in files)}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
                for name in {n.split(".")[0] for n in names} - own:
                    assert name in sys.stdlib_module_names or name in installed, f"{file}: {name}"


def test_there_are_examples():
    assert len(list(examples())) >= 8


MODELS = [
    "digits",
    *sorted(p.name for p in (ROOT / "examples" / "frameworks").iterdir() if p.name.startswith("digits")),
]


@pytest.mark.parametrize("model", MODELS)
def test_client_reads_real_digits(example_server, model):
    """One client, the same answers from all frameworks."""
    s = example_server
    r = subprocess.run(
        [
            sys.executable,
            "examples/client.py",
            f"--http-port={s.http_port}",
            f"--grpc-port={s.grpc_port}",
            f"--model={model}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert r.returncode == 0, r.stdout + r.stderr
    accuracies = [int(a) / int(b) for a, b in re.findall(r"(\d+) (?:of|/) (\d+)", r.stdout)]
    assert len(accuracies) >= 2 and min(accuracies) > 0.9, r.stdout


def test_every_documented_option_exists():
    def usage(*command):
        return subprocess.run(
            [ROOT / "bin" / "neso", *command, "--help"], capture_output=True, text=True, check=True
        ).stdout

    def commands(*above):
        listed = usage(*above).partition("Available Commands:")[2].partition("Flags:")[0]
        for command in re.findall(r"^  ([a-z-]+) ", listed, re.M):
            yield (*above, command)
            yield from commands(*above, command)

    known = set(re.findall(r"^  (--[a-z0-9-]+)", usage("serve"), re.M))
    for command in commands():
        known |= set(re.findall(r"(--[a-z0-9-]+)", usage(*command)))
    # Of the benchmarks and the differential, and of Java's launcher.
    others = {"--format", "--name", "--only", "--quick", "--rounds", "--no-peer", "--formats", "--generator"}
    others |= {"--ensembles", "--enable-native-access"}
    for page in PAGES:
        text = page.read_text()
        # In the text, and in the commands of blocks.
        run = [
            c
            for _, b in BLOCK.findall(text)
            for c in re.findall(r"^(?:\$ )?(?:bin/)?neso .*", b.replace("\\\n", " "), re.M)
        ]
        named = re.findall(r"`(--[a-z0-9-]+)", text)
        named += [o for c in run for o in re.findall(r" (--[a-z0-9-]+)", re.split(r" -- |#|\|", c)[0])]
        for option in named:
            if option not in known | others:
                matches = [k for k in known if k.startswith(option)]
                assert len(matches) == 1, f"{page.name} names {option}, which neso serve does not have"


def test_options_of_the_deployment_examples_exist():
    usage = subprocess.run(
        [ROOT / "bin" / "neso", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^  (--[a-z0-9-]+)", usage, re.M))
    blocks = [
        t
        for n, t in BLOCK.findall((ROOT / "docs" / "operate" / "operations.md").read_text())
        if n in ("ini", "dockerfile", "yaml")
    ]
    assert len(blocks) == 3
    for text in blocks:
        used = {o for line in text.splitlines() if line[:3] != "RUN" for o in re.findall(r"(--[a-z0-9-]+)=", line)}
        assert used and used <= known, used - known


def test_rents_have_categories(example_server):
    r = subprocess.run(
        [sys.executable, "examples/rents.py", f"--url={example_server.http}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert r.returncode == 0, r.stdout + r.stderr
    lake, unknown, yard, mars = (float(line.split()[0]) for line in r.stdout.splitlines())
    assert lake > 2 * yard and yard > mars > 0 and unknown > yard, r.stdout


def console(page, command):
    """The lines that a page says the command prints, ports apart."""
    for language, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
        lines = text.splitlines()
        if language == "console" and f"$ {command}" in lines:
            return lines[lines.index(f"$ {command}") + 1 :]
    raise AssertionError(f"{page} does not say what {command} prints")


def test_media_are_streamed():
    with Server(ROOT / "examples" / "media") as s:
        command = [sys.executable, "examples/media_client.py", f"--url=127.0.0.1:{s.grpc_port}"]
        r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert r.returncode == 0, r.stdout + r.stderr
    assert r.stdout.splitlines() == console("models/audio-video.md", "python examples/media_client.py")


def test_callables_are_steps_of_an_ensemble():
    """The example, with the code that the page shows in it."""
    source = (ROOT / "examples" / "callables" / "ensemble.py").read_text()
    for language, text in BLOCK.findall((ROOT / "docs" / "use" / "callable-ensembles.md").read_text()):
        if language == "python":
            for line in text.split():
                assert line in source, text
    printed = callables("ensemble", 180)
    assert printed.splitlines() == console("use/callable-ensembles.md", "python examples/callables/ensemble.py --once")


def test_the_go_example_serves(tmp_path):
    """The program of docs/go.md, with the code that the page shows in it, under the page's call."""
    page = (ROOT / "docs" / "go.md").read_text()
    source = (ROOT / "examples" / "go" / "main.go").read_text()
    program, log = page.split("\n## The log\n")
    shown = [text for language, text in BLOCK.findall(program) if language == "go"]
    assert len(shown) == 2 and all(text in source for text in shown)
    (opened,) = [text for language, text in BLOCK.findall(log) if language == "go"]
    assert opened in (ROOT / "example_test.go").read_text()
    call = re.search(r"^\$ (curl .*?\]}')$", page, re.M | re.S).group(1)
    build = ["go", "build", "-o", tmp_path / "example", "./examples/go"]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(build, cwd=ROOT, check=True, timeout=600, env=environment)
    port = free_port()
    with subprocess.Popen([tmp_path / "example", f"-http=127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True) as p:
        try:
            for line in p.stderr:
                if "Started HTTPService" in line:
                    break
            call = call.replace("localhost:8000", f"127.0.0.1:{port}").replace("curl -s ", "curl -sS --fail-with-body ")
            r = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=60)
        finally:
            p.terminate()
            p.stderr.read()
    assert r.returncode == 0 and '"data":[9,18,27,36]' in r.stdout.replace(".0", ""), r.stdout + r.stderr
    assert p.returncode == 0


def test_the_go_client(example_server, tmp_path):
    """The program of docs/use/go-client.md, over both of its transports."""
    page = (ROOT / "docs" / "use" / "go-client.md").read_text()
    assert (ROOT / "examples" / "goclient" / "main.go").read_text() in [t for n, t in BLOCK.findall(page) if n == "go"]
    build = ["go", "build", "-o", tmp_path / "goclient", "./examples/goclient"]
    subprocess.run(build, cwd=ROOT, check=True, timeout=600, env={**os.environ, "CGO_ENABLED": "0"})
    promised = console("use/go-client.md", "go run ./examples/goclient -url grpc://localhost:8001")
    for url in (f"http://{example_server.http}", f"grpc://{example_server.grpc}"):
        r = subprocess.run([tmp_path / "goclient", f"-url={url}"], capture_output=True, text=True, timeout=60)
        assert (r.returncode, r.stdout.splitlines()) == (0, promised), r.stdout + r.stderr


def test_the_python_clients(example_server):
    """The programs of docs/use/python-client.md print what stands below each."""
    page = (ROOT / "docs" / "use" / "python-client.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```\n\n```console\n(.*?)^```", page, re.M | re.S)
    assert len(programs) == page.count("```python") >= 4
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    running = []
    for text, _ in programs:
        text = text.replace("localhost:8000", example_server.http).replace("localhost:8001", example_server.grpc)
        command = [sys.executable, "-c", text]
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for p, (_, promised) in zip(running, programs):
        with p:
            out, err = p.communicate(timeout=180)
        assert (p.returncode, out) == (0, promised), err


def test_the_tests_of_security_exist():
    """Each test that docs/security.md names: of a file, of a package in Go, and by name alone."""
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(e2e/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 50
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), (file, name)
    packages = re.findall(r"`([\w/.]+): (Test\w+)`", text)
    assert len(packages) > 10
    for package, name in packages:
        assert any(f"func {name}(" in p.read_text() for p in (ROOT / package).glob("*_test.go")), (package, name)
    alone = set(re.findall(r"`(test_\w+|Test\w+)(?:\[.*?\])?`", text))
    assert len(alone) > 20
    known = (ROOT / "e2e" / "hostile" / "test_http.py").read_text()
    for tests in (ROOT / "internal").rglob("*_test.go"):
        known += tests.read_text()
    for name in alone:
        assert f"def {name}(" in known or f"func {name}(" in known, name
    for title in ("What holds over HTTP, each with its test:", "What this page says, and the tests that show it:"):
        said = text.partition(title + "\n\n- ")[2].partition("\n\n")[0].split("\n- ")
        assert len(said) > 10, title
        for sentence in said:
            assert re.search(r"(`|::|: )(test_|Test)\w+(\[[^`]*\])?`", sentence), sentence
