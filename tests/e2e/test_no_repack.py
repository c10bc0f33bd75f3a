"""--no-repack: weights that stay in the mapped file give the same tokens and take no memory of the
process's own."""
import json
import pathlib
import subprocess

import pytest
from conftest import QUERN, ROOT
from helpers import at_once

MODELS = ROOT / "tests/data/models"
IDS = [{"input_ids": [1 + i * 37 % 400 for i in range(length)]} for length in (1, 9, 200)]
TEXTS = [{"text": text} for text in (
    "The capital of France is", "Once upon a time there was a king who",
    " ".join(f"The square of {i} is {i * i}." for i in range(60)))]


def greedy(server, prompt: dict) -> list[int]:
    params = {"max_new_tokens": 24, "temperature": 0, "ignore_eos": True}
    reply = server.post("/generate", {**prompt, "sampling_params": params})
    assert reply.status_code == 200, reply.text
    ids = reply.json()["output_ids"]
    assert len(ids) == 24
    return ids


def answers(server, prompts: list[dict]) -> list[list[int]]:
    """Of each prompt alone, then of all in one batch."""
    alone = [greedy(server, prompt) for prompt in prompts]
    return alone + at_once([lambda prompt=prompt: greedy(server, prompt) for prompt in prompts])


def memory(server, field: str) -> int:
    """Bytes that /proc says of the process, e.g. RssAnon."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def test_the_default_model_says_the_same_in_less_memory(start, smol_model):
    packed, mapped = start(smol_model), start(smol_model, "--no-repack")
    expected = answers(packed, TEXTS)
    assert answers(mapped, TEXTS) == expected
    assert len(set(sum(expected, []))) > 12  # no degenerate loop that every fault would give too
    weights = smol_model.stat().st_size
    assert memory(mapped, "RssAnon") < memory(packed, "RssAnon") - 0.9 * weights
    assert memory(mapped, "VmHWM") < memory(packed, "VmHWM") + 0.1 * weights
    assert "of weights in the mapped file" in mapped.log()
    assert "in the mapped file" not in packed.log()
    assert packed.stop() == mapped.stop() == 0


@pytest.mark.parametrize("name", ["deepseek_v2", "qwen3_moe",
                                  "llama_k256/gguf/llama_k256-Q4_K_M.gguf"])
def test_fixtures_say_the_same(start, name):
    packed, mapped = start(MODELS / name), start(MODELS / name, "--no-repack")
    assert answers(mapped, IDS) == answers(packed, IDS)
    assert packed.stop() == mapped.stop() == 0


def check(*flags) -> dict:
    # 671 B parameters in fp8, which packing would widen to bf16: far more than the machine has.
    command = [QUERN, "check", "DeepSeek-V3", "--hardware", "avx2", "--json", *flags]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["memory"]


def test_check_counts_mapped_weights():
    packed, mapped = check(), check("--no-repack")
    assert packed["weights_mapped"] is False and mapped["weights_mapped"] is True
    assert packed["free_bytes"] < 0 < mapped["free_bytes"]
    assert packed["weight_bytes"] > 1.9 * mapped["weight_bytes"]
    assert packed["requests"] == 0 < mapped["requests"]
