#!/usr/bin/env python3
"""Checks that every error of src/ is an entry of the catalogue, and every entry is an error of src/.

In the code of src/ (tests, comments and strings aside) the only throws are `throw Error(…)`, the
same through a function or lambda of the file that returns one, and the rethrow `throw;`; nothing calls std::abort, exit, std::terminate or assert; each symbol of
src/catalog/entries is named as kSymbol somewhere, but those that only SGLang prints. Exit code 1 lists what breaks this.

Usage: check_errors.py SRC_DIR
"""
import pathlib
import re
import sys

UPSTREAM_ONLY = "sglang"  # the area of entries that no code of ours raises
STRIP = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
THROW = re.compile(r"\bthrow\b\s*(;|(?:(?:::)?quern::)?(\w+)\s*\()?")
# What makes an Error to be thrown: a function that returns one, a lambda whose body does.
MAKER = re.compile(r"\bError\s+(\w+)\s*\(")
LAMBDA = re.compile(r"\bauto\s+(\w+)\s*=\s*\[(?:(?!\n  ?};|\n {4,}};).)*?\breturn\s+Error\s*\(", re.S)
ENDS = re.compile(
    r"(?<![\w.>:])(?:(?:std)?::(?:abort|exit|quick_exit|terminate|_Exit|_exit)|exit|_exit)\s*\("
    r"|\bassert\s*\(")


def code_of(path: pathlib.Path) -> str:
    """The file with comments and literals blanked, line numbers kept."""
    return STRIP.sub(lambda match: "\n" * match.group().count("\n"), path.read_text())


def faults(src: pathlib.Path) -> list[str]:
    found, used = [], set()
    for path in sorted(src.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        code = code_of(path)
        test = path.stem.endswith("_test")
        if not test:
            used.update(re.findall(r"\bk[A-Z]\w*", code))
            makers = {"Error", *MAKER.findall(code), *LAMBDA.findall(code)}
            past = [match for match in THROW.finditer(code)
                    if match.group(1) != ";" and match.group(2) not in makers]
            for matches, fault in ((past, "throws past the catalogue"),
                                   (ENDS.finditer(code), "ends the process")):
                for match in matches:
                    line = code.count("\n", 0, match.start()) + 1
                    found.append(f"{path}:{line}: {match.group().strip()}…: {fault}")
    for path in sorted((src / "catalog/entries").glob("*/*.json")):
        if path.parent.name != UPSTREAM_ONLY and f"k{path.stem}" not in used:
            found.append(f"{path}: no code raises {path.stem}")
    return found


def main() -> None:
    found = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "every error is of the catalogue")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
