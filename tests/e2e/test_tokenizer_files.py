"""Models whose tokenizer is no tokenizer.json: SentencePiece's, Mistral's and OpenAI's files, GGUF of any kind."""

import base64
import json
import pathlib
import shutil
import subprocess

import pytest

import makers
from conftest import QUERN, ROOT

KINDS = ROOT / "tests/data/tokenizer/kinds"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"


def golden(name):
    """(text, ids without special tokens) of each text."""
    if name == "tekken.json":
        rows = json.loads((KINDS / "tekken.golden.json").read_text())
        return list(zip(rows["texts"], rows["ids"]))
    rows = json.loads((KINDS / "sentencepiece.json").read_text())
    return list(zip(rows["texts"], rows[pathlib.Path(name).stem]["ids"]))


def folder_with(work, name, file, rows, **config):
    """A model folder whose only tokenizer is `file` of KINDS under `name`."""
    folder = work / f"only_{pathlib.Path(file).stem}_{name}"
    makers.tiny_hf(str(folder), cfg={"vocab_size": rows, "bos_token_id": 1, "eos_token_id": 2})
    (folder / "tokenizer.json").unlink()
    shutil.copy(KINDS / file, folder / name)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE, **config})
    )
    return folder


def tokenized(path, text, *flags):
    done = subprocess.run(
        [QUERN, "tokenize", str(path), text, "--json", *flags], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["tokens"]


def decoded(path, ids):
    done = subprocess.run(
        [QUERN, "tokenize", str(path), "--decode", json.dumps(ids), "--json", "--no-special-tokens"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["text"]


def test_a_folder_with_a_sentencepiece_file_is_served(start, work):
    server = start(folder_with(work, "tokenizer.model", "bpe.model", 261, add_bos_token=True))
    for text, ids in golden("bpe.model"):
        assert server.post("/tokenize", {"prompt": text}).json()["tokens"] == [1, *ids], text
        if text:
            chat = {"messages": [{"role": "user", "content": text}]}
            assert server.post("/tokenize", chat).json()["tokens"] == [1, *ids], text
    answer = server.client().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "The mill"}], max_tokens=4, extra_body={"ignore_eos": True}
    )
    assert answer.usage.prompt_tokens == 1 + len(tokenized(KINDS / "bpe.model", "The mill", "--no-special-tokens"))
    assert answer.usage.completion_tokens == 4


@pytest.mark.parametrize(
    "name, file, rows",
    [
        ("tokenizer.model.v3", "bpe.model", 261),
        ("spiece.model", "unigram.model", 500),
        ("tokenizer.model", "unigram.model", 512),
        ("tekken.json", "tekken.json", 415),
    ],
)
def test_folders_and_files_give_the_same_ids(work, name, file, rows):
    folder = folder_with(work, name, file, rows, add_bos_token=True)
    for text, ids in golden(file)[:8]:
        assert tokenized(folder, text) == [1, *ids], text
        assert tokenized(folder, text, "--no-special-tokens") == ids
        assert tokenized(KINDS / file, text, "--no-special-tokens") == ids
    for text in ("The wheel was stopped.", "na\u00efve \u6f22\u5b57" if file != "bpe.model" else "naive"):
        assert decoded(folder, tokenized(folder, text)) == text


def test_a_tiktoken_file_of_kimis_begins_no_text(work):
    ranks = [bytes([i]) for i in range(256)] + [bytes([i, k]) for i in range(256) for k in range(256)]
    ranks += [b"ab" + more for more in ranks[256:]]
    ranks += [b"cd" + more for more in ranks[256 : 163584 - len(ranks) + 256]]
    folder = work / "kimi"
    makers.tiny_hf(str(folder), cfg={"vocab_size": 163840, "bos_token_id": 163584, "eos_token_id": 163585})
    (folder / "tokenizer.json").unlink()
    (folder / "tiktoken.model").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks))
    )
    named = {"163584": {"content": "[BOS]", "special": True}, "163586": {"content": "<|im_end|>", "special": True}}
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "[BOS]", "added_tokens_decoder": named}))
    assert tokenized(folder, "ab<|im_end|>", "--allow-special-tokens-in-prompt") == [
        256 + 256 * ord("a") + ord("b"),
        163586,
    ]
    assert decoded(folder, [256 + 256 * ord("a") + ord("b"), 163586]) == "ab"


def test_a_gguf_file_that_cannot_be_served_still_tokenizes(work):
    path = work / "odd_architecture.gguf"
    makers.tiny_gguf(str(path), kvo={"general.architecture": makers.kv("general.architecture", makers.STR, "oddity")})
    assert tokenized(path, "a t") == [4 + ord("a"), 260]
    assert decoded(path, [4 + ord("a"), 260]) == "a t"
    done = subprocess.run(
        [QUERN, "serve", "--model", str(path), "--port", "0"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and done.stderr


@pytest.mark.parametrize("pre, begins", [("llama-bpe", True), ("tekken", True), ("gpt-2", False), ("qwen2", False)])
def test_files_that_do_not_say_what_begins_a_text(work, pre, begins):
    path = work / f"begins_{pre}.gguf"
    over = {"tokenizer.ggml.pre": makers.kv("tokenizer.ggml.pre", makers.STR, pre)}
    for said in (None, True, False):
        add = None if said is None else makers.kv("tokenizer.ggml.add_bos_token", makers.BOOL, said)
        makers.tiny_gguf(str(path), kvo={**over, "tokenizer.ggml.add_bos_token": add})
        expected = begins if said is None else said
        assert tokenized(path, "ab") == [0] * expected + [4 + ord("a"), 4 + ord("b")]
