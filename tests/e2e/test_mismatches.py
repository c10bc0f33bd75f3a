"""What a backend cannot do for a model is refused before weights are read: speculative methods,
windows, caps and sinks, KV types, head sizes. Every backend, every kind of model."""
import json
import re
import subprocess

import makers
import pytest
from conftest import QUERN, ROOT

MODELS = ROOT / "tests/data/models"


def quern(*args):
    return subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, timeout=60)


ROWS = {row["name"]: row for row in json.loads(quern("backends", "--json").stdout)}


def refused(done) -> tuple[str, str]:
    """Id and message of a clean refusal."""
    assert done.returncode == 1, (done.returncode, done.stderr)
    match = re.search(r"^error\[([0-9a-f]{16})\]: (.+)$", done.stderr, re.M)
    assert match, done.stderr
    return match.group(1), match.group(2)


def report(model, *flags) -> dict:
    done = quern("check", "--model", model, "--json", *flags)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def verdicts(model, *flags) -> dict[str, list[str]]:
    return {row["name"]: [refusal["message"] for refusal in row["refusals"]]
            for row in report(model, *flags)["backends"]}


@pytest.fixture(scope="module")
def broken_twins(work):
    """The tiny model whole, with its weights zeroed, and cut behind its header."""
    whole = work / "spec-whole.gguf"
    makers.tiny_gguf(str(whole))
    data = whole.read_bytes()
    sizes = sum(len(raw) + -len(raw) % 32 for *_, raw in makers.tensors())
    header = data[:len(data) - sizes]
    zeroed, cut = work / "spec-zeroed.gguf", work / "spec-cut.gguf"
    zeroed.write_bytes(header + bytes(sizes))
    cut.write_bytes(header)
    return whole, zeroed, cut


@pytest.mark.parametrize("backend", ROWS)
def test_a_speculative_method_is_refused_by_name_without_reading_weights(backend, broken_twins):
    answers = set()
    for path in broken_twins:
        done = quern("serve", "--model", path, "--attention-backend", backend,
                     "--speculative-algorithm", "NGRAM")
        ident, message = refused(done)
        answers.add((ident, message))
        assert "would work here: " in done.stderr
        # Without speculation something runs here: the way out is told.
        assert "try, without speculative decoding: quern serve" in done.stderr
    assert len(answers) == 1
    assert quern("explain", answers.pop()[0]).returncode == 0


