"""Errors that no other test meets, each raised by the program from what a user gives it."""
import json
import struct
import subprocess

import makers
from conftest import QUERN
from helpers import error

TURNS = ("{% if messages[0].role == 'system' %}{% set offset = 1 %}{% else %}{% set offset = 0 %}"
         "{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == offset) %}"
         "{{ raise_exception('Roles must alternate') }}{% endif %}"
         "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def refused(*arguments) -> str:
    done = subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error["), done.stderr
    return done.stderr


def code_of(stderr: str) -> str:
    """The symbol of the entry that `quern explain` finds for what was printed."""
    done = subprocess.run([QUERN, "explain", "-", "--json"], input=stderr, capture_output=True,
                          text=True, timeout=60)
    return json.loads(done.stdout)["record"]["errorCode"]


def changed(path, change):
    """The tiny model with tensors replaced, or left out, by `change(name, dims, raw)`."""
    kept = []
    for _, name, rows, columns, raw in makers.tensors():
        made = change(name, [columns, rows] if columns else [rows], raw)
        if made:
            kept.append((name, made[0], 0, made[1]))
    makers.gguf(str(path), makers.base_kv(), kept)
    return path


def test_a_model_without_one_of_its_tensors(work):
    path = changed(work / "lacks.gguf", lambda name, dims, raw:
                   None if name == "blk.1.ffn_up.weight" else (dims, raw))
    said = refused("generate", "hi", "--model", path)
    assert "blk.1.ffn_up.weight" in said and code_of(said) == "tensor_missing"


def test_a_tensor_of_another_shape(work):
    path = changed(work / "shape.gguf", lambda name, dims, raw:
                   ([dims[0] // 2], raw[:len(raw) // 2]) if name == "output_norm.weight"
                   else (dims, raw))
    said = refused("generate", "hi", "--model", path)
    assert "output_norm.weight" in said and code_of(said) == "tensor_shape_wrong"


def test_an_answer_that_cannot_be_finished(tiny_model, work):
    path = work / "not_a_number.gguf"
    path.write_bytes(tiny_model.read_bytes()[:-4] + struct.pack("<f", float("nan")))
    said = refused("generate", "hi", "--model", path)
    assert "The answer could not be finished" in said and "not a number" in said


def test_a_text_that_is_not_there(tiny_model, work):
    said = refused("bench", "perplexity", work / "no.txt", "--model", tiny_model)
    assert "no.txt" in said and code_of(said) == "file_unreadable"


def test_messages_that_the_template_refuses(start, work):
    path = work / "turns.gguf"
    makers.tiny_gguf(str(path), kvo={"tokenizer.chat_template": makers.kv(
        "tokenizer.chat_template", makers.STR, TURNS)})
    server = start(path)
    turn = {"role": "user", "content": "hi"}
    found = error(server.post("/v1/chat/completions", {"messages": [turn, turn]}), 400)
    assert found["code"] == "chat_template_refused" and found["param"] == "messages"
    assert "Roles must alternate" in found["message"]
    assert server.post("/v1/chat/completions", {"messages": [turn], "max_tokens": 1}).is_success
