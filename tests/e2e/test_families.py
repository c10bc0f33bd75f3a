"""A model of every family over HTTP, found by its name in a Hugging Face cache, against the stored
continuation of its authors' implementation."""
import json
import os

import pytest
from conftest import ROOT

MODELS = ROOT / "tests/data/models"


@pytest.fixture(scope="module")
def cache(work):
    """The fixtures as huggingface_hub would have put them there."""
    home = work / "hf"
    for folder in MODELS.iterdir():
        if not (folder / "golden.json").exists():
            continue
        model = home / "hub" / f"models--tests--{folder.name}"
        (model / "refs").mkdir(parents=True)
        (model / "refs/main").write_text("0123abcd")
        snapshot = model / "snapshots/0123abcd"
        snapshot.mkdir(parents=True)
        for file in folder.iterdir():
            (snapshot / file.name).symlink_to(file)
    return home


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v2_grouped", "deepseek_v3",
                                  "deepseek_v3_mtp", "llama", "mistral", "mixtral", "qwen2",
                                  "qwen3", "qwen3_moe"])
@pytest.mark.parametrize("backend", ["cpu_flash", "torch_native"])
def test_families_continue_as_their_authors(start, cache, name, backend):
    server = start(f"tests/{name}", "--dtype", "float32", "--attention-backend", backend,
                   env={**os.environ, "HF_HOME": str(cache)})
    golden = json.loads((MODELS / name / "golden.json").read_text())
    for prompt in golden["prompts"]:
        body = {"input_ids": prompt["ids"],
                "sampling_params": {"max_new_tokens": 32, "temperature": 0, "ignore_eos": True}}
        assert server.post("/generate", body).json()["output_ids"] == prompt["greedy_ids"]
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    answer = server.post("/v1/chat/completions", chat)
    assert answer.status_code == 200, answer.text
    assert server.quiet()
    assert server.stop() == 0