KINDS = {"dense": "llama", "MLA": "deepseek_v3", "encoder-decoder": "bart", "window": "mistral"}
METHODS = {"none": [], "NGRAM": ["--speculative-algorithm", "NGRAM", "--speculative-eagle-topk", "1"],
           "draft": ["--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1",
                     "--speculative-draft-model-path", MODELS / "llama"]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_every_cell_of_the_grid_equals_the_published_table(kind, method):
    found = verdicts(MODELS / KINDS[kind], "--hardware", "h100", *METHODS[method])
    assert found.keys() == ROWS.keys()
    for name, messages in found.items():
        row = ROWS[name]
        column = row["speculative"]
        offer = column.split("; MLA ")[-1 if kind == "MLA" else 0]
        serves = row["serves"].split(" of its own")[0]
        text = "\n".join(messages)
        if method != "none" and offer.startswith("none") and kind != "MLA":
            assert re.search(r"[Ss]peculative decoding|EAGLE is not supported", text), (name, text)
        if kind == "MLA" and "MLA" not in serves:
            assert "can only be used with non-MLA models" in text or "own: " in text, (name, text)
        if kind != "MLA" and serves.startswith("MLA"):
            assert "can only be used with MLA models" in text, (name, text)
        if kind == "encoder-decoder" and row["cross_attention"] == "no":
            assert "ross attention" in text or "non-causal" in text, (name, text)
        if kind == "window" and row["window"] == "no":
            assert "sliding window" in text, (name, text)


@pytest.mark.parametrize("model, column, words", [
    ("mistral", "window", "sliding window"), ("gemma2", "soft_cap", "cap"),
    ("gpt_oss", "sinks", "sinks")])
def test_features_that_a_backend_lacks_are_refused(model, column, words):
    found = verdicts(MODELS / model, "--hardware", "h100")
    lacking = [name for name, row in ROWS.items() if row[column].split(";")[0] == "no"]
    assert len(lacking) >= 5
    for name in lacking:
        assert any(words in message for message in found[name]), (name, found[name])
    for name in ("cpu_flash", "torch_native", "fa3", "triton"):
        assert not any(words in message for message in found[name]), (name, found[name])


KV_WORDS = ["auto", "bf16", "bfloat16", "float32", "fp32", "float16", "fp8_e4m3", "fp8_e5m2", "int8",
            "nvfp4", "fp4_mx_block16", "fp4_e2m1", "mxfp8"]
BYTES = {"auto": 2, "bf16": 2, "bfloat16": 2, "float32": 4, "fp32": 4, "fp8_e4m3": 1, "int8": 1}
SCALES = {"int8": 2 * 4}  # of a key and of a value


@pytest.mark.parametrize("word", KV_WORDS)
def test_every_kv_type_is_served_visibly_or_refused(word, start, tiny_model):
    if word in BYTES:
        info = start(tiny_model, "--kv-cache-dtype", word).info()
        per_token = makers.L * makers.KH * (2 * makers.HD * BYTES[word] + SCALES.get(word, 0))
        assert info["kv_bytes_per_token"] == per_token
        return
    _, message = refused(quern("serve", "--model", tiny_model, "--kv-cache-dtype", word,
                               "--attention-backend", "cpu_flash"))
    assert "cpu_flash backend does not support kv-cache-dtype" in message
    assert "bf16, float32" in message


@pytest.mark.parametrize("asked, kept", [("auto", "float32"), ("bf16", "bf16"), ("float32", "float32"),
                                         ("fp8_e4m3", "fp8_e4m3")])
def test_float32_models_keep_the_cache_that_was_asked_for(asked, kept, start, tiny_model):
    flags = ("--dtype", "float32", "--kv-cache-dtype", asked)
    info = start(tiny_model, *flags).info()
    assert info["kv_cache_dtype"] == kept
    assert info["kv_bytes_per_token"] == makers.L * makers.KH * 2 * makers.HD * BYTES[kept]
    found = report(tiny_model, *flags)
    assert found["plan"]["kv_cache_dtype"] == found["memory"]["kv_cache_dtype"] == kept


@pytest.mark.parametrize("flag", ["--kv-cache-dtype", "--attention-backend", "--dtype"])
@pytest.mark.parametrize("value", ["nosuch", "", "BF16", "CPU_FLASH"])
def test_words_that_no_option_has_are_refused_with_those_it_has(flag, value, tiny_model):
    done = quern("serve", "--model", tiny_model, flag, value)
    refused(done)
    known = {"--kv-cache-dtype": "fp8_e4m3", "--attention-backend": "cpu_flash", "--dtype": "bfloat16"}
    assert known[flag] in done.stderr or value == ""


@pytest.mark.parametrize("dim", [40, 80, 96, 256])
def test_odd_head_sizes_are_served_alike_or_refused(dim, work):
    path = work / f"heads-{dim}.gguf"
    makers.tiny_gguf(str(path), hd=dim)
    found = verdicts(path, "--hardware", "h100")
    for name, offered in (("hpc_ops", {128}), ("flashinfer", {64, 128, 256, 512})):
        assert any("head" in message for message in found[name]) == (dim not in offered), name
    texts = set()
    for flags in ([], ["--attention-backend", "cpu_flash"], ["--attention-backend", "torch_native"]):
        done = quern("generate", "--model", path, "--raw", "abc", "--max-tokens", 8, "--temperature",
                     0, "--kv-cache-dtype", "float32", "--json", *flags)
        assert done.returncode == 0, done.stderr
        texts.add(json.loads(done.stdout)["text"])
    assert len(texts) == 1


def test_a_head_size_without_rotary_pairs_is_refused(work):
    path = work / "heads-17.gguf"
    makers.tiny_gguf(str(path), hd=17)
    for command in ("check", "serve"):
        _, message = refused(quern(command, "--model", path))
        assert "rope dimension" in message and "17" in message


def test_an_explicit_choice_is_never_replaced(start, tiny_model):
    for backend in ("cpu_flash", "torch_native"):
        info = start(tiny_model, "--attention-backend", backend).info()
        assert info["attention_backend"] == backend

