"""examples/notebook.ipynb in a kernel of its own: once through, and cells that are run again."""

from __future__ import annotations

import copy
import os
import pathlib
import sys

import pytest
from program import alive, wait_until

nbformat = pytest.importorskip("nbformat", reason="nbclient is in scripts/requirements-tests.txt")
pytest.importorskip("ipykernel", reason="ipykernel is in scripts/requirements-tests.txt")

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture
def kernel(tmp_path):
    """A started kernel of this interpreter, and a function that runs a cell and returns its text."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    # No kernel needs to be installed anywhere: it is this interpreter.
    manager = KernelManager(connection_file="")
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], display_name="test"
    )
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, startup_timeout=120, km=manager)

    def run(source):
        cell = nbformat.v4.new_code_cell(source)
        notebook.cells.append(cell)
        client.execute_cell(cell, len(notebook.cells) - 1)
        texts = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
        return "".join(t for o, t in zip(cell.outputs, texts) if o.get("name") != "stderr")

    with client.setup_kernel(env={**os.environ, "IPYTHONDIR": str(tmp_path)}):
        yield client, notebook, run


def cells(notebook):
    return [c.source for c in copy.deepcopy(notebook.cells) if c.cell_type == "code"]


def test_the_notebook_runs(kernel):
    _, notebook, run = kernel
    imports, server, bind, over_http, in_process, fails, stop = cells(notebook)
    run(imports)
    assert run(server) == "True"
    pid = int(run("triton._server.pid"))
    run(bind)
    assert "0., 2., 4., 6." in run(over_http)
    assert "2., 2., 2." in run(in_process)
    assert "ValueError: not today" in run(fails)
    # Cells again: a changed function, the same one, the server.
    run(bind.replace("FACTOR = 2", "FACTOR = 5"))
    assert "0.,  5., 10., 15." in run(over_http)
    run(bind)
    assert "0., 2., 4., 6." in run(over_http)
    assert "ValueError: not today" in run(fails)
    assert run(server) == "True"
    assert not alive(pid)
    run(bind)
    assert "2., 2., 2." in run(in_process)
    assert run(stop) == "True"
    assert run(stop) == "False"
    # And from the top.
    assert run(server) == "True"
    run(bind)
    assert "0., 2., 4., 6." in run(over_http)


@pytest.mark.parametrize("how", ["shut down", "killed"])
def test_the_server_ends_with_the_kernel(kernel, how):
    client, notebook, run = kernel
    imports, server, bind = cells(notebook)[:3]
    for source in (imports, server, bind):
        run(source)
    pid = int(run("triton._server.pid"))
    assert alive(pid)
    if how == "killed":
        os.kill(int(run("import os; os.getpid()")), 9)
    else:
        client.km.shutdown_kernel()
    wait_until(lambda: not alive(pid))


FIXED = """
import socket
sockets = [socket.socket() for _ in range(3)]  # kept: nobody else gets the ports, and a server may listen
for one in sockets:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
http, grpc, metrics = [one.getsockname()[1] for one in sockets]
"""

AGAIN = """
ends = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}
triton = Triton(config=TritonConfig(http_port=http, grpc_port=grpc, metrics_port=metrics, **ends))
tensors = [Tensor((1,), np.float32, "x")]
triton.bind("m", lambda requests: [{"x": r["x"]} for r in requests], tensors, tensors)
triton.run()
triton
"""


def test_a_cell_with_fixed_ports_is_run_again(kernel):
    """The object of before has no name any more: its server makes room. One that has is left alone, and named."""
    from nbclient.exceptions import CellExecutionError

    _, notebook, run = kernel
    run(cells(notebook)[0])
    run(FIXED)
    run(AGAIN)
    first = int(run("triton._server.pid"))
    run(AGAIN)
    assert not alive(first)
    second = int(run("triton._server.pid"))
    run("mine = triton")
    with pytest.raises(CellExecutionError, match=r"another Triton of this process.* with `m`: mine\.stop\(\) ends it"):
        run(AGAIN)
    assert alive(second)
    run("del mine")
    run("held = [Triton.running()[0]]")
    with pytest.raises(CellExecutionError, match=r"Triton\.running\(\) lists those that run"):
        run(AGAIN)
    assert alive(second)
    run("held.clear()")
    run(AGAIN)
    assert not alive(second)
