"""The program as a process: its port, its end, its surroundings, and models with bad numbers."""
import json
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

import makers
from conftest import QUERN
from helpers import ask, at_once, complete, error, events


def refused(*args, env=None):
    """Runs `quern serve`, which must refuse to start; its stderr."""
    done = subprocess.run([QUERN, "serve", *map(str, args)], env=env, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stdout == ""
    return done.stderr


def test_a_port_in_use_is_refused_before_weights_load(tiny, tiny_model):
    message = refused("--model", tiny_model, "--port", tiny.port)
    assert message.splitlines()[0].startswith("error[") and str(tiny.port) in message
    assert "Loading" not in message


def test_addresses_that_cannot_be_listened_on(tiny_model):
    assert "192.0.2.1" in refused("--model", tiny_model, "--port", 0, "--host", "192.0.2.1")
    assert "70000" in refused("--model", tiny_model, "--port", 70000)


def test_a_missing_model_is_refused(work):
    assert str(work / "none.gguf") in refused("--model", work / "none.gguf", "--port", 0)


def test_sigterm_finishes_the_running_stream(start, endless_model):
    server = start(endless_model)
    body = json.dumps(complete(max_tokens=1500, ignore_eos=True, stream=True)).encode()
    connection = server.raw("/v1/completions", body)
    received = connection.recv(4096)
    server.process.send_signal(signal.SIGTERM)
    while part := connection.recv(1 << 16):
        received += part
    assert received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert server.process.wait(30) == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=2)


def test_sigterm_bounds_the_time_that_requests_get(start, mute_model):
    server = start(mute_model, "--drain-timeout", "1")
    body = {"messages": [{"role": "user", "content": "t"}], "max_tokens": 150_000, "ignore_eos": True}
    with server.raw("/v1/chat/completions", json.dumps(body).encode()) as whole, \
            server.raw("/v1/chat/completions", json.dumps({**body, "stream": True}).encode()) as stream:
        received = stream.recv(4096)
        while server.info()["running"] < 2:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        while part := stream.recv(1 << 16):
            received += part
        assert received.startswith(b"HTTP/1.1 200") and b'data: {"error":' in received
        assert b"request_cancelled" in received
        answer = b""
        while part := whole.recv(1 << 16):
            answer += part
        assert answer.startswith(b"HTTP/1.1 503") and b"request_cancelled" in answer
    assert server.process.wait(30) == 0


def test_a_second_signal_ends_at_once(start, endless_model):
    server = start(endless_model, "--drain-timeout", "600")
    body = json.dumps(complete(max_tokens=150_000, ignore_eos=True)).encode()
    with server.raw("/v1/completions", body):
        while server.info()["running"] == 0:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        while "second signal" not in server.log():
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == -signal.SIGTERM


def test_one_cpu_means_one_thread(start, tiny_model):
    cpu = str(min(os.sched_getaffinity(0)))
    server = start(tiny_model, wrap=("taskset", "-c", cpu))
    assert server.info()["threads"] == 1
    assert "threads 1" in server.log()
    assert ask(server, complete(), False)[1] in ("stop", "length")


def test_instruction_sets_are_forced_and_named(start, tiny_model):
    answers = {}
    for isa, name in (("ref", "portable"), ("avx2", "avx2")):
        server = start(tiny_model, "--dtype", "float32", "--kv-cache-dtype", "float32",
                       env={**os.environ, "QUERN_ISA": isa})
        assert server.info()["isa"] == name and f"isa {name}" in server.log()
        answers[isa] = ask(server, complete(temperature=0, max_tokens=32), False)
    assert answers["ref"] == answers["avx2"]


