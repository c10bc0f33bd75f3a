#!/usr/bin/env python3
"""Makes the error catalogue that is built into the program, one JSON file, from the entry sources.

The sources are src/catalog/entries/<area>/<Symbol>.json (docs/catalogue.md lists their fields) and
src/catalog/dataset.json (versions, SGLang's commit). What an entry does not say itself is found
here: where the sources of src/ raise it, with the lines around; the expression that finds its message in a
log; the ids of related entries. Beside the records stand the things that the matcher needs: how
many characters of a message are fixed, and its longest fixed piece.

Usage: generate_catalog.py OUT_FILE SRC_DIR [--strict]     --strict: every entry has all its texts
"""
import hashlib
import json
import pathlib
import re
import sys

import check_errors
import generate_errors

KEYS = ("id repo slug errorCode errorMessage messagePattern errorType errorClass httpStatus severity filePath "
        "lineNumber sourceCode sourceCodeStart sourceCodeEnd githubUrl documentation triggerScenarios "
        "commonSituations solutions exampleFix handlingStrategy validationCode typeGuard tryCatchPattern "
        "preventionTips tags backgroundTag analyzedSha analyzedAt schemaVersion").split()
TEXTS = ("severity documentation triggerScenarios commonSituations solutions exampleFix handlingStrategy "
         "validationCode typeGuard preventionTips tags backgroundTag related").split()
KNOWN = {"symbol", "id", "slug", "message", "pattern", "httpStatus", "type", "errorClass", "upstream",
         "tryCatchPattern", "area", *TEXTS}
PLACEHOLDER = re.compile(r"\{(\w+)\}")
MAX_EXCERPT = 16  # lines


