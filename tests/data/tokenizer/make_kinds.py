#!/usr/bin/env python3
"""Makes kinds/: small tokenizers of every kind and what the reference libraries make of texts with them.

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0
    v/bin/python tests/data/tokenizer/make_kinds.py

They are trained on this project's own texts. `steps.json` has pre-tokenizers and normalizers with the words and
texts they give, `splits.json` the patterns that GGUF files name, `hf.json` whole tokenizer.json files with ids and
decoded texts, `sentencepiece.json` the pieces and ids of the two .model files, `tekken.json` is itself one. Training
breaks ties at random, so that hf.json differs from run to run. The fuzzer's seeds are made of the same files.
"""

import base64
import io
import json
import pathlib
import sys

import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "kinds"
SEEDS = HERE.parents[1] / "fuzz/corpus/tokenizer_file"
sys.path.insert(0, str(HERE.parent / "hostile"))
import makers  # noqa: E402

BLANK = "\u2581"
CORPUS = [
    line
    for file in (HERE.parent / "smollm2/text.txt", HERE.parents[2] / "LICENSE")
    for line in file.read_text().splitlines()
    if line.strip()
]
TEXTS = [
    "",
    " ",
    "a",
    " a",
    "a ",
    "  two  blanks  ",
    "The server's answer: it doesn't, we'LL see.",
    "tabs\tand\nlines\r\n\n  x",
    "1 12 123 1234 12345.67 \u0663\u0664 \u00b2",
    "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m na\u00efve",
    "CamelCase and UPPER_case ABCd",
    "\u6f22\u5b57\u304b\u306a\u30ab\u30ca \ud55c\uad6d\uc5b4 \u5929\u6c14",
    "\u8fd9\u662fKimi\u7684\u6a21\u578b\u3001\u300c\u4ed6\u4eec\u300dAB\u4e2d\u6587cd\u3005 \u4e2d\u6587's x\u4e2dIt's",
    "\U0001f642\U0001f469\u200d\U0001f4bb emoji",
    "snake_case __x__ (a,b);{c}[d] \"q\" 'r' !?...",
    "\u00abquotes\u00bb \u2014 dash \u2026 \u00a7",
    "\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\u00a0nbsp\u3000wide\u2028line\u0085next\u200bzero",
    "x" * 40,
    "----------------",
    "for (int i = 0; i < n; ++i) {\n    a[i] += 1;\n}\n",
    f"{BLANK}written{BLANK}blank",
    "<s>not special</s>",
    "\ufb01\ufb02 \uff21\uff22 \u2460 \u1e9e \u0130I\u0131i",
    "A\u030a\u0327b\u0301\u0301",
]


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")


def step(made):
    return json.loads(made.__getstate__())