SURROUNDINGS = {
    "an empty environment": dict(env={}),
    "no home": dict(env={"PATH": os.environ["PATH"]}),
    "a home that is not there": dict(env={"HOME": "/nonexistent", "TMPDIR": "/nonexistent"}),
    "a full log device": dict(stderr=open("/dev/full", "wb")),
    "no stderr": dict(wrap=("sh", "-c", 'exec "$@" 2>&-', "sh")),
    "no stdin": dict(wrap=("sh", "-c", 'exec "$@" <&-', "sh")),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_it_starts_and_serves_in(name, start, tiny_model):
    server = start(tiny_model, **SURROUNDINGS[name])
    assert ask(server, complete(), True)[1] in ("stop", "length")
    assert server.stop() == 0


def test_it_serves_from_folders_that_cannot_be_written(start, work):
    folder = work / "read_only"
    folder.mkdir()
    makers.tiny_gguf(str(folder / "tiny.gguf"))
    folder.chmod(0o555)
    before = sorted(os.listdir(folder))
    server = start(folder / "tiny.gguf", cwd=folder)
    assert ask(server, complete(), False)[1] in ("stop", "length")
    assert sorted(os.listdir(folder)) == before


def test_version_works_anywhere():
    done = subprocess.run([QUERN, "--version"], env={"HOME": "/nonexistent", "QUERN_ISA": "nosuch"},
                          cwd="/", capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and done.stdout.startswith("quern ")


def test_a_file_cut_while_it_is_served_changes_nothing(start, tiny_model, work):
    path = work / "cut.gguf"
    path.write_bytes(tiny_model.read_bytes())
    server = start(path)
    before = ask(server, complete(temperature=0), False)
    os.truncate(path, 4096)
    assert ask(server, complete(temperature=0), False) == before
    assert server.quiet() and server.get("/health").status_code == 200


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_no_numbers(start, tiny_model, work, value):
    path = work / f"{value}.gguf"
    path.write_bytes(tiny_model.read_bytes()[:-4] + struct.pack("<f", float(value)))
    server = start(path)
    for stream in (False, True):
        found = error(server.post("/v1/completions", complete(stream=stream, temperature=0)), 500)
        assert found["code"] == "numeric_fault" and "step" in found["message"]
    assert server.quiet() and server.get("/health").status_code == 200


def test_one_bad_request_leaves_its_neighbour_alone(start, work):
    """Only prompts with a '~' meet the bad row: the head has weights of its own."""
    path = work / "nan_row.gguf"
    tensors = []
    for _, name, rows, columns, raw in makers.tensors(tied=False):
        if name == "token_embd.weight":
            at = (4 + ord("~")) * columns * 4
            raw = raw[:at] + struct.pack("<f", float("nan")) + raw[at + 4:]
        tensors.append((name, [columns, rows] if columns else [rows], 0, raw))
    makers.gguf(str(path), makers.base_kv(), tensors)
    server = start(path)
    clean = complete(prompt="clean", temperature=0, max_tokens=300, ignore_eos=True)
    alone = ask(server, clean, True)
    assert "~" not in alone[0]
    beside = at_once([lambda: ask(server, clean, True)] +
                     [lambda: server.post("/v1/completions", complete(prompt="a~b"))] * 8)
    assert beside[0] == alone
    for reply in beside[1:]:
        assert error(reply, 500)["code"] == "numeric_fault"


def interleaved(raw, heads, columns):
    """Rows of q or k in the order GGUF keeps them: the halves of each head take turns."""
    size = columns * 4
    rows = [raw[at:at + size] for at in range(0, len(raw), size)]
    dim = len(rows) // heads
    return b"".join(rows[head * dim + half * dim // 2 + i]
                    for head in range(heads) for i in range(dim // 2) for half in range(2))


def test_a_folder_of_safetensors_serves_its_gguf_twin_s_text(start, work):
    makers.tiny_hf(str(work / "tinyhf"))
    tensors = []
    for _, name, rows, columns, raw in makers.tensors():
        if name.endswith("attn_q.weight"):
            raw = interleaved(raw, makers.H, columns)
        if name.endswith("attn_k.weight"):
            raw = interleaved(raw, makers.KH, columns)
        tensors.append((name, [columns, rows] if columns else [rows], 0, raw))
    makers.gguf(str(work / "twin.gguf"), makers.base_kv(), tensors)
    exact = ("--dtype", "float32", "--kv-cache-dtype", "float32")
    folder, twin = start(work / "tinyhf", *exact), start(work / "twin.gguf", *exact)
    for seed in range(10):
        body = complete(prompt=f"text {seed}", temperature=1, seed=seed, max_tokens=60)
        assert ask(folder, body, False) == ask(twin, body, False)
    chats = {"messages": [{"role": "user", "content": "a"}], "stream": True, "max_tokens": 4}
    assert events(folder.post("/v1/chat/completions", chats))
