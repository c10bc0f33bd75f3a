"""`quern bench perplexity`: texts that cannot be measured, and models whose numbers are none."""
import json
import struct
import subprocess

import makers
from conftest import QUERN, ROOT


def measure(model, text, *flags):
    return subprocess.run([QUERN, "bench", "perplexity", str(text), "--model", str(model), *flags],
                          capture_output=True, text=True, timeout=120)


def refused(model, text):
    done = measure(model, text)
    assert done.returncode == 1 and done.stdout == "", done
    return next(line for line in done.stderr.splitlines() if line.startswith("error["))


def test_a_text_is_measured(tiny_model, work):
    (work / "text.txt").write_text("some text " * 20)
    done = measure(tiny_model, work / "text.txt", "--json")
    found = json.loads(done.stdout)
    assert found["perplexity"] > 1 and found["tokens"] >= 180


def test_what_is_no_file_is_refused_before_the_model_loads(work):
    for path in (work, work / "none.txt"):
        assert refused("/nonexistent", path).endswith(f"The text file {path} cannot be read.")


def test_a_text_needs_two_tokens(tiny_model, work):
    for text, tokens in (("", 0), ("a", 1)):
        (work / "short.txt").write_text(text)
        assert refused(tiny_model, work / "short.txt").endswith(
            f"A perplexity needs a text of at least 2 tokens, and this one has {tokens}.")
    (work / "short.txt").write_text("ab")
    assert measure(tiny_model, work / "short.txt").returncode == 0


def test_a_sum_that_is_no_number(tiny_model, work):
    (work / "text.txt").write_text("some text")
    path = work / "perplexity_nan.gguf"
    path.write_bytes(tiny_model.read_bytes()[:-4] + struct.pack("<f", float("nan")))
    message = refused(path, work / "text.txt")
    assert "is not a number" in message and "request" not in message


def test_weights_of_more_layers_than_the_configuration_says(work):
    fewer = makers.kv("llama.block_count", makers.U32, makers.L - 1)
    makers.tiny_gguf(str(work / "fewer.gguf"), kvo={"llama.block_count": fewer})
    makers.tiny_hf(str(work / "fewer"), cfg={"num_hidden_layers": makers.L - 1})
    (work / "text.txt").write_text("some text")
    for model, name in (("fewer.gguf", "blk.1."), ("fewer", "model.layers.1.")):
        message = refused(work / model, work / "text.txt")
        assert f"layers is {makers.L - 1}, and the weights hold '{name}" in message


def test_a_config_without_a_context_length(work):
    folder = work / "contextless"
    makers.tiny_hf(str(folder))
    config = json.loads((folder / "config.json").read_text())
    del config["max_position_embeddings"], config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    (work / "text.txt").write_text("some text")
    assert "max_position_embeddings is 0" in refused(folder, work / "text.txt")


def test_narrow_caches_cost_little(smol_model):
    found = {}
    for kind in ("float32", "fp8_e4m3", "int8"):
        done = measure(smol_model, ROOT / "tests/data/smollm2/text.txt", "--json", "--dtype", "float32",
                       "--kv-cache-dtype", kind)
        found[kind] = json.loads(done.stdout)["perplexity"]
    for kind in ("fp8_e4m3", "int8"):
        assert 1e-4 < abs(found[kind] / found["float32"] - 1) < 0.015, found
