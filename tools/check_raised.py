#!/usr/bin/env python3
"""Tells which errors no test has raised through a public entry point.

The trace holds the symbols of the errors that the programs under test made (QUERN_ERROR_TRACE, see
src/base/error.cpp), one a line. Every entry of the catalogue must be among them but those that only
SGLang prints and the exceptions here, each with its reason.

Usage: check_raised.py SRC_DIR TRACE_FILE [--warn]    --warn: report, but do not fail
"""
import pathlib
import sys

import generate_errors

EXCEPTIONS = {
    "GrammarTooCostly": "needs a mask of more than two seconds, which the limits of grammars are there to prevent",
    "CpuTooOld": "needs a processor without SSE4.2; main prints it before any Error can be made",
    "InternalError": "our own bug, which no input can reach; base's tests look at its words",
    "StepFailed": "an exception inside a step that is no Error: only a bug or a lack of memory makes one",
    "UnexpectedFailure": "an exception that reaches main and is no Error: every one we know is turned into one",
    "OutOfMemory": "a real lack of memory ends other programs of the machine too",
}


def missing(entries: list[dict], raised: set[str]) -> list[str]:
    return [entry["symbol"] for entry in entries
            if entry["area"] != generate_errors.UPSTREAM_ONLY and entry["symbol"] not in raised
            and entry["symbol"] not in EXCEPTIONS]


def main() -> None:
    src, trace = map(pathlib.Path, sys.argv[1:3])
    entries = generate_errors.load(src / "catalog/entries")
    own = [entry for entry in entries if entry["area"] != generate_errors.UPSTREAM_ONLY]
    raised = set(trace.read_text().split()) if trace.exists() else set()
    left = missing(entries, raised)
    print(f"errors: {len(own)} can be raised, {len(raised & {e['symbol'] for e in own})} were raised by a test, "
          f"{len(left)} were not")
    if left:
        print("  not raised: " + " ".join(left))
    sys.exit(1 if left and "--warn" not in sys.argv else 0)


if __name__ == "__main__":
    main()
