#!/usr/bin/env python3
"""Generates the table of models that quern knows by name, from src/checkpoint/known/*.json.

Each file holds {"names": [names on the hub], "config": {fields of the published config.json that
tell the model's shape}}; the file's name is the model's short name. Read by known_models.cpp.

Usage: generate_known_models.py OUT_FILE FOLDER
"""
import json
import pathlib
import sys

HEAD = "// Generated from src/checkpoint/known by tools/generate_known_models.py. Do not edit.\n"


def rows(folder: pathlib.Path) -> list[str]:
    made, seen = [], {}
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem.lower()):
        model = json.loads(path.read_text())
        if model.keys() != {"names", "config"} or not model["names"]:
            sys.exit(f"{path}: expected names and config, both filled")
        short = {path.stem.lower()} | {name.split("/")[-1].lower() for name in model["names"]}
        for name in short | {name.lower() for name in model["names"]}:
            if seen.setdefault(name, path) != path:
                sys.exit(f"{path}: {name} stands in {seen[name]} too")
        config = json.dumps(model["config"], separators=(",", ":"))
        names = "\\n".join(model["names"])
        made.append(f'    {{"{path.stem}", "{names}", R"json({config})json"}},\n')
    return made


def main() -> None:
    out, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = HEAD + "".join(rows(folder))
    if not out.exists() or out.read_text() != text:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    out.with_suffix(".stamp").touch()


if __name__ == "__main__":
    main()