def snake_case(symbol: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", symbol).lower()


def pieces(message: str) -> list[str]:
    """The fixed parts of a message, between its placeholders."""
    return PLACEHOLDER.split(message)[::2]


def pattern_of(message: str) -> str:
    """Anchored nowhere. A placeholder at the beginning is one word, so that a long line costs little."""
    parts = [re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", piece) for piece in pieces(message)]
    text = parts[0] or (r"\S+" if len(parts) > 1 else "")
    for number, part in enumerate(parts[1:], 1):
        if number == 1 and not parts[0]:
            text += part
        else:
            text += (".+?" if part or number + 1 < len(parts) else ".+") + part
    return text


class Sources:
    """Where the code of src/ names errors."""

    def __init__(self, src: pathlib.Path):
        self.places: dict[str, list] = {}
        self.files: dict[str, tuple[list[str], bytes]] = {}
        for path in sorted(src.rglob("*")):
            test = path.stem.endswith("_test") or path.stem.startswith(("test_", "fake_"))
            if path.suffix not in {".h", ".cpp", ".inc"} or test:
                continue
            name = f"src/{path.relative_to(src).as_posix()}"
            code = check_errors.code_of(path).split("\n")
            self.files[name] = (path.read_text().split("\n"), path.read_bytes())
            for number, line in enumerate(code):
                for match in re.finditer(r"\berrors::k([A-Z]\w*)", line):
                    start, end = statement(code, number)
                    words = "\n".join(code[start:end + 1])
                    compares = re.search(r"[!=]=\s*errors::k$", line[:match.start(1)])
                    rank = (3 if compares else 2 if f"error_entry(errors::k{match.group(1)}" in words
                            else 0 if re.search(r"\bthrow\b", words) else 1)
                    self.places.setdefault(match.group(1), []).append(
                        (rank, name, number, start, end))

    def raised(self, symbol: str):
        """(file, line, first, last) of the best place, counted from 1, or None."""
        found = self.places.get(symbol)
        if not found:
            return None
        _, name, number, start, end = min(found)
        return name, number + 1, start + 1, end + 1

    def excerpt(self, name: str, first: int, last: int) -> str:
        lines = self.files[name][0][first - 1:last]
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        return "\n".join(line[indent:] for line in lines)

    def blob_sha(self, name: str) -> str:
        content = self.files[name][1]
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def statement(code: list[str], line: int) -> tuple[int, int]:
    """First and last line, from 0, of the statement at `line`, with an `if` that leads to it."""
    start = line
    while start > 0 and line - start < MAX_EXCERPT // 2:
        before = code[start - 1].rstrip()
        if not before or (before.endswith((";", "}", ":", "},")) and start <= line):
            break
        if before.endswith("{"):
            if re.match(r"\s*(\} )?(if|else|for|switch|case|catch)\b", before) and start - 1 >= 0:
                start -= 1
            break
        start -= 1
    end, depth = line, 0
    text = "\n".join(code[start:line + 1])
    depth = text.count("(") - text.count(")")
    while end + 1 < len(code) and end - start < MAX_EXCERPT - 1:
        tail = code[end].rstrip()
        if depth <= 0 and tail.endswith((";", "},", "}")):
            break
        end += 1
        depth += code[end].count("(") - code[end].count(")")
    return start, end


def record_of(entry: dict, sources: Sources, dataset: dict) -> tuple[dict, dict | None]:
    place = sources.raised(entry["symbol"]) if entry["area"] != generate_errors.UPSTREAM_ONLY else None
    raised = None
    if place:
        name, line, first, last = place
        raised = {"file": name, "line": line, "excerpt": sources.excerpt(name, first, last)}
    upstream = entry.get("upstream")
    record = {
        "id": entry["id"], "slug": entry["slug"], "errorCode": None,
        "errorMessage": entry["message"],
        "messagePattern": entry.get("pattern") or pattern_of(entry["message"]),
        "errorType": entry["type"], "errorClass": entry.get("errorClass", "quern::Error"),
        "httpStatus": entry["httpStatus"], "severity": entry.get("severity", "error"),
        "analyzedAt": dataset["analyzedAt"], "schemaVersion": 2,
        "tryCatchPattern": entry.get("tryCatchPattern"),
    }
    if entry["area"] != generate_errors.UPSTREAM_ONLY:
        own_code = re.search(r'\{"code", "(\w+)"\}', raised["excerpt"]) if raised else None
        record["errorCode"] = own_code.group(1) if own_code else snake_case(entry["symbol"])
    if upstream:
        url = dataset["upstream"]["url"].format(sha=dataset["upstream"]["sha"], file=upstream["file"])
        line = upstream.get("line")
        record |= {
            "repo": dataset["upstream"]["repo"], "filePath": upstream["file"], "lineNumber": line,
            "sourceCode": None, "sourceCodeStart": upstream.get("start"),
            "sourceCodeEnd": upstream.get("end"), "githubUrl": f"{url}#L{line}" if line else url,
            "analyzedSha": dataset["upstream"]["sha"]}
    elif raised:
        record |= {
            "repo": dataset["repo"], "filePath": name, "lineNumber": line,
            "sourceCode": raised["excerpt"], "sourceCodeStart": first, "sourceCodeEnd": last,
            "githubUrl": f"{name}#L{line}", "analyzedSha": sources.blob_sha(name)}
    else:  # no code raises it yet
        name = f"src/catalog/entries/{entry['area']}/{entry['symbol']}.json"
        record |= {
            "repo": dataset["repo"], "filePath": name, "lineNumber": None, "sourceCode": None,
            "sourceCodeStart": None, "sourceCodeEnd": None, "githubUrl": name, "analyzedSha": ""}
    for key in ("solutions", "preventionTips", "tags"):
        record[key] = entry.get(key, [])
    for key in ("documentation", "triggerScenarios", "commonSituations", "handlingStrategy",
                "validationCode", "typeGuard", "backgroundTag"):
        record[key] = entry.get(key, "")
    fix = entry.get("exampleFix")
    record["exampleFix"] = f"# before\n{fix['before']}\n\n# after\n{fix['after']}" if fix else ""
    return {key: record[key] for key in KEYS}, raised


def make(src: pathlib.Path, strict: bool) -> dict:
    dataset = json.loads((src / "catalog/dataset.json").read_text())
    entries = generate_errors.load(src / "catalog/entries")
    ids = {entry["symbol"]: entry["id"] for entry in entries}
    sources, made, faults = Sources(src), [], []
    for entry in entries:
        unknown = sorted(entry.keys() - KNOWN)
        lacking = sorted(key for key in TEXTS if key not in entry) if strict else []
        strangers = [symbol for symbol in entry.get("related", []) if symbol not in ids]
        if unknown:
            faults.append(f"{entry['symbol']}: unknown fields {unknown}")
        if lacking:
            faults.append(f"{entry['symbol']}: lacks {lacking}")
        if strangers and strict:
            faults.append(f"{entry['symbol']}: related to {strangers}, which are no entries")
        record, raised = record_of(entry, sources, dataset)
        if strict and not raised and not entry.get("upstream"):
            faults.append(f"{entry['symbol']}: neither raised in src/ nor with an upstream place")
        fixed = [piece.strip() for piece in pieces(entry["message"])]
        made.append({
            "symbol": entry["symbol"], "area": entry["area"],
            "literal": sum(map(len, fixed)),
            "anchor": "" if "pattern" in entry else max(fixed, key=len),
            "record": record,
            "related": [ids[symbol] for symbol in entry.get("related", []) if symbol in ids],
            "raisedAt": raised})
    if faults:
        sys.exit("\n".join(faults))
    return {"datasetVersion": dataset["datasetVersion"], "entries": made}


def main() -> None:
    arguments = [word for word in sys.argv[1:] if word != "--strict"]
    if len(arguments) != 2:
        sys.exit(__doc__.rsplit("\n", 2)[1])
    text = json.dumps(make(pathlib.Path(arguments[1]), "--strict" in sys.argv), ensure_ascii=False,
                      separators=(",", ":"))
    generate_errors.write(pathlib.Path(arguments[0]), text)


if __name__ == "__main__":
    main()
