#!/usr/bin/env python3
"""Tests of the checks and generators of this folder: each finds what it is for, and nothing else."""
import pathlib
import tempfile
import unittest

import catalog_ledger
import check_errors
import check_layers
import check_raised
import generate_catalog

ENTRIES = '{"symbol": "Broken", "message": "m", "httpStatus": 500, "type": "server_error"}'


class Tree(unittest.TestCase):
    def faults(self, check, files: dict[str, str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            src = pathlib.Path(folder)
            for name, text in files.items():
                (src / name).parent.mkdir(parents=True, exist_ok=True)
                (src / name).write_text(text)
            return "\n".join(check.faults(src))

    def errors(self, code: str) -> str:
        return self.faults(check_errors, {
            "catalog/entries/core/Broken.json": ENTRIES,
            "core/a.cpp": "void f() { throw Error(errors::kBroken); }\n" + code})

    def test_layers(self):
        self.assertEqual("", self.faults(check_layers, {
            "cache/a.h": '#include "core/b.h"\n#include "cache/c.h"\n#include <vector>\n'}))
        self.assertIn("cache may not include engine/b.h", self.faults(
            check_layers, {"cache/a.h": '#include "engine/b.h"\n'}))
        self.assertIn("does not begin with a folder", self.faults(
            check_layers, {"cache/a.h": '#include "b.h"\n'}))
        self.assertIn("not in the table", self.faults(check_layers, {"new/a.h": "\n"}))

    def test_throws(self):
        self.assertEqual("", self.errors("void g() { throw; }"))
        self.assertEqual("", self.errors("// throw 1;\nconst char* t = \"throw 1; exit(1)\";"))
        self.assertEqual("", self.errors(
            "Error made(int);\nvoid g() {\n  const auto own = [](int x) {\n    return Error(x);\n"
            "  };\n  throw made(1);\n  throw own(2);\n}"))
        self.assertIn("throws past", self.errors(
            "void g() {\n  const auto own = [](int x) {\n    return Other(x);\n  };\n"
            "  throw own(2);\n}"))
        for code in ("throw std::runtime_error(\"x\");", "throw\n 1;", "throw error;"):
            self.assertIn("a.cpp:2: throw", self.errors(f"void g() {{ {code} }}"))

    def test_ends(self):
        for code in ("std::abort();", "exit(1);", "assert(true);", "::_exit(2);", "std::terminate();"):
            self.assertIn("ends the process", self.errors(f"void g() {{ {code} }}"))
        self.assertEqual("", self.errors("void g(X& x) { x.exit(); static_assert(true); }"))

    def test_unused_entries(self):
        self.assertIn("no code raises Broken", self.faults(
            check_errors, {"catalog/entries/core/Broken.json": ENTRIES, "core/a.cpp": "\n"}))

    def test_ledger(self):
        one = {"A": {"id": "1", "slug": "a"}}
        self.assertEqual([], catalog_ledger.faults(one, dict(one)))
        self.assertIn("is gone", catalog_ledger.faults(one, {})[0])
        self.assertIn("published as", catalog_ledger.faults(one, {"A": {"id": "1", "slug": "b"}})[0])
        self.assertIn("--append", catalog_ledger.faults({}, one)[0])

    def test_raised(self):
        entries = [{"symbol": "A", "area": "core"}, {"symbol": "B", "area": "sglang"},
                   {"symbol": "C", "area": "core"}]
        self.assertEqual(["A"], check_raised.missing(entries, {"C"}))
        self.assertEqual([], check_raised.missing(entries, {"A", "C"}))

    def test_patterns(self):
        pattern = generate_catalog.pattern_of
        self.assertEqual(r"Got \(.+?\) \[now\]: .+", pattern("Got ({a}) [now]: {b}"))
        self.assertEqual(r"\S+ backend, .+?\.", pattern("{name} backend, {why}."))
        self.assertEqual("snake_case_here", generate_catalog.snake_case("SnakeCaseHere"))

    def test_statements(self):
        code = ["int a = 1;", "if (a > 1) {", "  throw Error(errors::kA,", "              {});", "}"]
        self.assertEqual((1, 3), generate_catalog.statement(code, 2))
        self.assertEqual((0, 0), generate_catalog.statement(code, 0))


if __name__ == "__main__":
    unittest.main()
