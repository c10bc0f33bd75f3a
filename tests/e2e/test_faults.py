"""Faults under load: clients that leave at odd moments, a thousand at once, full queues, SIGTERM with 200
running. Each time every client gets an ending, and pages, slots, threads and files are as before."""
import json
import os
import random
import selectors
import signal
import socket
import time

import pytest

from conftest import reset
from helpers import complete

ENDLESS = dict(max_tokens=150_000, ignore_eos=True)
HEAD_END = b"\r\n\r\n"


def footprint(server) -> tuple[int, int]:
    """Threads and open files of the program."""
    proc = f"/proc/{server.process.pid}"
    return len(os.listdir(f"{proc}/task")), len(os.listdir(f"{proc}/fd"))


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def nothing_leaks():
    """Call it with a server before the load; at the end of the test all must be as it was then."""
    watched = []

    def watch(server):
        assert server.quiet()
        watched.append((server, footprint(server)))

    yield watch
    for server, before in watched:
        assert server.quiet(), server.info()
        wait_for(lambda: footprint(server) == before, 10)
        # Nothing but cached prefixes holds a page, and these go when they are told to.
        assert server.post("/flush_cache", {}).status_code == 200
        assert server.info()["pages_cached"] == 0
        assert server.get("/health").status_code == 200


@pytest.fixture(scope="module")
def narrow(start, endless_model):
    return start(endless_model, "--max-running-requests", "4", "--chunked-prefill-size", "256")


def request(body, more: bytes = b"") -> bytes:
    text = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text) + text + more


