#!/usr/bin/env python3
"""Generates base/errors/<area>.h and base/error_entries.cpp from src/catalog/entries/<area>/*.json.

Each file is one entry of the catalogue (docs/catalogue.md lists its fields). Here count: symbol (the
C++ constant without its k), message (a template with {field} placeholders), httpStatus, type (the
OpenAI error type) and, where links to an older id circulate, id. Without one the id is the first 16
hex digits of SHA-256 of the symbol. The slug is the message in lower case and dashes, cut at 50
characters; a placeholder counts as its name. Entries of the area "sglang" are messages that only
SGLang prints, so no code can raise them.

A header holds the constants of one area, so that a new entry rebuilds what raises errors of it.

Usage: generate_errors.py OUT_DIR ENTRIES_DIR
"""
import hashlib
import json
import pathlib
import re
import sys

UPSTREAM_ONLY = "sglang"
HEAD = "// Generated from src/catalog/entries by tools/generate_errors.py. Do not edit.\n"


def slug_of(message: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", message.lower()).strip("-")[:50].strip("-")


def load(folder: pathlib.Path) -> list[dict]:
    """Every entry with its area, id and slug, ordered by area and symbol."""
    entries, seen = [], {}
    for path in sorted(folder.glob("*/*.json")):
        entry = json.loads(path.read_text())
        missing = {"symbol", "message", "httpStatus", "type"} - entry.keys()
        if missing:
            sys.exit(f"{path}: lacks {sorted(missing)}")
        if path.stem != entry["symbol"]:
            sys.exit(f"{path}: the file is not named as its symbol {entry['symbol']}")
        entry["area"] = path.parent.name
        entry.setdefault("id", hashlib.sha256(entry["symbol"].encode()).hexdigest()[:16])
        entry.setdefault("slug", slug_of(entry["message"]))
        for key in ("symbol", "id", "slug"):
            if (key, entry[key]) in seen:
                sys.exit(f"{path}: {key} {entry[key]!r} stands in {seen[key, entry[key]]} too")
            seen[key, entry[key]] = path
        entries.append(entry)
    return entries


def write(path: pathlib.Path, text: str) -> None:
    """Leaves an equal file alone, so that what includes it is not rebuilt."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> None:
    out, folder = map(pathlib.Path, sys.argv[1:])
    entries = [entry for entry in load(folder) if entry["area"] != UPSTREAM_ONLY]
    for area in sorted({entry["area"] for entry in entries}):
        ids = "".join(f"inline constexpr ErrorId k{e['symbol']}{{0x{e['id']}}};\n"
                      for e in entries if e["area"] == area)
        write(out / f"errors/{area}.h",
              f"{HEAD}#pragma once\n\n#include \"base/error.h\"\n\nnamespace quern::errors {{\n\n{ids}\n"
              "}  // namespace quern::errors\n")
    rows = "".join(
        "    {ErrorId{0x%s}, %s, %s, %s, %s, %s, %s},\n" % (
            e["id"], literal(e["symbol"]), literal(e["id"]), literal(e["slug"]),
            literal(e["message"]), literal(e["type"]), e["httpStatus"] or 500)
        for e in sorted(entries, key=lambda entry: entry["id"]))
    write(out / "error_entries.cpp",
          f"{HEAD}#include \"base/error.h\"\n\nnamespace quern {{\nnamespace {{\n\n"
          f"constexpr ErrorEntry kEntries[] = {{\n{rows}}};\n\n}}  // namespace\n\n"
          "std::span<const ErrorEntry> error_entries() { return kEntries; }\n\n"
          "}  // namespace quern\n")
    (out / "error_entries.stamp").touch()


if __name__ == "__main__":
    main()