PRE = pre_tokenizers
STEPS = [
    PRE.ByteLevel(add_prefix_space=False),
    PRE.ByteLevel(add_prefix_space=True),
    PRE.ByteLevel(add_prefix_space=False, use_regex=False),
    PRE.Metaspace(),
    PRE.Metaspace(prepend_scheme="first"),
    PRE.Metaspace(prepend_scheme="never"),
    PRE.Metaspace(split=False),
    PRE.Metaspace(prepend_scheme="never", split=False),
    PRE.Metaspace(replacement="_"),
    PRE.Whitespace(),
    PRE.WhitespaceSplit(),
    PRE.BertPreTokenizer(),
    PRE.Digits(),
    PRE.Digits(individual_digits=True),
    *[
        PRE.Punctuation(behavior)
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
    ],
    *[
        PRE.Split(Regex(r"\p{P}|\s+"), behavior, invert)
        for invert in (False, True)
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
    ],
    PRE.Split("a", "isolated"),
    PRE.CharDelimiterSplit("a"),
    PRE.Sequence([PRE.WhitespaceSplit(), PRE.Metaspace()]),
    PRE.Sequence([PRE.Digits(individual_digits=True), PRE.ByteLevel(add_prefix_space=False)]),
    PRE.Sequence(
        [
            PRE.Punctuation("contiguous"),
            PRE.ByteLevel(add_prefix_space=False),
            PRE.Digits(),
            PRE.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
    PRE.Sequence([PRE.Whitespace(), PRE.Punctuation("isolated"), PRE.Digits()]),
]
NORMAL = [
    normalizers.NFC(),
    normalizers.NFD(),
    normalizers.NFKC(),
    normalizers.NFKD(),
    normalizers.Lowercase(),
    normalizers.Strip(),
    normalizers.Strip(left=False),
    normalizers.Strip(right=False),
    normalizers.StripAccents(),
    normalizers.Nmt(),
    normalizers.Prepend(BLANK),
    normalizers.Replace(" ", BLANK),
    normalizers.Replace(Regex(" {2,}"), " "),
    normalizers.BertNormalizer(),
    normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=False),
    normalizers.BertNormalizer(handle_chinese_chars=False, lowercase=True, strip_accents=False),
    normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
]

# What a GGUF calls a split, and the pattern that the models' own files have (several: one after the other).
CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPLITS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [CASES + WORDS + r"\p{N}{1,3}" + REST],
    "qwen2": [CASES + WORDS + r"\p{N}" + REST],
    "qwen35": [
        CASES + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "gpt-4o": [
        f"{UPPER}*{LOWER}+{CASES}?|{UPPER}+{LOWER}*{CASES}?"
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "tekken": [f"{UPPER}*{LOWER}+|{UPPER}+{LOWER}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
        r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ],
    "kimi-k2": [
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        + CASES
        + "?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        + CASES
        + "?"
        r"|\p{N}{1,3}" + REST
    ],
    "seed-coder": [CASES + WORDS + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "bloom": [" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"],
}


def steps():
    rows = {"texts": TEXTS, "pre_tokenizers": [], "normalizers": []}
    for made in STEPS:
        rows["pre_tokenizers"].append(
            {"step": step(made), "words": [[word for word, _ in made.pre_tokenize_str(text)] for text in TEXTS]}
        )
    for made in NORMAL:
        rows["normalizers"].append({"step": step(made), "texts": [made.normalize_str(text) for text in TEXTS]})
    write("steps.json", rows)


def splits():
    rows = {}
    for name, patterns in SPLITS.items():
        made = PRE.Sequence([PRE.Split(Regex(pattern), "isolated") for pattern in patterns])
        rows[name] = [[word for word, _ in made.pre_tokenize_str(text)] for text in TEXTS]
    write("splits.json", {"texts": TEXTS, "splits": rows})


def trained(model, trainer, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def with_bytes(tokenizer):
    """The same with byte fallback, which no trainer here makes."""
    file = json.loads(tokenizer.to_str())
    vocab = file["model"]["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    file["model"].update(byte_fallback=True, fuse_unk=True)
    return Tokenizer.from_str(json.dumps(file))


def hf():
    around = lambda one: processors.TemplateProcessing(single=one, special_tokens=[("<s>", 1), ("</s>", 2)])
    special = ["<unk>", "<s>", "</s>"]
    bert = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", "[CLS]", "[SEP]"]),
        normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=PRE.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )
    bert.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    unigram = trained(
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=special),
        normalizer=normalizers.NFKC(),
        pre_tokenizer=PRE.Metaspace(),
        decoder=decoders.Metaspace(),
    )
    unigram.post_processor = around("$A </s>")
    # As the tokenizer.json of SentencePiece models has it; trained on words that begin with U+2581.
    words = trained(
        models.BPE(unk_token="<unk>"),
        trainers.BpeTrainer(vocab_size=400, special_tokens=special),
        pre_tokenizer=PRE.Metaspace(),
    )
    words = with_bytes(words)
    file = json.loads(words.to_str())
    file["pre_tokenizer"] = None
    file["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": BLANK},
            {"type": "Replace", "pattern": {"String": " "}, "content": BLANK},
        ],
    }
    file["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": BLANK}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    llama = Tokenizer.from_str(json.dumps(file))
    llama.post_processor = around("<s> $A")
    file["normalizer"] = file["normalizer"]["normalizers"][1]
    file["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"String": " "},
        "behavior": "MergedWithPrevious",
        "invert": False,
    }
    file["decoder"]["decoders"].pop()
    gemma = Tokenizer.from_str(json.dumps(file))
    gemma.post_processor = around("<s> $A")
    bytes_ = trained(
        models.BPE(),
        trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=PRE.ByteLevel.alphabet()),
        normalizer=normalizers.NFC(),
        pre_tokenizer=PRE.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )
    rows = {"texts": TEXTS, "tokenizers": {}}
    for name, made in dict(bert=bert, unigram=unigram, llama=llama, gemma=gemma, bytes=bytes_).items():
        encoded = [made.encode(text, add_special_tokens=False).ids for text in TEXTS]
        around_ = [made.encode(text).ids for text in TEXTS]
        rows["tokenizers"][name] = {
            "file": json.loads(made.to_str()),
            "ids": encoded,
            "ids_special": around_,
            "decoded": [made.decode(ids) for ids in around_],
        }
    write("hf.json", rows)


