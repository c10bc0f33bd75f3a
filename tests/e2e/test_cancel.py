"""Clients that leave: their requests end at once and every page comes back."""
import json
import socket
import time

import pytest

from conftest import reset
from helpers import complete

PREFILL = "a" * 60_000  # takes long enough to leave in the middle of it


def half_close(connection):
    connection.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def narrow(start, endless_model):
    """Two requests at a time, so that others wait."""
    return start(endless_model, "--max-running-requests", "2", "--chunked-prefill-size", "256")


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("leave", [socket.socket.close, reset, half_close])
@pytest.mark.parametrize("stream", [False, True])
def test_leaving_while_running_and_while_queued(narrow, leave, stream):
    aborted = narrow.info()["aborted_total"]
    body = json.dumps(complete(max_tokens=150_000, ignore_eos=True, stream=stream)).encode()
    connections = [narrow.raw("/v1/completions", body) for _ in range(6)]
    wait_for(lambda: narrow.info()["running"] == 2 and narrow.info()["queued"] == 4)
    assert narrow.info()["pages_used"] > 0
    for connection in reversed(connections):
        leave(connection)
    assert narrow.quiet(2.0), narrow.info()
    assert narrow.info()["aborted_total"] == aborted + 6
    steps = narrow.info()["steps_total"]
    time.sleep(0.2)
    assert narrow.info()["steps_total"] == steps, "an orphan started"


@pytest.mark.parametrize("leave", [socket.socket.close, reset, half_close])
@pytest.mark.parametrize("stream", [False, True])
def test_leaving_in_prefill(narrow, leave, stream):
    aborted = narrow.info()["aborted_total"]
    body = json.dumps(complete(prompt=PREFILL, max_tokens=1000, stream=stream)).encode()
    generated = narrow.info()["generation_tokens_total"]
    connection = narrow.raw("/v1/completions", body)
    wait_for(lambda: narrow.info()["pages_used"] > 0)
    leave(connection)
    assert narrow.quiet(5.0), narrow.info()
    assert narrow.info()["aborted_total"] == aborted + 1
    assert narrow.info()["generation_tokens_total"] == generated, "it was past its prefill"


def test_leaving_a_stream_through_the_client(narrow):
    stream = narrow.client().completions.create(**complete(max_tokens=150_000, stream=True),
                                                extra_body={"ignore_eos": True})
    for _ in zip(range(5), stream):
        pass
    assert narrow.info()["pages_used"] > 0
    stream.close()
    assert narrow.quiet(2.0), narrow.info()


def test_all_choices_end_with_their_client(narrow):
    body = json.dumps(complete(n=3, max_tokens=150_000, ignore_eos=True)).encode()
    connection = narrow.raw("/v1/completions", body)
    wait_for(lambda: narrow.info()["running"] == 2 and narrow.info()["queued"] == 1)
    connection.close()
    assert narrow.quiet(2.0), narrow.info()


def test_a_client_that_stops_reading_does_not_hold_up_others(narrow):
    body = json.dumps(complete(max_tokens=150_000, ignore_eos=True, stream=True)).encode()
    silent = narrow.raw("/v1/completions", body)
    wait_for(lambda: narrow.info()["running"] == 1)
    for _ in range(5):
        assert narrow.post("/v1/completions", complete()).status_code == 200
    silent.close()
    assert narrow.quiet(2.0), narrow.info()


def test_health_answers_beside_many_connections(narrow):
    streams = [narrow.raw("/v1/completions", json.dumps(
        complete(max_tokens=150_000, ignore_eos=True, stream=True)).encode()) for _ in range(16)]
    idle = [socket.create_connection(("127.0.0.1", narrow.port)) for _ in range(200)]
    for connection in idle[:50]:
        connection.sendall(b"G")
    assert all(narrow.get("/health").status_code == 200 for _ in range(20))
    for connection in streams + idle:
        connection.close()
    assert narrow.quiet(3.0), narrow.info()
