#!/usr/bin/env python3
"""Times chat templates on a long conversation, by `quern template --repeats`.

    bench/render_templates.py [--messages 200] [--only chatml,gpt-oss]

ChatML is built in; the templates of real models are read from $QUERN_SHARED/fixtures/chat-templates
(default ../shared) where that folder is there. Each figure is the processor time of one rendering
from parsed request to prompt: the median of the rounds and their range.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAID = (
    "Tell me how the mill grinds wheat, and why the miller kept a book of what came in and what went out.",
    "The wheel turns the stones; the grain falls between them. The book showed that nothing was lost but the\n"
    "twentieth part that the law allowed him for his trouble, and so he could answer to the farms.",
)


def default_model():
    """Its tokens for the beginning and the end are those that templates write."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("QUERN_DEFAULT_MODEL") or f"{cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf"


def conversation(count):
    return [{"role": ("user", "assistant")[i % 2], "content": f"{i}: {SAID[i % 2]}"} for i in range(count)]


# Some of the templates fail without.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weigh",
            "description": "Weighs a sack of grain.",
            "parameters": {
                "type": "object",
                "properties": {"sack": {"type": "string", "description": "Its number"}},
                "required": ["sack"],
            },
        },
    }
]


def milliseconds(quern, template, chat, repeats):
    done = subprocess.run(
        [
            quern,
            "template",
            "--model",
            default_model(),
            "--chat-template",
            template,
            "--repeats",
            str(repeats),
            "--log-level",
            "error",
        ],
        input=chat,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return None, done.stderr.splitlines()[0]
    return float(done.stderr.split()[0]), len(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", default=str(ROOT / "build/release/quern"))
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=50, help="renderings of one round")
    parser.add_argument("--only", help="names of templates, with commas between")
    options = parser.parse_args()
    folder = pathlib.Path(os.environ.get("QUERN_SHARED", ROOT.parent / "shared")) / "fixtures/chat-templates"
    templates = {
        "chatml": "chatml",
        **{file.stem: str(file) for file in sorted(folder.glob("*.jinja")) if file.stem != "chatml"},
    }
    if len(templates) == 1:
        print(f"only ChatML: there is no {folder}", file=sys.stderr)
    # An odd number, so that the last message is the user's.
    count = options.messages | 1
    plain, with_tool = (json.dumps({"messages": conversation(count), **more}) for more in ({}, {"tools": TOOLS}))
    print(f"| template | ms for {count} messages | bytes |\n|---|---|---|")
    for name, template in templates.items():
        if options.only and name not in options.only.split(","):
            continue
        for chat, remark in ((plain, ""), (with_tool, ", with a tool")):
            runs = [milliseconds(options.quern, template, chat, options.repeats) for _ in range(options.rounds)]
            if runs[0][0] is not None:
                break
        else:
            print(f"| {name} | refused: {runs[0][1]} | |")
            continue
        times = [run[0] for run in runs]
        print(
            f"| {name}{remark} | {statistics.median(times):.2f} ({min(times):.2f}–{max(times):.2f}) | {runs[0][1]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
