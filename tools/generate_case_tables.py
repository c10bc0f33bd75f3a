#!/usr/bin/env python3
"""Write src/text/jinja/case_tables.inc: how letters change their case, from Python's own Unicode data.

Usage: generate_case_tables.py > src/text/jinja/case_tables.inc
"""
import unicodedata

MAPS = (("kUpper", str.upper), ("kLower", str.lower), ("kTitle", str.title))
LETTERS = [chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def ranges(change):
    """[first, last, stride, distance] of the letters that become one other letter."""
    found = []
    for letter in LETTERS:
        code, changed = ord(letter), change(letter)
        if len(changed) != 1 or changed == letter:
            continue
        distance = ord(changed) - code
        if found:
            first, last, stride, known = found[-1]
            if known == distance and (code - last == stride or first == last and code - last <= 2):
                found[-1] = first, code, code - last, distance
                continue
        found.append((code, code, 1, distance))
    return found


def rows(items, width):
    return "\n".join("    " + " ".join(items[i:i + width]) for i in range(0, len(items), width))


print(f"// Letters beyond ASCII and what they become, of Unicode {unicodedata.unidata_version}. "
      "Made by tools/generate_case_tables.py.")
for name, change in MAPS:
    cells = [f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}," for a, b, s, d in ranges(change)]
    print(f"constexpr CaseRange {name}[] = {{\n{rows(cells, 4)}\n}};")
for name, change in MAPS:
    cells = []
    for letter in LETTERS:
        changed = change(letter)
        if len(changed) > 1:
            cells.append("{0x%X, {%s}}," % (ord(letter), ", ".join(f"0x{ord(c):X}" for c in changed)))
    print(f"constexpr CaseExpansion {name}Expansions[] = {{\n{rows(cells, 4)}\n}};")
