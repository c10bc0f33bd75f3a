#!/usr/bin/env python3
"""Checks that no folder of src/ includes what the table of docs/architecture.md does not allow.

Every `#include "folder/…"` (and the public `quern/…`) of every file below src/ is held against the
table here, which is that page's. A file may include its own folder. Exit code 1 lists what breaks it.

Usage: check_layers.py SRC_DIR
"""
import pathlib
import re
import sys

LOW = {"base", "core"}
ENGINE = LOW | {"checkpoint", "kernels", "cache", "scheduler", "attention", "model", "text", "grammar"}
ALLOWED = {
    "base": set(),
    "core": {"base"},
    "catalog": {"base"},
    "checkpoint": LOW,
    "kernels": LOW,
    "cache": LOW | {"kernels"},
    "scheduler": LOW | {"cache"},
    "attention": LOW | {"kernels", "cache"},
    "model": LOW | {"checkpoint", "kernels", "cache", "attention"},
    "text": LOW | {"checkpoint"},
    "grammar": LOW | {"text"},
    "engine": ENGINE,
    "server": LOW | {"catalog", "engine"},
    "load": {"base"},
    "cli": LOW | {"catalog", "engine", "server", "load", "kernels", "text"},
}
# Folders that may know the public header: those at and above the engine, and text for messages.
PUBLIC = {"engine", "server", "cli", "text", "scheduler", "grammar"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def faults(src: pathlib.Path) -> list[str]:
    found = []
    for path in sorted(src.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        folder = path.relative_to(src).parts[0]
        if folder not in ALLOWED:
            found.append(f"{path}: folder {folder} is not in the table")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            other = target.split("/")[0]
            place = f"{path}:{number}"
            if "/" not in target or other not in ALLOWED.keys() | {"quern"}:
                found.append(f"{place}: \"{target}\" does not begin with a folder of src/")
            elif other == "quern":
                if folder not in PUBLIC:
                    found.append(f"{place}: {folder} may not include the public header {target}")
            elif other != folder and other not in ALLOWED[folder]:
                found.append(f"{place}: {folder} may not include {target}")
    return found


def main() -> None:
    found = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "every include is allowed")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
