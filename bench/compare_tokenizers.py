#!/usr/bin/env python3
"""Encodes the same texts with quern and with the tokenizers' own libraries in turns, on one thread each.

    bench/compare_tokenizers.py [--rounds 3] [--only gpt2,llama2] [--texts English,code]

A tokenizer.json is compared with Hugging Face's `tokenizers`, a tiktoken file or tekken.json with
`tiktoken`, a tokenizer.model of SentencePiece with `sentencepiece`; a GGUF with the `tokenizers` of
the same merges. They are installed into build/tokenizers-venv. The real vocabularies are read from
$QUERN_SHARED/fixtures/tokenizers (default ../shared); those that are missing are named and left
out. The default model, whose GGUF any machine has after `make model`, is compared with the
tokenizer made of its metadata.

Each figure is MB/s of one call on the whole text: the median of the rounds and their range. What is
timed gives the same ids on both sides, or the row says "other ids".
"""

import argparse
import base64
import gzip
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = ROOT / "build/tokenizers-venv"
PACKAGES = ["tokenizers==0.23.3", "tiktoken==0.14.0", "sentencepiece==0.2.3", "gguf==0.19.0"]
BLANK = "\u2581"


def in_own_environment():
    """Goes on in an environment with PACKAGES, made where it is missing."""
    stamp = VENV / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run(
            [VENV / "bin/pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", *PACKAGES], check=True
        )
        stamp.write_text("\n".join(PACKAGES))
    if pathlib.Path(sys.prefix).resolve() != VENV.resolve():
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])


def texts():
    """Name -> text. English is Python's own manual as pydoc has it, code the standard library, and Chinese is drawn
    from the commonest characters with words that come back, for no package at hand has a book of it."""
    import asyncio
    import pydoc_data.topics

    draw = random.Random(1)
    common = [
        bytes([row, column]).decode("gb2312", "ignore") for row in range(0xB0, 0xD8) for column in range(0xA1, 0xFF)
    ]
    words = ["".join(draw.choices(common, k=draw.choice((1, 2, 2, 2, 3)))) for _ in range(4000)]
    often = [1 / (rank + 3) for rank in range(len(words))]
    sentences = [
        ("".join(draw.choices(words, often, k=draw.randint(4, 14))) + draw.choice("，。。？\n")) for _ in range(9000)
    ]
    code = sorted(pathlib.Path(asyncio.__file__).parent.glob("*.py"))
    return {
        "English": "\n\n".join(pydoc_data.topics.topics.values()),
        "code": "\n".join(file.read_text() for file in code),
        "Chinese": "".join(sentences),
    }


def of_gguf(file):
    """The tokenizer of a GGUF file, as the library has it."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

    fields = gguf.GGUFReader(str(file)).fields
    read = {key: fields["tokenizer.ggml." + key].contents() for key in ("model", "tokens", "merges", "token_type")}
    by_characters = read["model"] == "gemma4"
    more = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True} if by_characters else {}
    made = Tokenizer(
        models.BPE(
            {token: i for i, token in enumerate(read["tokens"])},
            [tuple(merge.split(" ")) for merge in read["merges"]],
            **more,
        )
    )
    if by_characters:
        made.normalizer = normalizers.Replace(" ", BLANK)
    else:  # smollm
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    made.add_tokens(
        [
            AddedToken(token, special=kind == 3, normalized=False)
            for token, kind in zip(read["tokens"], read["token_type"])
            if kind in (3, 4)
        ]
    )
    return made


class Reference:
    """One library's tokenizer: the file that quern reads, and `encode(text) -> ids`."""

    def __init__(self, file, temporary):
        self.quern_file, self.library, self.shift = file, "tokenizers", 0
        if file.suffix == ".gz":
            self.quern_file = temporary / f"{file.parent.name}-{file.stem}"
            self.quern_file.write_bytes(gzip.decompress(file.read_bytes()))
        if file.name == "tokenizer.json":
            import tokenizers

            self.use(tokenizers.Tokenizer.from_file(str(file)))
        elif ".gguf" in file.suffixes:
            self.use(of_gguf(self.quern_file))
        elif file.suffix == ".tiktoken" or file.name.startswith("tekken") or self.quern_file.read_bytes()[:1] != b"\n":
            self.use_tiktoken(file)
        else:
            import sentencepiece

            self.library = "sentencepiece"
            self.encode = sentencepiece.SentencePieceProcessor(model_file=str(file)).encode

    def use(self, tokenizer):
        # Without offsets, which quern does not compute either.
        self.encode = lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def use_tiktoken(self, file):
        import tiktoken

        self.library = "tiktoken"
        golden = file.parent / ("golden.tiktoken.jsonl" if file.name == "tokenizer.model" else "golden.jsonl")
        meta = json.loads(golden.open().readline())
        shift = 0
        if file.name.startswith("tekken"):
            held = json.loads(self.quern_file.read_text())
            shift = held["config"]["default_num_special_tokens"]
            size = held["config"]["default_vocab_size"] - shift
            ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in held["vocab"][:size]}
        else:
            ranks = {
                base64.b64decode(token): int(rank)
                for token, rank in (line.split() for line in file.read_text().splitlines() if line)
            }
        made = tiktoken.Encoding(file.parent.name, pat_str=meta["pattern"], mergeable_ranks=ranks, special_tokens={})
        self.encode, self.shift = made.encode_ordinary, shift  # of ids, by the special tokens before them


