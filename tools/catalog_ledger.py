#!/usr/bin/env python3
"""Holds the catalogue to its promise: a symbol, id or slug that was published never changes.

The ledger (src/catalog/ledger.json) lists every entry ever published. The check fails where one of
it has vanished or changed, and where an entry is not in it yet; --append writes those in and never touches
the others. An entry whose message changes keeps its slug by naming it: "slug": "…".

Usage: catalog_ledger.py SRC_DIR [--append]
"""
import json
import pathlib
import sys

import generate_errors

COMMAND = "python3 tools/catalog_ledger.py src --append"


def faults(ledger: dict, entries: dict) -> list[str]:
    found = []
    for symbol, published in ledger.items():
        if symbol not in entries:
            found.append(f"{symbol}: published, but its entry is gone; ids and slugs are links that circulate")
        elif entries[symbol] != published:
            found.append(f"{symbol}: published as {published}, now {entries[symbol]}; "
                         "name the published id and slug in the entry")
    fresh = [symbol for symbol in entries if symbol not in ledger]
    if fresh:
        found.append(f"not in the ledger yet: {', '.join(fresh)}\n  {COMMAND}")
    return found


def main() -> None:
    src = pathlib.Path(sys.argv[1])
    path = src / "catalog/ledger.json"
    ledger = json.loads(path.read_text()) if path.exists() else {}
    entries = {entry["symbol"]: {"id": entry["id"], "slug": entry["slug"]}
               for entry in generate_errors.load(src / "catalog/entries")}
    if "--append" in sys.argv:
        merged = dict(sorted({**entries, **ledger}.items()))
        rows = ",\n".join(f"  {json.dumps(symbol)}: {json.dumps(names)}" for symbol, names in merged.items())
        path.write_text(f"{{\n{rows}\n}}\n")
        print(f"{len(merged) - len(ledger)} entries added")
        return
    found = faults(ledger, entries)
    print("\n".join(found) or f"{len(ledger)} entries are as published")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
