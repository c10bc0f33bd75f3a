#!/usr/bin/env python3
"""Generates base/error_ids.{h,cpp} from src/catalog/entries/*.json.

An entry file is a list of objects: symbol (the C++ enumerator without its k), message (a template
with {field} placeholders), httpStatus, type (the OpenAI error type) and, where links to an older id
circulate, id. Without one the id is the first 16 hex digits of SHA-256 of the symbol. The slug is
the message in lower case and dashes, cut at 50 characters; a placeholder counts as its name.

Usage: generate_errors.py OUT_DIR ENTRY.json...
"""
import hashlib
import json
import pathlib
import re
import sys


def slug_of(message: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", message.lower()).strip("-")[:50].strip("-")


def load(paths: list[str]) -> list[dict]:
    entries, seen = [], {}
    for path in sorted(paths):
        for entry in json.loads(pathlib.Path(path).read_text()):
            missing = {"symbol", "message", "httpStatus", "type"} - entry.keys()
            if missing:
                sys.exit(f"{path}: entry {entry.get('symbol')} lacks {sorted(missing)}")
            entry.setdefault("id", hashlib.sha256(entry["symbol"].encode()).hexdigest()[:16])
            entry["slug"] = slug_of(entry["message"])
            for key in ("symbol", "id", "slug"):
                if (key, entry[key]) in seen:
                    sys.exit(f"{path}: {key} {entry[key]!r} stands in {seen[key, entry[key]]} too")
                seen[key, entry[key]] = path
            entries.append(entry)
    return entries


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    entries = load(sys.argv[2:])
    out.mkdir(parents=True, exist_ok=True)
    ids = "".join(f"  k{e['symbol']},\n" for e in entries)
    (out / "error_ids.h").write_text(
        "// Generated from src/catalog/entries/*.json by tools/generate_errors.py. Do not edit.\n"
        "#pragma once\n\n#include <cstdint>\n\nnamespace quern {\n\n"
        f"enum class ErrorId : std::uint16_t {{\n{ids}}};\n\n"
        f"inline constexpr int kErrorCount = {len(entries)};\n\n}}  // namespace quern\n")
    rows = "".join(
        "    {%s, %s, %s, %s, %s, %d},\n" % (
            json.dumps(e["symbol"]), json.dumps(e["id"]), json.dumps(e["slug"]),
            json.dumps(e["message"], ensure_ascii=False), json.dumps(e["type"]), e["httpStatus"])
        for e in entries)
    (out / "error_ids.cpp").write_text(
        "// Generated from src/catalog/entries/*.json by tools/generate_errors.py. Do not edit.\n"
        '#include "base/error.h"\n\nnamespace quern {\n\n'
        f"const ErrorEntry kErrorEntries[kErrorCount] = {{\n{rows}}};\n\n}}  // namespace quern\n")


if __name__ == "__main__":
    main()