def files(shared):
    """(name, file) of the default model and of every vocabulary there; says which are missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    model = os.environ.get("QUERN_DEFAULT_MODEL") or f"{cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    wanted = [("default model", pathlib.Path(model))]
    folder = shared / "fixtures/tokenizers"
    for name in (
        "smollm2",
        "gpt2",
        "starcoder",
        "llama3",
        "qwen3",
        "deepseek-v3",
        "falcon",
        "llama2",
        "phi3",
        "t5-small",
        "bert-base-uncased",
    ):
        wanted.append((name, folder / name / "tokenizer.json"))
    wanted += [
        ("gemma4", folder / "gemma4/vocab.gguf.gz"),
        ("llama3", folder / "llama3/tokenizer.model"),
        ("cl100k", folder / "cl100k/cl100k_base.tiktoken"),
        ("o200k", folder / "o200k/o200k_base.tiktoken"),
        ("mistral-tekken", folder / "mistral-tekken/tekken.json.gz"),
        ("llama2", folder / "llama2/tokenizer.model"),
        ("mistral-v3-spm", folder / "mistral-v3-spm/tokenizer.model.v3"),
    ]
    missing = [str(file) for _, file in wanted if not file.is_file()]
    if missing:
        print(f"left out, {len(missing)} of {len(wanted)} are missing: {' '.join(missing)}", file=sys.stderr)
    return [(name, file) for name, file in wanted if file.is_file()]


def quern_run(quern, model, text_file):
    done = subprocess.run(
        [quern, "bench", "tokenizer", str(model), str(text_file), "--repeats", "1", "--json", "--log-level", "error"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def hash_of(ids):
    """As `quern bench tokenizer` has it."""
    value = 0xCBF29CE484222325
    for token in ids:
        value = ((value ^ token) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def measure(reference, quern, text, file, rounds):
    """MB/s of each round on both sides, and whether both gave the same ids."""
    ours, theirs, same = [], [], True
    size = len(text.encode()) / 1e6
    for _ in range(rounds):
        run = quern_run(quern, reference.quern_file, file)
        ours.append(size / run["encode_s"][0])
        begin = time.perf_counter()
        ids = reference.encode(text)
        theirs.append(size / (time.perf_counter() - begin))
        same = same and run["ids_hash"] == hash_of(token + reference.shift for token in ids)
    return ours, theirs, same


def shown(runs):
    return f"{statistics.median(runs):.1f} ({min(runs):.1f}–{max(runs):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", default=str(ROOT / "build/release/quern"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of tokenizers, with commas between")
    parser.add_argument("--texts", help="of English, code and Chinese, with commas between")
    options = parser.parse_args()
    in_own_environment()
    shared = pathlib.Path(os.environ.get("QUERN_SHARED", ROOT.parent / "shared"))
    with tempfile.TemporaryDirectory() as folder:
        temporary, all_texts = pathlib.Path(folder), texts()
        print(
            "| tokenizer | file | beside | text | quern, MB/s | library, MB/s | ratio |\n|---|---|---|---|---|---|---|"
        )
        for name, file in files(shared):
            if options.only and name not in options.only.split(","):
                continue
            reference = Reference(file, temporary)
            for kind, text in all_texts.items():
                if options.texts and kind not in options.texts.split(","):
                    continue
                written = temporary / f"{kind}.txt"
                written.write_bytes(text.encode())
                ours, theirs, same = measure(reference, options.quern, text, written, options.rounds)
                ratio = statistics.median(ours) / statistics.median(theirs)
                print(
                    f"| {name} | {file.name} | {reference.library} | {kind} | {shown(ours)} | {shown(theirs)} | "
                    f"{ratio:.1f} |" + ("" if same else " other ids |"),
                    flush=True,
                )


if __name__ == "__main__":
    main()