def spm():
    rows = {"texts": TEXTS}
    for name, more in {
        "bpe": dict(model_type="bpe", vocab_size=261, character_coverage=1.0, normalization_rule_name="identity"),
        "unigram": dict(
            model_type="unigram",
            vocab_size=500,
            byte_fallback=True,
            normalization_rule_tsv=str(OUT / "rules.tsv"),
            user_defined_symbols=["<tool>"],
        ),
    }.items():
        # \ufb01 becomes fi, a full-width A an A, a tab a blank: the charsmap of NFKC would take a quarter of a megabyte.
        (OUT / "rules.tsv").write_text("FB01\t66 69\nFF21\t41\n9\t20\n41 30A\tC5\n")
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=written, num_threads=1, minloglevel=2, **more
        )
        (OUT / "rules.tsv").unlink()
        for file in (OUT / f"{name}.model", SEEDS / name):
            file.write_bytes(written.getvalue())
        made = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
        size = made.get_piece_size()
        kind = lambda i: (
            2
            if made.is_unknown(i)
            else 3 if made.is_control(i) else 6 if made.is_byte(i) else 4 if made.id_to_piece(i) == "<tool>" else 1
        )
        encoded = [made.encode(text) for text in TEXTS]
        rows[name] = {
            "tokens": [made.id_to_piece(i) for i in range(size)],
            "scores": [made.get_score(i) for i in range(size)],
            "types": [kind(i) for i in range(size)],
            "ids": encoded,
            "decoded": [made.decode(ids) for ids in encoded],
        }
    write("sentencepiece.json", rows)


def tekken():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = PRE.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=PRE.ByteLevel.alphabet()))
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {
        chr(byte if byte in keep else 256 + sum(b not in keep for b in range(byte))): byte for byte in range(256)
    }
    model = json.loads(made.to_str())["model"]
    # Byte tokens by their value first, as these files have them, then what merges make.
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [bytes(letters[c] for c in "".join(merge)) for merge in model["merges"]]
    tokens = list(dict.fromkeys(tokens))
    pattern = SPLITS["tekken"][0]
    special, used = 20, len(tokens) - 5  # the last five are listed and not used
    written = {
        "config": {
            "pattern": pattern,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": used + special,
            "default_num_special_tokens": special,
            "version": "v3",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
    }
    write("tekken.json", written)
    written["vocab"], written["config"]["default_vocab_size"] = written["vocab"][:300], 300 + special
    written["special_tokens"] = [{"rank": 1, "token_str": "<s>", "is_control": True}]
    (SEEDS / "tekken").write_text(json.dumps(written))
    (SEEDS / "tiktoken").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
    )
    reference = tiktoken.Encoding(
        "tekken",
        pat_str=pattern,
        special_tokens={},
        mergeable_ranks={token: rank for rank, token in enumerate(tokens[:used])},
    )
    encoded = [reference.encode_ordinary(text) for text in TEXTS]
    write("tekken.golden.json", {"texts": TEXTS, "ids": [[i + special for i in ids] for ids in encoded]})


def gguf():
    """The same vocabularies as metadata of GGUF files, cut to what a fuzzer likes."""
    folder = SEEDS.parent / "tokenizer_gguf"
    folder.mkdir(exist_ok=True)
    pieces, files = (json.loads((OUT / name).read_text()) for name in ("sentencepiece.json", "hf.json"))

    def save(name, model, tokens, types, **more):
        key = "tokenizer.ggml."
        fields = [
            makers.kv(key + "model", makers.STR, model),
            makers.kv(key + "tokens", makers.ARR, tokens, makers.STR),
            makers.kv(key + "token_type", makers.ARR, types, makers.I32),
            makers.kv(key + "unknown_token_id", makers.U32, 0),
            makers.kv(key + "bos_token_id", makers.U32, 1),
        ]
        fields += [makers.kv(key + field, *value) for field, value in more.items()]
        makers.gguf(str(folder / name), fields, [])

    for name, model in (("bpe", "llama"), ("unigram", "t5")):
        rows = pieces[name]
        count = 330
        scores = (makers.ARR, rows["scores"][:count], makers.F32)
        save(model, model, rows["tokens"][:count], rows["types"][:count], scores=scores)
    for name, model, pre in (("bytes", "gpt2", "llama-bpe"), ("gemma", "gemma4", "")):
        file = files["tokenizers"][name]["file"]["model"]
        tokens = sorted(file["vocab"], key=file["vocab"].get)
        types = [3 if token in ("<s>", "</s>") else 6 if token.startswith("<0x") else 1 for token in tokens]
        merges = [" ".join(merge) for merge in file["merges"]]
        save(model, model, tokens, types, merges=(makers.ARR, merges, makers.STR), pre=(makers.STR, pre))
    vocab = files["tokenizers"]["bert"]["file"]["model"]["vocab"]
    words = [
        token[2:] if token.startswith("##") else token if token.startswith("[") else BLANK + token
        for token in sorted(vocab, key=vocab.get)
    ]
    save("bert", "bert", words[:150], [1] * 150, seperator_token_id=(makers.U32, 2))


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    SEEDS.mkdir(exist_ok=True)
    for make in (steps, splits, hf, spm, tekken, gguf):
        make()
