"""TRITONSERVER_DELAY_SCHEDULER: batchers whose first batch waits until so many requests are queued."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from repository import until
from sequences import Stream, add_model, pending, seen
from server import Server
from test_batching import model, together
from tritonclient import grpc


def wait_for(number, backlog=None):
    more = {} if backlog is None else {"TRITONSERVER_BACKLOG_DELAY_SCHEDULER": str(backlog)}
    return {"TRITONSERVER_DELAY_SCHEDULER": str(number), **more}


def totals(stream, number):
    """The answers that came, in their order: the total of the sequence, and what the model saw in its batch."""
    answers = []
    for _ in range(number):
        result, error = stream.answers.get(timeout=60)
        assert error is None, error
        answers.append((int(result.as_numpy("OUT")[0, 0]), [row[4] for row in seen(result) if row[2]]))
    return sorted(answers)


def test_dynamic_batches(tmp_path):
    model(tmp_path, "held", "dynamic_batching { }")
    with Server(tmp_path, env=wait_for(5)) as s:
        assert together(s, "held", *[(1, 2)] * 5) == [5] * 5
        assert together(s, "held", (1, 2)) == [1], "it waits once"


def test_what_is_no_number_means_no_waiting(tmp_path):
    model(tmp_path, "held", "dynamic_batching { }")
    with Server(tmp_path, env=wait_for("many", "x")) as s:
        assert together(s, "held", (1, 2)) == [1]


def test_sequences_in_slots(tmp_path):
    """Two sequences with two requests each: two batches of both, where the first request would go alone."""
    repo = tmp_path / "models"
    add_model(repo, "held", batch=2)
    with Server(repo, env=wait_for(4)) as s:
        stream = Stream(s)
        for value, corr, start in ((1, 7, True), (2, 7, False), (10, 8, True)):
            stream.send("held", value, corr, start=start, end=not start)
        assert until(lambda: pending(s, "held") == 3)
        assert stream.answers.empty()
        stream.send("held", 20, 8, end=True)
        assert totals(stream, 4) == [(1, [1, 10]), (3, [2, 20]), (10, [1, 10]), (30, [2, 20])]
        stream.client.close()


def test_sequences_in_the_backlog(tmp_path):
    """The only slot is ready after two requests, but the batch waits for those of the backlog."""
    repo = tmp_path / "models"
    add_model(repo, "held", batch=1)
    with Server(repo, env=wait_for(2, 1)) as s:
        stream = Stream(s)
        stream.send("held", 1, 7, start=True)
        stream.send("held", 2, 7, end=True)
        assert s.get("/v2/models/held/ready").status == 200
        assert stream.answers.empty()
        stream.send("held", 50, 8, start=True, end=True)
        assert [total for total, _ in totals(stream, 3)] == [1, 3, 50]
        stream.client.close()


def test_oldest(tmp_path):
    repo = tmp_path / "models"
    add_model(repo, "held", batch=4, strategy="oldest { max_candidate_sequences: 4 }")
    with Server(repo, env=wait_for(3)) as s:
        stream = Stream(s)
        for value, corr in ((1, 7), (2, 8), (3, 9)):
            stream.send("held", value, corr, start=True, end=True)
        assert totals(stream, 3) == [(1, [1, 2, 3]), (2, [1, 2, 3]), (3, [1, 2, 3])]
        stream.client.close()


def test_what_does_not_fit_keeps_its_place(tmp_path):
    """Two sequences whose requests have other shapes: each batch has both slots, the other one's as a null request."""
    repo = tmp_path / "models"
    add_model(repo, "held", batch=2)
    config = repo / "held" / "config.pbtxt"
    config.write_text(
        config.read_text().replace('"IN" data_type: TYPE_INT32 dims: [ 1 ]', '"IN" data_type: TYPE_INT32 dims: [ -1 ]')
    )
    with (
        Server(repo, env=wait_for(2)) as s,
        grpc.InferenceServerClient(s.grpc) as client,
        ThreadPoolExecutor(1) as pool,
    ):

        def send(corr, shape):
            tensor = grpc.InferInput("IN", shape, "INT32")
            tensor.set_data_from_numpy(np.ones(shape, np.int32))
            return client.infer("held", [tensor], sequence_id=corr, sequence_start=True, sequence_end=True)

        first = pool.submit(send, 7, [1, 1])
        assert until(lambda: pending(s, "held") == 1)
        second = send(8, [1, 2])
        assert [row[2] for row in seen(first.result())] == [True, False]
        assert [row[2] for row in seen(second)] == [False, True]
