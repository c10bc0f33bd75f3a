#!/usr/bin/env python3
"""Measures quern and llama.cpp in turns on one model file; called by compare_llama_cpp.sh.

Both get the same numbers of tokens and threads; no prompt is cached, nothing is sampled. llama.cpp
runs with flash attention off and on and is counted at its best. A measurement during which other
programs took more than a twentieth of the processors is thrown away and made again: llama.cpp's
spinning threads lose most of their speed then, and quern's some.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

FLASH = ("off", "on")
QUIET = 0.05  # of all processors, used by others


def jiffies():
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    return sum(fields[:8]), fields[3] + fields[4]  # all; idle


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def output_of(command):
    """What the command prints, and the share of the processors that others took meanwhile."""
    total, idle, own = *jiffies(), own_seconds()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    total_now, idle_now = jiffies()
    hertz = os.sysconf("SC_CLK_TCK")
    span = max(1, total_now - total)
    busy = span - (idle_now - idle)
    return done.stdout, max(0.0, busy - (own_seconds() - own) * hertz) / span


def wait_for_calm(limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        total, idle = jiffies()
        time.sleep(1)
        total_now, idle_now = jiffies()
        if idle_now - idle > (1 - QUIET) * (total_now - total):
            return


class Bench:
    def __init__(self, options):
        self.options = options
        self.disturbed = 0

    def measure(self, command, read):
        """The figure of a calm run; of the least disturbed one if none was calm."""
        best = None
        for _ in range(self.options.tries):
            wait_for_calm(self.options.wait)
            text, others = output_of(command)
            if best is None or others < best[1]:
                best = read(text), others
            if others <= QUIET:
                break
        self.disturbed += best[1] > QUIET
        return best

    def quern(self, field, *flags):
        o = self.options
        command = [o.quern, "bench", "latency", "--model", o.model, "--threads", str(o.threads),
                   "--repeats", "1", "--json", "--log-level", "error", *flags]
        return self.measure(command, lambda text: json.loads(text)[field])

    def llama_bench(self, flash, *flags):
        o = self.options
        command = [f"{o.llama}/llama-bench", "-m", o.model, "-t", str(o.threads), "-fa", flash,
                   "-r", "1", "-o", "json", *flags]
        return self.measure(command, lambda text: json.loads(text)[0]["avg_ts"])

    def llama_batched(self, flash, batch):
        o = self.options
        command = [f"{o.llama}/llama-batched-bench", "-m", o.model, "-t", str(o.threads), "-tb",
                   str(o.threads), "-fa", flash, "-c", "8192", "-npp", "16", "-ntg", "64", "-npl",
                   str(batch), "--output-format", "jsonl"]

        def read(text):
            lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            return lines[-1]["speed_tg"]

        return self.measure(command, read)

    def cases_of_contexts(self):
        """Prompts of each length, and decode after as many tokens."""
        for n in self.options.contexts.split(","):
            yield (f"prefill {n}",
                   lambda n=n: self.quern("prefill_tokens_per_s", "--prefill", n, "--decode", "1"),
                   lambda flash, n=n: self.llama_bench(flash, "-p", n, "-n", "0"))
            yield (f"decode at {n}",
                   lambda n=n: self.quern("decode_tokens_per_s", "--depth", str(int(n) - 1),
                                          "--prefill", "1", "--decode", "32"),
                   lambda flash, n=n: self.llama_bench(flash, "-p", "0", "-n", "32", "-d", n))

    def cases(self):
        """(name, quern's run, llama.cpp's run with a word for flash attention)"""
        if self.options.contexts:
            yield from self.cases_of_contexts()
            return
        prefill, decode = "prefill_tokens_per_s", "decode_tokens_per_s"
        for n in ("512", "2048"):
            yield (f"prefill {n}", lambda n=n: self.quern(prefill, "--prefill", n, "--decode", "1"),
                   lambda flash, n=n: self.llama_bench(flash, "-p", n, "-n", "0"))
        yield ("decode at 0", lambda: self.quern(decode, "--prefill", "1", "--decode", "64"),
               lambda flash: self.llama_bench(flash, "-p", "0", "-n", "64"))
        yield ("decode at 2048",
               lambda: self.quern(decode, "--depth", "2047", "--prefill", "1", "--decode", "64"),
               lambda flash: self.llama_bench(flash, "-p", "0", "-n", "64", "-d", "2048"))
        for batch in ("8", "64"):
            yield (f"decode batch {batch}",
                   lambda b=batch: self.quern(decode, "--prefill", "16", "--decode", "64",
                                              "--batch", b),
                   lambda flash, b=batch: self.llama_batched(flash, b))


def report(figures, bench):
    heads = ("quern", "range", "llama.cpp", "range", "ratio")
    print("{:<16}{:>9}{:>18}{:>11}{:>18}{:>8}  flash".format("tokens/s", *heads))
    for name, by in figures.items():
        values = {who: [value for value, _ in runs] for who, runs in by.items()}
        tried = [flash for flash in FLASH if flash in values]
        if not tried:  # interrupted
            continue
        best = max(tried, key=lambda flash: statistics.median(values[flash]))
        ours, theirs = statistics.median(values["quern"]), statistics.median(values[best])
        span = lambda v: f"{min(v):.1f}-{max(v):.1f}"
        print(f"{name:<16}{ours:9.1f}{span(values['quern']):>18}{theirs:11.1f}"
              f"{span(values[best]):>18}{ours / theirs:8.2f}  {best}")
    count = sum(len(runs) for by in figures.values() for runs in by.values())
    print(f"{count} measurements, {bench.disturbed} of them while other programs took more than "
          f"{QUIET:.0%} of the processors")


def main():
    parser = argparse.ArgumentParser()
    for name in ("quern", "llama", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--wait", type=float, default=60, help="most seconds to wait for calm")
    parser.add_argument("--tries", type=int, default=3, help="most runs for a calm one")
    parser.add_argument("--only", help="names of cases, with commas between; without it all")
    parser.add_argument("--contexts",
                        help="lengths, e.g. 512,4096: prefill and decode at each instead")
    parser.add_argument("--flash", default=",".join(FLASH),
                        help="llama.cpp's flash attention: off,on, or only the one known to be better")
    parser.add_argument("--json", help="file for every single figure")
    bench = Bench(parser.parse_args())
    figures = {}
    try:
        for number in range(bench.options.rounds):
            for name, ours, theirs in bench.cases():
                if bench.options.only and name not in bench.options.only.split(","):
                    continue
                print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
                by = figures.setdefault(name, {})
                by.setdefault("quern", []).append(ours())
                for flash in bench.options.flash.split(","):
                    by.setdefault(flash, []).append(theirs(flash))
    except KeyboardInterrupt:
        print("interrupted; what was measured until then:", file=sys.stderr)
    report(figures, bench)
    if bench.options.json:
        with open(bench.options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
