#!/usr/bin/env python3
"""Puts the same loads on quern and on llama.cpp's server in turns; called by compare_serving.sh.

Each measurement starts its server anew, so that no cache is warm, and sends one load of `quern bench
serve`: requests of users in a closed loop, the same words to both, answers of equal length. Two
loads: `users`, requests that share a short beginning, on quern and llama.cpp; `conversations` that
share a long one and whose answers come back as history, on quern with and without its prefix cache.
llama.cpp gets a slot for each user, unified KV memory of the same size and its own defaults else.
"""
import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from compare import wait_for_calm

FIGURES = (("requests/s", "request_throughput", 1), ("tokens/s out", "output_throughput", 1),
           ("TTFT mean ms", "mean_ttft_ms", -1), ("TTFT p99 ms", "p99_ttft_ms", -1),
           ("ITL median ms", "median_itl_ms", -1), ("ITL p99 ms", "p99_itl_ms", -1),
           ("E2E mean ms", "mean_e2e_latency_ms", -1))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    def __init__(self, options):
        self.options = options

    def quern(self, *flags):
        o = self.options
        return [o.quern, "serve", "--model", o.model, "--threads", str(o.threads), "--log-level",
                "error", "--max-total-tokens", str(o.cache_tokens), *flags]

    def llama(self, users):
        o = self.options
        return [f"{o.llama}/llama-server", "-m", o.model, "-t", str(o.threads), "-tb",
                str(o.threads), "-np", str(users), "-c", str(o.cache_tokens), "--kv-unified",
                "--no-webui", "--log-disable"]

    @contextlib.contextmanager
    def server(self, command):
        """The address of a server that answers; it is ended afterwards."""
        port = free_port()
        process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)}\n{process.stderr.read()[-2000:]}")
                with contextlib.suppress(OSError):
                    if urllib.request.urlopen(url + "/health", timeout=5).status == 200:
                        break
                time.sleep(0.1)
            else:
                sys.exit(f"{command[0]} did not answer within a minute")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def measure(self, command, load):
        wait_for_calm(self.options.wait)
        with self.server(command) as url:
            done = subprocess.run([self.options.quern, "bench", "serve", "--base-url", url, *load,
                                   "--json", "-", "--log-level", "error"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        if found["failed"]:
            sys.exit(f"{' '.join(command)}\nfailed requests: {found['failures']}")
        return found

    def cases(self):
        """(name, load, {who: server's command}), whom the others are compared with first"""
        o = self.options
        users = ["--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "1",
                 "--gsp-system-prompt-len", "64", "--gsp-question-len", "128", "--gsp-output-len",
                 "64", "--gsp-prompts-per-group", str(o.requests), "--max-concurrency", str(o.users)]
        yield "users", users, {"quern": self.quern(), "llama.cpp": self.llama(o.users)}
        turns = ["--dataset-name", "multi-turn", "--gsp-system-prompt-len", "1000", "--num-prompts",
                 str(o.talkers), "--num-turns", str(o.turns), "--random-input-len", "100",
                 "--random-output-len", "64", "--max-concurrency", str(o.talkers)]
        yield "conversations", turns, {"quern": self.quern(),
                                       "no prefix cache": self.quern("--disable-radix-cache")}


def report(figures):
    for name, by in figures.items():
        complete = {who: runs for who, runs in by.items() if runs}
        if len(complete) < 2:
            continue
        ours, theirs = complete
        cached = {who: runs[0]["total_cached_tokens"] / max(1, runs[0]["total_input_tokens"])
                  for who, runs in complete.items()}
        run = complete[ours][0]
        print(f"{name}: {run['completed']} requests, {run['total_input_tokens']} tokens in, "
              f"{run['total_output_tokens']} out; from the cache "
              + ", ".join(f"{who} {share:.0%}" for who, share in cached.items()))
        print(f"  {'':<16}{ours:>12}{'range':>20}{theirs:>18}{'range':>20}{'ratio':>8}")
        for label, field, sense in FIGURES:
            values = {who: [run[field] for run in runs] for who, runs in complete.items()}
            medians = {who: statistics.median(v) for who, v in values.items()}
            span = lambda v: f"{min(v):.2f}-{max(v):.2f}"
            better = medians[ours] / medians[theirs] if sense > 0 else medians[theirs] / medians[ours]
            print(f"  {label:<16}{medians[ours]:>12.2f}{span(values[ours]):>20}"
                  f"{medians[theirs]:>18.2f}{span(values[theirs]):>20}{better:>8.2f}")
    print("A ratio above 1 is in favour of the first.")


def main():
    parser = argparse.ArgumentParser()
    for name in ("quern", "llama", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--users", type=int, default=32, help="users of the first load")
    parser.add_argument("--requests", type=int, default=96, help="their requests in all")
    parser.add_argument("--talkers", type=int, default=16, help="conversations of the second")
    parser.add_argument("--turns", type=int, default=8, help="turns of each")
    parser.add_argument("--cache-tokens", type=int, default=65536, help="KV cache of both servers")
    parser.add_argument("--wait", type=float, default=60, help="most seconds to wait for calm")
    parser.add_argument("--only", help="users or conversations; without it both")
    parser.add_argument("--json", help="file for every single figure")
    bench = Bench(parser.parse_args())
    figures = {}
    try:
        for number in range(bench.options.rounds):
            for name, load, servers in bench.cases():
                if bench.options.only and name != bench.options.only:
                    continue
                for who, command in servers.items():
                    print(f"round {number + 1}: {name}, {who}", file=sys.stderr, flush=True)
                    by = figures.setdefault(name, {key: [] for key in servers})
                    by[who].append(bench.measure(command, load))
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
    report(figures)
    if bench.options.json:
        with open(bench.options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
