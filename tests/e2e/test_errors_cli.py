"""`quern explain` and `quern catalog export`: entries found by name and in pasted text; the files."""
import json
import os
import re
import subprocess
from html.parser import HTMLParser

import pytest

from conftest import QUERN, ROOT

TRTLLM = "0ae807a1c0d1702a"
HPC_OPS = "e45e9af63e91c033"
TRACEBACK = """[2026-08-01 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/python/sglang/srt/managers/scheduler.py", line 2700, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)
  File "/sgl/python/sglang/srt/layers/attention/attention_registry.py", line 263, in create
    raise ValueError(
ValueError: hpc_ops backend can only be used with non-MLA models.

[2026-08-01 12:00:01] Received sigquit from a child process. It usually means the child failed.
"""


def quern(*arguments, text=None, env=None):
    return subprocess.run([QUERN, *arguments], input=text, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})


def explained(*arguments, text=None) -> dict:
    done = quern("explain", "--json", *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [TRTLLM, TRTLLM.upper(), f"error[{TRTLLM}]:", "TrtllmMhaMlaModel",
                                  "trtllm-mha-backend-can-only-be-used-with-non-mla-m",
                                  "http://127.0.0.1:30000/errors/"
                                  "trtllm-mha-backend-can-only-be-used-with-non-mla-m",
                                  "trtllm_mha backend can only be used with non-MLA models."])
def test_an_entry_has_many_names(name):
    assert explained(name)["record"]["id"] == TRTLLM


def test_a_traceback_on_standard_input():
    found = explained("-", text=TRACEBACK)
    assert found["record"]["id"] == HPC_OPS
    assert found["alsoMatches"]  # the general rule of the same words
    assert explained(TRACEBACK)["record"]["id"] == HPC_OPS


def test_a_long_log_on_standard_input():
    log = "[2026-08-01 12:00:00] Decode batch. #running-req: 1\n" * 100_000 + TRACEBACK
    assert explained("-", text=log)["record"]["id"] == HPC_OPS


def test_the_text_holds_every_section():
    shown = quern("explain", HPC_OPS).stdout
    record = explained(HPC_OPS)["record"]
    for title in ("What it means", "When it happens", "How to fix it", "Example fix", "Prevention",
                  "Related"):
        assert f"\n{title}\n" in shown
    assert record["errorMessage"] in shown and HPC_OPS in shown and "ValueError" in shown
    flat = " ".join(shown.split())
    for text in (record["documentation"], record["triggerScenarios"], *record["solutions"]):
        assert " ".join(text.split()) in flat
    assert max(map(len, shown.split("What it means")[1].split("Example fix")[0].splitlines())) <= 100


def test_the_example_fix_names_this_model(tmp_path):
    model = ROOT / "tests/data/models/llama"
    fix = explained(TRTLLM, "--model", str(model))["record"]["exampleFix"]
    assert fix.count(str(model)) == 2 and "# before" in fix and "# after" in fix
    shown = quern("explain", TRTLLM, "--model", str(model)).stdout
    assert "cpu_flash" in shown.split("Attention backends that take this model")[1].split("\n\n")[0]
    odd = tmp_path / "a $1 'b"
    assert "'" + str(odd).replace("'", "'\\''") + "'" in explained(
        TRTLLM, "--model", str(odd))["record"]["exampleFix"]
    assert "No model at" in quern("explain", TRTLLM, "--model", str(odd)).stdout


def test_what_matches_nothing_is_an_error_of_the_catalogue():
    for arguments, text in ((["nothing of the kind"], None), (["-"], ""), (["-"], "\0\xff\n" * 50),
                            (["--search", "wordthatstandsnowhere"], None), (["<script>"], None)):
        done = quern("explain", *arguments, text=text)
        assert done.returncode == 1
        assert re.match(r"error\[[0-9a-f]{16}\]: Nothing in the error catalogue", done.stderr)
    near = quern("explain", "trtllm-mha-backend-can-only-be-used-with-non-mla").stderr
    assert TRTLLM in near


def test_lists():
    every = json.loads(quern("explain", "--list", "--json").stdout)
    lines = quern("explain", "--list").stdout.splitlines()
    assert every["total"] == len(every["errors"]) == len(lines)
    found = quern("explain", "--search", "hpc_ops cross attention").stdout.splitlines()
    assert found[0].endswith("Cross attention is not supported in the hpc_ops attention backend.")
    assert len(found) < len(lines)


def test_no_model_is_needed(tmp_path):
    nowhere = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "QUERN_DEFAULT_MODEL": ""}
    assert quern("explain", TRTLLM, env=nowhere).returncode == 0
    assert quern("catalog", "export", str(tmp_path / "site"), env=nowhere).returncode == 0


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and not value.startswith(("https://", "data:", "#")):
                self.found.append(value.split("?")[0])


def test_exported_pages_link_to_each_other(exported):
    pages = sorted(exported.rglob("*.html"))
    every = json.loads((exported / "api/errors.json").read_text())
    assert len(pages) == every["total"] + 1
    linked = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for link in Links(text).found:
            target = (page.parent / link).resolve()
            assert target.is_file() and target.is_relative_to(exported.resolve()), (page, link)
            linked.add(target)
    assert {page.resolve() for page in pages} <= linked
    for error in every["errors"]:
        whole = json.loads((exported / f"api/errors/{error['id']}.json").read_text())
        assert whole["record"]["slug"] == error["slug"]


def test_export_tells_what_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("x")
    done = quern("catalog", "export", str(tmp_path / "file"))
    assert done.returncode == 1 and "cannot be written" in done.stderr


def test_the_catalogue_serves_alone(catalog_server):
    every = catalog_server.get("/api/errors", params={"per_page": 200}).json()
    assert every["total"] >= 100
    assert catalog_server.get("/").status_code == 302
    assert catalog_server.get("/v1/models").status_code == 404
    assert catalog_server.get("/health").status_code == 200
