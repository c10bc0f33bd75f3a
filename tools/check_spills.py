#!/usr/bin/env python3
"""Counts what the hot loops of the kernels spill: stores of whole vector registers to the stack inside innermost loops
that multiply. g++ is apt to hoist products and spill accumulators, which halves a kernel's speed without any other sign.

Usage: tools/check_spills.py FOLDER_OF_OBJECTS [--list]
Fails where a kernel spills more of its products than LIMITS allow, or where a kernel named there is gone.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

# Spilled registers per hundred products, at most, over all loops of an object file. Measured with g++ 12 and rounded
# up; a kernel that spills every sum shows 50 and more.
LIMITS = {
    "matmul_avx2.cpp.o": 15,
    "matmul_planes_avx2.cpp.o": 20,
    "matmul_avx512.cpp.o": 2,
    "attention_avx2.cpp.o": 2,
    "attention_avx512.cpp.o": 2,
    "mla_avx2.cpp.o": 2,
    "mla_avx512.cpp.o": 2,
}
PRODUCT = re.compile(r"\tv(dpbf16ps|dpbusd|fn?m(add|sub)\d+ps|pmaddubsw)\b")
SPILL = re.compile(r"\tvmov\w+\s+%[yz]mm\d+,(-?0x[0-9a-f]+)?\(%r[sb]p\)")
JUMP = re.compile(r"\tj[a-z]+\s+([0-9a-f]+) <")


def functions(path):
    """(name, [(address, text)]) of an object file."""
    text = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", path], capture_output=True, text=True,
                          check=True).stdout
    name, lines = None, []
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            if name:
                yield name, lines
            name, lines = head[1], []
        elif ":" in line and name:
            address, _, rest = line.partition(":")
            try:
                lines.append((int(address, 16), rest))
            except ValueError:
                pass
    if name:
        yield name, lines


def loops(lines):
    """Innermost loops: from the target of a backward jump to the jump, with no other such loop inside."""
    spans = []
    for address, text in lines:
        jump = JUMP.search(text)
        if jump and int(jump[1], 16) <= address:
            spans.append((int(jump[1], 16), address))
    for begin, end in spans:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in spans):
            yield [text for address, text in lines if begin <= address <= end]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    failed = False
    for file, limit in LIMITS.items():
        objects = list(options.folder.rglob(file))
        if not objects:
            print(f"{file}: no such object below {options.folder}")
            failed = True
            continue
        products = spills = 0
        by_function = collections.defaultdict(lambda: [0, 0])
        for name, lines in functions(objects[0]):
            for loop in loops(lines):
                count = sum(bool(PRODUCT.search(text)) for text in loop)
                if count < 4:
                    continue
                spilled = sum(bool(SPILL.search(text)) for text in loop)
                products, spills = products + count, spills + spilled
                by_function[name][0] += count
                by_function[name][1] += spilled
        share = 100 * spills / max(1, products)
        over = share > limit or products == 0
        failed |= over
        print(f"{file}: {spills} spills, {products} products in innermost loops{': more than allowed' if over else ''}")
        if over or options.list:
            for name, (count, spilled) in by_function.items():
                print(f"  {spilled:4} of {count:4}  {name[:110]}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
