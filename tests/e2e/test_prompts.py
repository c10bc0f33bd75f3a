"""Prompts that are given twice, are empty or hold unknown ids; templates that print bos_token."""
import json

import pytest

import makers
from helpers import error

BOS_CHAT = "{{ bos_token }}" + makers.CHAT


@pytest.mark.parametrize("path, body, param", [
    ("/generate", {"text": ""}, "text"), ("/v1/completions", {"prompt": ""}, "prompt"),
    ("/tokenize", {"prompt": ""}, "prompt"), ("/tokenize", {"text": ""}, "text"),
])
def test_an_empty_prompt_names_its_own_field(tiny, path, body, param):
    found = error(tiny.post(path, body), 400)
    assert found["code"] == "prompt_empty" and found["param"] == param


def test_a_prompt_in_two_forms_names_both(tiny):
    found = error(tiny.post("/generate", {"text": "a", "input_ids": [70]}), 400)
    assert found["param"] == "input_ids" and "where text is given" in found["message"]
    messages = [{"role": "user", "content": "a"}]
    found = error(tiny.post("/tokenize", {"prompt": "a", "messages": messages}), 400)
    assert found["param"] == "messages" and "where prompt is given" in found["message"]


def test_unknown_ids_are_refused_in_both_directions(tiny):
    vocab = tiny.get("/model_info").json()["vocab_size"]
    for path, field in (("/generate", "input_ids"), ("/detokenize", "tokens")):
        found = error(tiny.post(path, {field: [70, vocab]}), 400)
        assert found["code"] == "token_id_out_of_range" and found["param"] == field
        assert f"id {vocab} at position 1" in found["message"]
    assert tiny.post("/detokenize", {"tokens": [4 + ord("a"), vocab - 1]}).status_code == 200


def test_a_template_that_prints_bos_token_is_rendered_with_it(start, work):
    gguf = work / "bos.gguf"
    template = makers.kv("tokenizer.chat_template", makers.STR, BOS_CHAT)
    makers.tiny_gguf(str(gguf), kvo={"tokenizer.chat_template": template})
    folder = work / "bos_folder"
    makers.tiny_hf(str(folder))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": BOS_CHAT}))
    messages = [{"role": "user", "content": "a"}]
    for model in (gguf, folder):
        server = start(model)
        tokens = server.post("/tokenize", {"messages": messages}).json()["tokens"]
        assert tokens[:2] == [0, 2]  # <s><|im_start|>
        body = {"messages": messages, "max_tokens": 2}
        assert server.post("/v1/chat/completions", body).status_code == 200
