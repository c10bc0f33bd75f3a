"""One model of random weights in several formats (tools/make_synthetic.py) says the same in all."""
import importlib.util
import json
import subprocess
import sys

import pytest
from conftest import QUERN, ROOT

TOOL = ROOT / "tools/make_synthetic.py"
MODELS = ["deepseek-tiny", "deepseek-v3-tiny"]
FORMATS = {"folder": ["--format", "safetensors"],
           "split.gguf": ["--format", "gguf", "--type", "F32"],
           "joined.gguf": ["--format", "gguf", "--type", "F32", "--joined"],
           "fp8": ["--format", "fp8"],
           "fp8-decoded": ["--format", "fp8-decoded"]}


@pytest.fixture(scope="module")
def made(work):
    """make(model, format) -> path; each is made once."""
    def make(model, name):
        path = work / f"{model}-{name}"
        if not path.exists():
            subprocess.run([sys.executable, TOOL, path, "--model", model, *FORMATS[name]],
                           check=True, timeout=120)
        return path

    return make


@pytest.fixture(scope="module")
def continuation(start, made):
    """Greedy ids after a fixed text of 200 tokens."""
    found = {}

    def of(model, name, *flags):
        key = (model, name, flags)
        if key not in found:
            server = start(made(model, name), *flags)
            params = {"max_new_tokens": 24, "temperature": 0, "ignore_eos": True}
            body = {"input_ids": [5 + i * 37 % 500 for i in range(200)], "sampling_params": params}
            reply = server.post("/generate", body).json()
            found[key] = reply["output_ids"]
            assert len(found[key]) == 24
            assert server.stop() == 0
        return found[key]

    return of


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["split.gguf", "joined.gguf"])
def test_both_gguf_layouts_continue_as_the_folder(continuation, model, name):
    expected = continuation(model, "folder", "--dtype", "float32")
    assert continuation(model, name, "--dtype", "float32") == expected
    assert len(set(expected)) > 4  # no degenerate loop that every fault would give too


@pytest.mark.parametrize("model", MODELS)
def test_fp8_continues_as_what_it_decodes_to(continuation, model):
    expected = continuation(model, "fp8-decoded", "--dtype", "float32")
    assert continuation(model, "fp8", "--dtype", "float32") == expected
    assert continuation(model, "folder", "--dtype", "float32") != expected


@pytest.mark.parametrize("model", MODELS)
def test_one_way_of_latent_attention_gives_the_same(continuation, model):
    expected = continuation(model, "folder", "--dtype", "float32")
    flags = ("--dtype", "float32", "--enable-deterministic-inference", "--chunked-prefill-size",
             "48")
    assert continuation(model, "folder", *flags) == expected


# What SGLang's backends of latent attention promise, run here on the portable kernels.
CONTRACTS = [("h100", "flashmla", None, 64), ("b200", "cutlass_mla", None, 128),
             ("b200", "trtllm_mla", None, 64), ("b200", "trtllm_mla", "fp8_e4m3", 64),
             ("b200", "tokenspeed_mla", "fp8_e4m3", 64), ("b200", "cutedsl_mla", None, 64),
             ("h100", "fa3", None, 1), ("h100", "flashinfer", None, 1), ("h100", "triton", None, 1)]


@pytest.mark.parametrize("machine, backend, kv_type, page_size", CONTRACTS)
def test_simulated_contracts_continue_as_torch_native(start, made, continuation, machine, backend,
                                                      kv_type, page_size):
    model = "deepseek-real-heads"
    kv_flags = ("--dtype", "float32", "--kv-cache-dtype", kv_type or "bf16")
    flags = ("--simulate-hardware", machine, "--attention-backend", backend, *kv_flags)
    expected = continuation(model, "folder", "--attention-backend", "torch_native", *kv_flags)
    assert continuation(model, "folder", *flags) == expected
    server = start(made(model, "folder"), *flags)
    info = server.info()
    assert server.stop() == 0
    assert info["attention_backend"] == backend
    assert info["page_size"] == page_size
    # 576 values a token in each of two layers
    assert info["kv_bytes_per_token"] == 2 * 576 * (1 if kv_type else 2)


@pytest.mark.parametrize("machine, prefill, decode", [
    ("h100", "fa3", "flashmla"), ("b200", "trtllm_mla", "cutedsl_mla"),
    (None, "torch_native", "cpu_flash")])
def test_halves_of_two_backends_continue_as_torch_native(continuation, machine, prefill, decode):
    model, types = "deepseek-real-heads", ("--dtype", "float32", "--kv-cache-dtype", "bf16")
    flags = ("--prefill-attention-backend", prefill, "--decode-attention-backend", decode, *types)
    if machine:
        flags += ("--simulate-hardware", machine)
    expected = continuation(model, "folder", "--attention-backend", "torch_native", *types)
    assert continuation(model, "folder", *flags) == expected


def test_fp8_without_its_scales_is_refused_before_loading(made, work):
    source, broken = made("deepseek-v3-tiny", "fp8"), work / "no-scales"
    broken.mkdir()
    raw = (source / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    lost = "model.layers.1.self_attn.kv_b_proj.weight_scale_inv"
    header = raw[8:8 + length].replace(lost.encode(), b"x" * len(lost))
    (broken / "model.safetensors").write_bytes(raw[:8] + header + raw[8 + length:])
    for file in source.iterdir():
        if file.name != "model.safetensors":
            (broken / file.name).write_bytes(file.read_bytes())
    done = subprocess.run([QUERN, "serve", "--model", broken, "--port", "0"], timeout=20,
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert lost in done.stderr.splitlines()[0] + done.stderr, done.stderr


@pytest.mark.parametrize("field, value, named", [
    ("kv_lora_rank", None, "kv_lora_rank"), ("qk_rope_head_dim", 15, "qk_rope_head_dim"),
    ("num_experts_per_tok", 9, "num_experts_per_tok"), ("n_group", 3, "n_group"),
    ("topk_group", 5, "topk_group")])
def test_facts_that_do_not_fit_are_named_before_loading(made, work, field, value, named):
    folder = work / f"bad-{field}"
    folder.mkdir()
    config = json.loads((made("deepseek-v3-tiny", "folder") / "config.json").read_text())
    config[field] = value
    (folder / "config.json").write_text(json.dumps(config))
    for command in (["check"], ["serve", "--port", "0"]):
        done = subprocess.run([QUERN, *command, "--model", folder], timeout=20, capture_output=True,
                              text=True)
        assert done.returncode == 1
        assert named in done.stderr, done.stderr


def test_e4m3_rounds_to_nearest_and_ties_to_even():
    spec = importlib.util.spec_from_file_location("make_synthetic", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    table = tool.e4m3_values()
    assert table[1] == 2.0**-9 and table[8] == 2.0**-6 and table[126] == 448
    assert list(tool.e4m3(table)) == list(range(127))
    between = (table[1:] + table[:-1]) / 2
    assert all(code % 2 == 0 for code in tool.e4m3(between))
    assert list(tool.e4m3(-table[:3])) == [0x80, 0x81, 0x82]
    assert tool.e4m3(table[:1] + 1e9)[0] == 126