def connect(server, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(data)
    return connection


def read_all(connections, seconds=60) -> list[bytes]:
    """What each connection gets until its answer has ended, all read beside each other."""
    received = {connection: bytearray() for connection in connections}
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map():
            assert time.monotonic() < deadline, f"{len(selector.get_map())} have no ending"
            for key, _ in selector.select(1):
                connection = key.fileobj
                try:
                    part = connection.recv(1 << 18)
                except ConnectionResetError:
                    part = b""
                received[connection] += part
                if not part or ended(received[connection]):
                    selector.unregister(connection)
    return [bytes(received[connection]) for connection in connections]


def ended(data) -> bool:
    at = data.find(HEAD_END)
    if at < 0:
        return False
    head = bytes(data[:at]).lower()
    if b"transfer-encoding: chunked" in head:
        return data.endswith(b"\r\n0\r\n\r\n")
    return len(data) - at - 4 >= int(head.split(b"content-length: ")[1].split(b"\r\n")[0])


def kind_of(answer: bytes) -> str:
    """How a connection ended: whole, told of an error, or cut without a word."""
    if not ended(answer):
        return "cut"
    status = int(answer.split(b" ", 2)[1])
    if status != 200:
        return str(status)
    if b"text/event-stream" not in answer:
        return "whole" if b'"finish_reason":' in answer else "odd"
    return "whole" if b"data: [DONE]\n\n" in answer else "error" if b'data: {"error":' in answer else "odd"


LEAVE = {"close": socket.socket.close, "reset": reset,
         "half-close": lambda connection: connection.shutdown(socket.SHUT_WR)}


@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("stream", [False, True])
def test_leaving_with_a_further_request_sent_ahead(narrow, nothing_leaks, leave, stream):
    """Its bytes make the socket readable for ever, which must not hide its end."""
    nothing_leaks(narrow)
    aborted = narrow.info()["aborted_total"]
    ahead = request(complete(max_tokens=1))
    connections = [connect(narrow, request(complete(stream=stream, **ENDLESS), ahead[:part]))
                   for part in (1, 30, len(ahead))]
    wait_for(lambda: narrow.info()["running"] == 3)
    time.sleep(0.25)
    assert narrow.info()["running"] == 3, "sending ahead is no end"
    for connection in connections:
        LEAVE[leave](connection)
    assert narrow.quiet(1.5), narrow.info()
    assert narrow.info()["aborted_total"] == aborted + 3
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("leave", LEAVE)
def test_leaving_before_the_request_is_whole(narrow, nothing_leaks, leave):
    nothing_leaks(narrow)
    total = narrow.info()["requests_total"]
    whole = request(complete(**ENDLESS))
    connections = [connect(narrow, whole[:cut]) for cut in (1, 20, whole.index(HEAD_END) + 4, len(whole) - 1)]
    time.sleep(0.05)
    for connection in connections:
        LEAVE[leave](connection)
    wait_for(lambda: narrow.info()["requests_total"] == total)
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("leave", LEAVE)
def test_leaving_while_streaming_and_after_the_last_byte(narrow, nothing_leaks, leave):
    nothing_leaks(narrow)
    aborted = narrow.info()["aborted_total"]
    streams = [connect(narrow, request(complete(stream=True, **ENDLESS))) for _ in range(4)]
    for stream in streams:
        assert b"data: " in stream.recv(1 << 16) + stream.recv(1 << 16)
        LEAVE[leave](stream)
    assert narrow.quiet(2.0), narrow.info()
    assert narrow.info()["aborted_total"] == aborted + 4
    ended_ones = [connect(narrow, request(complete(stream=stream))) for stream in (False, True)]
    assert [kind_of(answer) for answer in read_all(ended_ones)] == ["whole", "whole"]
    for connection in streams + ended_ones:
        if connection in ended_ones:
            LEAVE[leave](connection)
        connection.close()
    assert narrow.quiet(2.0)
    assert narrow.info()["aborted_total"] == aborted + 4, "what was answered is not aborted"


def test_a_proxy_that_holds_the_connection_and_does_not_read(narrow, nothing_leaks):
    """Its own client has left. The stream ends when enough of it waits, and says so where it is read again."""
    nothing_leaks(narrow)
    aborted = narrow.info()["aborted_total"]
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    held.connect(("127.0.0.1", narrow.port))
    held.sendall(request(complete(stream=True, **ENDLESS)))
    wait_for(lambda: narrow.info()["aborted_total"] == aborted + 1, 60)
    assert narrow.quiet(1.0)
    answer, = read_all([held])
    assert kind_of(answer) == "error" and b"client_too_slow" in answer
    held.close()


def test_clients_leave_at_random_among_others(start, tiny_model, nothing_leaks):
    """Whoever stays gets the very answer that it gets alone."""
    server = start(tiny_model, "--max-total-tokens", "1024", "--chunked-prefill-size", "16",
                   "--max-running-requests", "16")
    nothing_leaks(server)
    source = random.Random(8)
    prompts = [[4 + (i * 31 + j * 7) % 250 for j in range(20 + 17 * i)] for i in range(12)]
    bodies = [complete(prompt=ids, max_tokens=30, temperature=0, ignore_eos=True) for ids in prompts]

    def text_of(answer: bytes) -> str:
        assert kind_of(answer) == "whole"
        return json.loads(answer[answer.index(HEAD_END) + 4:])["choices"][0]["text"]

    alone = [text_of(read_all([connect(server, request(body))])[0]) for body in bodies]
    for _ in range(6):
        stay = [connect(server, request(body)) for body in bodies]
        leave = [connect(server, request({**source.choice(bodies), "stream": source.random() < 0.5}))
                 for _ in range(24)]
        source.shuffle(leave)
        for connection in leave:
            time.sleep(source.random() * 0.01)
            source.choice(list(LEAVE.values()))(connection)
        assert [text_of(answer) for answer in read_all(stay)] == alone
        for connection in stay + leave:
            connection.close()


def test_a_thousand_connections_at_once(start, tiny_model, nothing_leaks):
    server = start(tiny_model, "--max-total-tokens", "4096")
    nothing_leaks(server)
    bodies = [complete(prompt=[4 + (seed * 7 + i) % 250 for i in range(10 + seed % 60)], ignore_eos=True,
                       max_tokens=1 + seed % 12, stream=seed % 3 == 0, stream_options={"include_usage": True})
              for seed in range(1000)]
    for body in bodies:
        if not body["stream"]:
            del body["stream_options"]
    connections = [connect(server, request(body)) for body in bodies]
    for body, answer in zip(bodies, read_all(connections, 120)):
        assert kind_of(answer) == "whole", answer[:300]
        counted = b'"completion_tokens":%d' % body["max_tokens"]
        assert counted in answer
    for connection in connections:
        connection.close()


def test_more_connections_than_are_held(start, tiny_model, nothing_leaks):
    """Those beyond the limit are told so at once, the others are served."""
    server = start(tiny_model)
    nothing_leaks(server)
    body = request(complete(max_tokens=400, ignore_eos=True))
    connections = [connect(server, body) for _ in range(1400)]
    kinds = [kind_of(answer) for answer in read_all(connections, 120)]
    assert set(kinds) == {"whole", "503"} and kinds.count("whole") >= 900
    for connection in connections:
        connection.close()


def test_a_full_queue_refuses_at_once_and_serves_the_rest(start, endless_model, nothing_leaks):
    server = start(endless_model, "--max-running-requests", "2", "--max-queued-requests", "8")
    nothing_leaks(server)
    blocking = [connect(server, request(complete(**ENDLESS))) for _ in range(2)]
    wait_for(lambda: server.info()["running"] == 2)
    crowd = [connect(server, request(complete(max_tokens=2, stream=i % 2 == 0))) for i in range(60)]
    wait_for(lambda: server.info()["queued"] == 8)
    refused = []
    with selectors.DefaultSelector() as selector:
        for connection in crowd:
            selector.register(connection, selectors.EVENT_READ)
        begin = time.monotonic()
        while len(refused) < 52:
            assert time.monotonic() < begin + 10, len(refused)
            for key, _ in selector.select(1):
                selector.unregister(key.fileobj)
                refused.append(key.fileobj)
    for answer in read_all(refused):
        assert answer.startswith(b"HTTP/1.1 503") and b"\r\nRetry-After: 1\r\n" in answer
        assert b'"code":"queue_full"' in answer
    for connection in blocking:
        connection.close()
    taken = [connection for connection in crowd if connection not in refused]
    assert [kind_of(answer) for answer in read_all(taken)] == ["whole"] * 8
    for connection in crowd:
        connection.close()


def two_hundred(server, **body) -> list[socket.socket]:
    connections = [connect(server, request(complete(
        prompt=[4 + i % 250] * 5, ignore_eos=True, stream=i % 2 == 0, **body))) for i in range(200)]
    wait_for(lambda: server.info()["running"] == 200)
    return connections


def test_sigterm_with_200_running_lets_them_finish(start, tiny_model):
    server = start(tiny_model, "--max-running-requests", "200")
    running = two_hundred(server, max_tokens=480)
    queued = [connect(server, request(complete(max_tokens=3, stream=i % 2 == 0))) for i in range(20)]
    wait_for(lambda: server.info()["queued"] == 20)
    server.process.send_signal(signal.SIGTERM)
    answers = read_all(running + queued, 60)
    assert [kind_of(answer) for answer in answers] == ["whole"] * 220
    assert server.process.wait(10) == 0


def test_sigterm_with_200_running_that_cannot_finish(start, mute_model):
    """Whatever a client was at it is told: a stream by its last event, the others by 503."""
    server = start(mute_model, "--max-running-requests", "200", "--drain-timeout", "1")
    running = two_hundred(server, max_tokens=190_000)
    queued = [connect(server, request(complete(prompt="t", stream=i % 2 == 0))) for i in range(20)]
    half = connect(server, request(complete(prompt="t"))[:-3])
    wait_for(lambda: server.info()["queued"] == 20)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "second signal" in server.log())
    half.sendall(request(complete(prompt="t"))[-3:])
    begin = time.monotonic()
    answers = read_all(running + queued + [half], 60)
    kinds = [kind_of(answer) for answer in answers]
    # A silent stream has not begun, so that it may be refused as a whole.
    assert set(kinds[:200:2]) <= {"error", "503"} and set(kinds[1:200:2]) == {"503"}
    assert set(kinds[200:]) == {"503"}
    for answer in answers:
        assert b"request_cancelled" in answer or b"engine_stopping" in answer or b"server_draining" in answer
    assert server.process.wait(10) == 0
    assert time.monotonic() - begin < 20


def test_sigterm_while_a_thousand_connect(start, endless_model):
    """Those that have connected before the listener closes get an answer, whoever comes later is refused by the
    system; nobody is cut within an answer."""
    server = start(endless_model, "--max-running-requests", "16", "--drain-timeout", "2")
    connections = []
    for i in range(600):
        if i == 300:
            server.process.send_signal(signal.SIGTERM)
        try:
            connections.append(connect(server, request(complete(max_tokens=2, stream=i % 2 == 0))))
        except ConnectionError:
            break
    assert len(connections) >= 300
    answers = read_all(connections)
    kinds = [kind_of(answer) for answer in answers]
    assert set(kinds[:300]) <= {"whole", "503", "error"}
    assert all(kind in ("whole", "503", "error") or answer == b"" for kind, answer in zip(kinds, answers))
    assert server.process.wait(20) == 0
