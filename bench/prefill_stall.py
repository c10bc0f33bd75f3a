#!/usr/bin/env python3
"""How long streams wait for their next token while a long prompt is computed beside them.

Starts quern, lets users stream, measures the gaps between their tokens for a while, sends one long
prompt and measures the gaps until its first token; some rounds of both. The server's target: the
99th percentile with the prompt is at most 2.5 times that without.

Usage: bench/prefill_stall.py [MODEL.gguf] [flags; --help] [-- flags of quern serve]
"""
import argparse
import contextlib
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from compare import wait_for_calm
from compare_serving import free_port

DEFAULT_MODEL = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
                             "quern/models/SmolLM2-135M-Instruct.Q4_1.gguf")


@contextlib.contextmanager
def server(options):
    port = free_port()
    process = subprocess.Popen(
        [options.quern, "serve", "--model", options.model, "--port", str(port), "--threads",
         str(options.threads), "--log-level", "error", *options.flags], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if process.poll() is not None:
                sys.exit("quern did not start")
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def send(port, ids, **more):
    body = json.dumps({"prompt": ids, "ignore_eos": True, "temperature": 0, **more}).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                       % len(body) + body)
    connection.setblocking(False)
    return connection


class Streams:
    """The users; `gaps` takes the seconds before each token since it was last emptied."""

    def __init__(self, port, options, source):
        self.selector = selectors.DefaultSelector()
        self.last = {}
        self.gaps = []
        for _ in range(options.users):
            ids = [source.randrange(100, 40000) for _ in range(options.user_tokens)]
            self.selector.register(send(port, ids, stream=True, max_tokens=7000), selectors.EVENT_READ)

    def read(self, end, answer=None):
        """Until `end`, or until `answer` has begun to come."""
        if answer:
            self.selector.register(answer, selectors.EVENT_READ)
        while (now := time.monotonic()) < end:
            for key, _ in self.selector.select(end - now):
                part = key.fileobj.recv(1 << 16)
                now = time.monotonic()
                if key.fileobj is answer:
                    self.selector.unregister(answer)
                    if not part.startswith(b"HTTP/1.1 200"):
                        sys.exit(part.decode(errors="replace"))
                    return now
                if not part:
                    sys.exit("a stream ended")
                tokens = part.count(b"data: ")
                if key.fileobj in self.last and tokens:
                    self.gaps += [(now - self.last[key.fileobj]) / tokens] * tokens
                if tokens:
                    self.last[key.fileobj] = now
        return now

    def take(self):
        gaps, self.gaps = sorted(self.gaps), []
        return gaps


def figures(gaps):
    at = lambda share: 1e3 * gaps[min(len(gaps) - 1, int(len(gaps) * share))]
    return {"tokens": len(gaps), "p50": at(0.5), "p99": at(0.99), "most": at(1)}


def measure(options):
    source = random.Random(options.seed)
    rounds = []
    with server(options) as port:
        streams = Streams(port, options, source)
        end = time.monotonic() + 60
        while len(streams.last) < options.users:
            if time.monotonic() > end:
                sys.exit("not all users got a token within a minute")
            streams.read(time.monotonic() + 0.1)
        streams.read(time.monotonic() + 2)
        for _ in range(options.rounds):
            streams.take()
            streams.read(time.monotonic() + options.calm_seconds)
            calm = figures(streams.take())
            ids = [source.randrange(100, 40000) for _ in range(options.prompt_tokens)]
            begin = time.monotonic()
            done = streams.read(begin + 300, send(port, ids, max_tokens=1))
            beside = figures(streams.take())
            rounds.append({"calm": calm, "beside": beside, "prompt_seconds": done - begin,
                           "ratio": beside["p99"] / calm["p99"]})
    return rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("--users", type=int, default=32)
    parser.add_argument("--user-tokens", type=int, default=64, help="prompt of each")
    parser.add_argument("--prompt-tokens", type=int, default=7000, help="the long prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calm-seconds", type=float, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait", type=float, default=60, help="most seconds to wait for calm")
    parser.add_argument("--json", help="file for every figure")
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    options = parser.parse_args(own[:cut])
    options.flags = own[cut + 1:]
    wait_for_calm(options.wait)
    rounds = measure(options)
    print(f"{options.users} streams; gaps between tokens in ms, alone and beside a prompt of "
          f"{options.prompt_tokens} tokens")
    print(f"  {'':<8}{'p50':>8}{'p99':>8}{'most':>8}   {'p50':>8}{'p99':>8}{'most':>8}"
          f"{'p99 ratio':>12}{'prompt s':>10}")
    for number, found in enumerate(rounds):
        row = "   ".join("".join(f"{found[side][name]:>8.1f}" for name in ("p50", "p99", "most"))
                         for side in ("calm", "beside"))
        print(f"  round {number + 1:<2}{row}{found['ratio']:>12.2f}{found['prompt_seconds']:>10.1f}")
    print(f"  median of the ratios: {statistics.median(r['ratio'] for r in rounds):.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rounds, file, indent=1)


if __name__ == "__main__":
    main()
