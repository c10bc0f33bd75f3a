"""Prompts given twice, empty or with unknown ids; what a model's own files say of prompts."""
import json
import subprocess

import pytest

import makers
from conftest import QUERN
from helpers import ask, error

BOS_CHAT = "{{ bos_token }}" + makers.CHAT


@pytest.mark.parametrize("path, body, param", [
    ("/generate", {"text": ""}, "text"), ("/v1/completions", {"prompt": ""}, "prompt"),
    ("/v1/completions", {"prompt": ["a", ""]}, "prompt"),
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


def test_a_models_own_top_p_of_0_means_greedy(start, work):
    folder = work / "top_p_0"
    makers.tiny_hf(str(folder), gen={"do_sample": True, "top_p": 0.0})
    server = start(folder)
    greedy, _ = ask(server, {"model": "m", "prompt": "hi", "max_tokens": 8, "temperature": 0}, False)
    assert ask(server, {"model": "m", "prompt": "hi", "max_tokens": 8}, False)[0] == greedy
    done = subprocess.run([QUERN, "generate", "--raw", "--model", str(folder), "hi", "--json",
                           "--max-tokens", "8"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == greedy


# What a template writes first, and its ids.
OPENINGS = {"nothing": ("", []), "the beginning": ("<s>", [0]), "two control tokens": ("<s><|im_start|>", [0, 2]),
            "another control token": ("<|im_start|>", [2]), "two beginnings": ("<s><s>", [0, 0])}


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("opening", OPENINGS)
def test_a_prompt_begins_once(start, work, opening, adds):
    text, ids = OPENINGS[opening]
    path = work / f"opens_{opening.replace(' ', '_')}_{adds}.gguf"
    makers.tiny_gguf(str(path), kvo={
        "tokenizer.chat_template": makers.kv("tokenizer.chat_template", makers.STR,
                                             text + "{% for m in messages %}{{ m.content }}{% endfor %}"),
        "tokenizer.ggml.add_bos_token": makers.kv("tokenizer.ggml.add_bos_token", makers.BOOL, adds)})
    server = start(path)
    said = [4 + ord(letter) for letter in "hi"]
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    expected = [*([0] if adds and ids[:1] != [0] else []), *ids, *said]
    assert server.post("/tokenize", chat).json()["tokens"] == expected
    reply = server.post("/v1/chat/completions", {**chat, "max_tokens": 1})
    assert reply.json()["usage"]["prompt_tokens"] == len(expected)

    def tokens_of(prompt, **more):
        reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, **more})
        return reply.json()["usage"]["prompt_tokens"]

    assert tokens_of("hi") == adds + 2
    assert tokens_of("<s>hi", add_special_tokens=True) == 3  # one, whoever asks for it
    assert tokens_of(said) == 2 and tokens_of([0, *said]) == 3 and tokens_of([0, 0, *said]) == 4
