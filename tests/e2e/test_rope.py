"""Rope scaling as config.json spells it: what is the same gives the same, what differs differs, and
what is unknown or incomplete is refused instead of being computed as plain rope."""
import json
import subprocess

import makers
import pytest
from conftest import QUERN

YARN = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 128}


@pytest.fixture(scope="module")
def folder(work):
    """folder(scaling) -> a model with it."""
    count = iter(range(100))

    def make(scaling):
        path = work / f"rope{next(count)}"
        makers.tiny_hf(str(path), cfg={"rope_scaling": scaling})
        return path

    return make


@pytest.fixture(scope="module")
def perplexity(folder, work):
    """Of a text of 400 tokens in float32."""
    text = work / "rope.txt"
    text.write_text("".join(chr(33 + i * i % 91) for i in range(400)))

    def of(scaling):
        done = subprocess.run([QUERN, "bench", "perplexity", text, "--model", folder(scaling),
                               "--dtype", "float32", "--json"],
                              capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)["perplexity"]

    return of


def test_spellings_of_one_yarn_are_one(perplexity):
    plain = perplexity(YARN)
    assert perplexity({**YARN, "original_max_position_embeddings": 128.0}) == plain
    spelled = {name: value for name, value in YARN.items() if name != "type"}
    assert perplexity({**spelled, "rope_type": "yarn"}) == plain
    assert perplexity({**YARN, "mscale": None, "beta_fast": 32, "beta_slow": 1}) == plain


def test_equal_mscales_are_a_factor_of_one(perplexity):
    one = perplexity({**YARN, "attention_factor": 1.0})
    assert perplexity({**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}) == one
    assert perplexity({**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}) == one


def test_every_field_has_an_effect(perplexity):
    kinds = [None, YARN, {**YARN, "factor": 8}, {**YARN, "attention_factor": 1.0},
             {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}, {**YARN, "beta_fast": 4},
             {**YARN, "original_max_position_embeddings": 16}, {**YARN, "truncate": False},
             {"type": "linear", "factor": 4}]
    found = [perplexity(kind) for kind in kinds]
    assert len(set(found)) == len(found), found


@pytest.mark.parametrize("scaling, named", [
    ({"type": "dynamic", "factor": 4}, "'dynamic'"),
    ({"type": "longrope", "factor": 4, "short_factor": [1] * 8, "long_factor": [1] * 8},
     "'longrope'"),
    ({"rope_type": "nosuch", "factor": 4}, "'nosuch'"),
    ({"type": "yarn", "factor": 4}, "original_max_position_embeddings"),
    ({"type": "yarn", "original_max_position_embeddings": 128}, "factor"),
    ({"factor": 4}, "rope_type")])
def test_what_is_unknown_or_incomplete_is_refused(folder, scaling, named):
    done = subprocess.run([QUERN, "serve", "--model", folder(scaling), "--port", "0"],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert named in next(line for line in done.stderr.splitlines() if line.startswith("error["))
