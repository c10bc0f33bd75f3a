"""`quern check` from outside: models known by name, a folder with nothing but its config, pasted
command lines, what fits in memory, and the time it takes."""
import hashlib
import json
import os
import pathlib
import subprocess
import time

import pytest
from conftest import QUERN, ROOT

MHA_ON_MLA = "trtllm_mha backend can only be used with non-MLA models."
HPC_ON_MLA = "hpc_ops backend can only be used with non-MLA models."


def quern(*args, **environment):
    return subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HF_HOME": "/nonexistent", **environment})


def report(*args) -> dict:
    return json.loads(quern("check", *args, "--json").stdout)


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    """A folder with DeepSeek-V3's config.json and nothing else."""
    known = json.loads((ROOT / "src/checkpoint/known/DeepSeek-V3.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(known["config"]))
    return tmp_path


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("backend, ident, message", [
    ("trtllm_mha", "0ae807a1c0d1702a", MHA_ON_MLA), ("hpc_ops", "e45e9af63e91c033", HPC_ON_MLA)])
@pytest.mark.parametrize("name", ["DeepSeek-V3", "deepseek-ai/deepseek-v3", "folder"])
def test_mha_backends_refuse_deepseek_word_for_word(command, backend, ident, message, name,
                                                    folder):
    model = folder if name == "folder" else name
    done = quern(command, "--model", model, "--attention-backend", backend)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error[{ident}]: {message}\n"), done.stderr
    assert "kv_lora_rank 512 in config.json" in done.stderr


@pytest.mark.parametrize("backend", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla", "flashmla",
                                     "cutlass_mla"])
def test_mla_backends_refuse_llama(backend):
    done = quern("check", "--model", "Llama-3.1-8B", "--attention-backend", backend,
                 "--hardware", "b200")
    assert done.returncode == 1
    assert f"]: {backend} backend can only be used with MLA models.\n" in done.stderr


@pytest.mark.parametrize("backend, message", [
    ("triton", "Cross attention is not supported in the triton attention backend. Please use "
               "`--attention-backend flashinfer`."),
    ("hpc_ops", "Cross attention is not supported in the hpc_ops attention backend.")])
def test_bart_meets_backends_without_cross_attention(backend, message):
    done = quern("check", "bart-large", "--attention-backend", backend, "--hardware", "h100")
    assert done.returncode == 1
    assert message in done.stderr


def test_a_distilled_deepseek_is_not_mla():
    assert not report("DeepSeek-R1-Distill-Qwen-7B", "--hardware", "h100")["mla"]
    assert report("deepseek-ai/DeepSeek-R1", "--hardware", "h100")["mla"]


def test_a_pasted_line_answers_as_its_flags():
    done = quern("check", "--hardware", "b200", "--", "SGLANG_X=1 python3 -m sglang.launch_server "
                 "\\\n --model-path deepseek-ai/DeepSeek-V3 \\\n --tp 8 --trust-remote-code "
                 "--attention-backend trtllm_mha --enable-dp-attention")
    assert done.returncode == 1
    assert MHA_ON_MLA in done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert [note.split()[1] for note in notes] == ["SGLANG_X", "--tp", "--trust-remote-code",
                                                   "--enable-dp-attention"]


def test_a_refused_flag_is_told_after_the_answer(llama_folder=ROOT / "tests/data/models/llama"):
    done = quern("check", llama_folder, "--lora-paths", "a=b")
    assert "choice    cpu_flash" in done.stdout
    assert done.returncode == 1
    assert "]: --lora-paths is not served: this build serves no LoRA adapters.\n" in done.stderr
    assert quern("check", llama_folder, "--trust-remote-code").returncode == 0


def test_serve_refuses_the_flag_at_once():
    done = quern("serve", "--model", "nosuch", "--dp-size", "2")
    assert done.returncode == 1
    assert "]: --dp-size is not served:" in done.stderr


def test_weights_that_are_not_here_are_an_error_of_their_own(tmp_path):
    done = quern("serve", "--model", "Llama-3.1-8B", HF_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "]: No weights of 'Llama-3.1-8B' on this machine:" in done.stderr
    assert f"not in {tmp_path}/hub/models--meta-llama--Llama-3.1-8B\n" in done.stderr


def test_the_cache_of_the_hub_is_looked_into(tmp_path):
    model = tmp_path / "hub/models--someone--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text("abc")
    (model / "snapshots").mkdir()
    (model / "snapshots/abc").symlink_to(ROOT / "tests/data/models/llama")
    done = quern("check", "someone/tiny", HF_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "model     someone/tiny (LlamaForCausalLM)" in done.stdout


def test_an_unknown_name_meets_the_nearest_ones():
    done = quern("check", "deepseek-ai/DeepSek-V3")
    assert done.returncode == 1
    assert "No model at 'deepseek-ai/DeepSek-V3'" in done.stderr
    assert "known models of a similar name: DeepSeek-V3" in done.stderr


def test_memory_is_told_in_numbers():
    memory = report("DeepSeek-V3", "--hardware", "h200", "--tp", 8)["memory"]
    assert memory["parameters"] == pytest.approx(671e9, rel=0.01)
    assert memory["kv_bytes_per_token"] == 70272
    assert memory["tokens"] == memory["free_bytes"] // 70272
    assert report("DeepSeek-V3", "--hardware", "h200")["memory"]["least_tp"] == 8


def test_every_reason_of_every_backend_stands_in_the_table():
    args = ["check", "DeepSeek-V3", "--hardware", "h100"]
    shown = quern(*args).stdout
    verdicts = json.loads(quern(*args, "--json").stdout)["backends"]
    assert len(verdicts) >= 24
    for verdict in verdicts:
        assert f"\n{verdict['name']} " in shown
        for refusal in verdict["refusals"]:
            assert refusal["message"] in shown


def test_it_is_quick():
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        quern("check", "DeepSeek-V3", "--hardware", "b200", "--attention-backend", "trtllm_mla")
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.05, times


@pytest.mark.parametrize("text, ident, words", [
    (None, "ModelNotFound", "neither config.json nor a .gguf file"),
    ("", "CheckpointJsonInvalid", "config.json"),
    ("{", "CheckpointJsonInvalid", "config.json"),
    ("[]", "CheckpointJsonInvalid", "it is not an object"),
    ("100 MB", "CheckpointFileTooLarge", "config.json"),
    ('{"architectures": 3}', "ConfigFieldInvalid", "architectures"),
    ('{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, '
     '"num_attention_heads": 4, "vocab_size": 10, "kv_lora_rank": 8}', "ConfigFieldMissing",
     "qk_nope_head_dim"),
    ('{"architectures": ["LlamaForCausalLM"], "hidden_size": "64"}', "ConfigFieldInvalid",
     "hidden_size"),
])
def test_a_broken_config_is_refused_by_file_and_field(text, ident, words, tmp_path):
    file = tmp_path / "config.json"
    if text == "100 MB":
        with file.open("wb") as made:
            made.truncate(100 << 20)
    elif text is not None:
        file.write_text(text)
    done = quern("check", tmp_path, "--attention-backend", "trtllm_mha")
    assert done.returncode == 1
    # Without one of its own an entry's id is the hash of its symbol.
    assert done.stderr.startswith(f"error[{hashlib.sha256(ident.encode()).hexdigest()[:16]}]")
    assert words in done.stderr
    if ident == "ConfigFieldMissing":
        assert "DeepseekV3ForCausalLM" in done.stderr
