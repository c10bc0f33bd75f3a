#!/usr/bin/env python3
"""Checks that wide instructions stand only where the dispatch table leads.

In the archive of kernels the objects built with instruction-set flags (*_avx2, *_avx512, *_amx) may
use them, and must define no weak function: the linker could take such a copy for everybody, and an
older processor would meet it. All other objects of the given archives must not have a single VEX- or
EVEX-coded instruction, static initialisers included. Tile instructions stand in *_amx alone. Exit
code 1 lists what breaks this.

Usage: check_isa.py ARCHIVE.a...
"""
import re
import subprocess
import sys

# intel_amx is a backend's name, not a kernel's: its object must be as narrow as the others.
AMX = re.compile(r"^(?!intel_amx\.).*_amx\.cpp\.o$")
WIDE = re.compile(r"^(?!intel_amx\.).*_(avx2|avx512|amx)\.cpp\.o$")
MEMBER = re.compile(r"^(\S+\.o):\s+file format")
FUNCTION = re.compile(r"^[0-9a-f]* ?<(.+)>:$")
# Every AVX mnemonic begins with v, but for those of the mask registers and tiles.
INSTRUCTION = re.compile(r"^\s*(?:[0-9a-f]+:)?\s*(v[a-z0-9]+|k(?:mov|or|and|shift|test|xor)\w*|tile\w+|tdp\w+|(?:ld|st)tilecfg)(?:\s|$)")
TILE = re.compile(r"tile|tdp|ldtile|sttile")
NOT_AVX = {"verr", "verw", "vmcall", "vmrun", "vmload", "vmsave"}


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def narrow_faults(archive: str) -> list[str]:
    found, member, function = [], "", ""
    for line in run("objdump", "-d", "--no-show-raw-insn", archive).splitlines():
        if match := MEMBER.match(line):
            member = match.group(1)
        elif match := FUNCTION.match(line):
            function = match.group(1)
        elif not AMX.search(member) and (match := INSTRUCTION.match(line)):
            wide = WIDE.search(member) and not TILE.match(match.group(1))
            if not wide and match.group(1) not in NOT_AVX:
                found.append(f"{member}: {match.group(1)} in {function}")
    return found


def wide_faults(archive: str) -> list[str]:
    found, member = [], ""
    for line in run("nm", "--defined-only", archive).splitlines():
        if line.endswith(".o:"):
            member = line[:-1]
        elif WIDE.search(member) and len(fields := line.split()) == 3 and fields[1] in "WVu":
            found.append(f"{member}: weak {fields[2]}")
    return found


def main() -> None:
    found = [fault for archive in sys.argv[1:]
             for fault in narrow_faults(archive) + wide_faults(archive)]
    print("\n".join(found[:50]) or "wide instructions stand behind the dispatch table only")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
