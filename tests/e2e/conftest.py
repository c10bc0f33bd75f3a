"""Starts the real program on a free port and hands it to the tests.

QUERN_BIN names the program (default build/release/quern), QUERN_DEFAULT_MODEL the real model; tests
that need the real model are skipped where it is not there.
"""
import os
import pathlib
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERN = os.environ.get("QUERN_BIN", str(ROOT / "build/release/quern"))
sys.path.insert(0, str(ROOT / "tests/data/hostile"))
import makers  # noqa: E402

START_SECONDS = 120


def default_model() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.environ.get("QUERN_DEFAULT_MODEL")
    return pathlib.Path(path or f"{cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf")


class Server:
    """One `quern serve`; stdout is read line by line, stderr kept in a file."""

    def __init__(self, model, *args, log, env=None, wrap=(), **popen):
        self.log_path = pathlib.Path(log)
        command = [*wrap, QUERN, "serve", "--model", str(model), "--port", "0",
                   "--served-model-name", "m", *args]
        self.stdout = queue.Queue()
        with open(self.log_path, "wb") as stderr:
            popen.setdefault("stderr", stderr)
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True,
                                            **popen)
        threading.Thread(target=self._read, daemon=True).start()
        self.url = None
        deadline = time.monotonic() + START_SECONDS
        while self.url is None:
            line = self.stdout.get(timeout=max(0.0, deadline - time.monotonic()))
            if line is None:
                raise RuntimeError(f"quern ended with {self.process.wait()}: {self.log()}")
            if line.startswith("quern is ready at "):
                self.url = line.removeprefix("quern is ready at ").strip()
        self.curl = self.stdout.get(timeout=10)
        self.port = int(self.url.rsplit(":", 1)[1])
        limits = httpx.Limits(max_connections=128, keepalive_expiry=30)
        self.http = httpx.Client(base_url=self.url, timeout=120, limits=limits, trust_env=False)

    def _read(self):
        for line in self.process.stdout:
            self.stdout.put(line)
        self.stdout.put(None)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def post(self, path, body, **more):
        content = body if isinstance(body, (bytes, str)) else None
        json = None if content is not None else body
        return self.http.post(path, content=content, json=json, **more)

    def get(self, path, **more):
        return self.http.get(path, **more)

    def info(self) -> dict:
        return self.get("/server_info").json()

    def quiet(self, seconds=5.0) -> bool:
        """Whether nothing runs or waits and every page is back, within the time given."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.info()
            if now["running"] == now["queued"] == now["pages_used"] == 0:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120)

    def raw(self, path, body: bytes) -> socket.socket:
        """A connection that has sent one POST."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                           % (path.encode(), len(body)) + body)
        return connection

    def stop(self, seconds=30) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def reset(connection: socket.socket) -> None:
    """Closes with a reset in place of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("quern")


@pytest.fixture(scope="session")
def tiny_model(work):
    path = work / "tiny.gguf"
    makers.tiny_gguf(str(path))
    return path


@pytest.fixture(scope="session")
def endless_model(work):
    """As tiny_model with a context so long that requests run until they are cancelled."""
    path = work / "endless.gguf"
    length = makers.kv("llama.context_length", makers.U32, 200_000)
    makers.tiny_gguf(str(path), kvo={"llama.context_length": length})
    return path


@pytest.fixture(scope="session")
def mute_model(work):
    """Nearly all its tokens are control tokens, which write nothing: a stream that runs is silent,
    so that a reader which gets little time has nothing to catch up with."""
    path = work / "mute.gguf"
    kinds = [3] * len(makers.V)
    for token in ("\u0120", "t", "\u0120t"):
        kinds[makers.V.index(token)] = 1
    makers.tiny_gguf(str(path), kvo={
        "llama.context_length": makers.kv("llama.context_length", makers.U32, 200_000),
        "tokenizer.ggml.token_type": makers.kv("tokenizer.ggml.token_type", makers.ARR, kinds, makers.I32)})
    return path


@pytest.fixture(scope="session")
def start(work):
    """Starts servers that end with the session; start(model, *flags) -> Server."""
    started = []

    def begin(model, *args, **more):
        server = Server(model, *args, log=work / f"server{len(started)}.log", **more)
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def tiny(start, tiny_model):
    return start(tiny_model)


@pytest.fixture(scope="session")
def smol_model():
    if not default_model().exists():
        pytest.skip(f"the default model is not there: {default_model()}")
    return default_model()


@pytest.fixture(scope="session")
def smol(start, smol_model):
    return start(smol_model)


@pytest.fixture(autouse=True)
def servers_stay_alive(request):
    """After each test that used them the shared servers still run, are idle and hold no page."""
    yield
    for name in ("tiny", "smol"):
        if name in request.fixturenames:
            server = request.getfixturevalue(name)
            assert server.process.poll() is None, server.log()[-2000:]
            assert server.get("/health").status_code == 200
            assert server.quiet(), server.info()


@pytest.fixture(scope="session")
def exported(work):
    """The error catalogue as static files."""
    folder = work / "catalogue"
    subprocess.run([QUERN, "catalog", "export", str(folder)], check=True, capture_output=True,
                   timeout=60)
    return folder


@pytest.fixture(scope="session")
def catalog_server(work):
    """`quern catalog serve` on a free port, as an HTTP client."""
    with open(work / "catalog.log", "wb") as stderr:
        process = subprocess.Popen([QUERN, "catalog", "serve", "--port", "0"], text=True,
                                   stdout=subprocess.PIPE, stderr=stderr)
    url = process.stdout.readline().removeprefix("quern is ready at ").strip()
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield client
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
