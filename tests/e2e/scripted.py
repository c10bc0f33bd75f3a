"""A model that always says the same: each token has one successor, through weights that hold nothing else.

Its embedding of piece k is a unit vector and the head's row of piece k + 1 points along it; attention and
feed-forward are zero. The last token of the prompt, which the template sets, leads to the first piece.
"""
import struct

import makers

TEMPLATE = "{% if tools %}{{ tools | tojson }} TOOLS{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content or m.tool_calls | tojson }}{% endfor %}{{ tail }}<s>"
FIRST, END, CONTROL, PLAIN = 0, 3, 3, 4  # ids of <s> and of the end; types of tokens in GGUF


def scripted_gguf(path, pieces, template=TEMPLATE, control=(), start="<s>"):
    """Writes a model that says `pieces`, one token each, all different; those in `control` are control tokens.

    `start` is the token that its template puts last; where it is not <s>, the model has it as a token of its own.
    """
    own_start = [] if start == "<s>" else [start]
    assert len({*own_start, *pieces}) == len(own_start) + len(pieces) < makers.D - 1
    pieces = [*own_start, *pieces]
    # Letters beyond ASCII stand as in real vocabularies, one for each byte.
    written = [piece if piece.isascii() else "".join(makers.V[4 + byte] for byte in piece.encode()) for piece in pieces]
    words = [*makers.V, *written]
    types = [3] * 4 + [1] * (len(makers.V) - 4) + [CONTROL if piece in control else PLAIN for piece in pieces]
    size, width = len(words), makers.D
    chain = [*([] if own_start else [FIRST]), *range(len(makers.V), size), END]
    embedding, head = [[0.0] * width for _ in words], [[0.0] * width for _ in words]
    for place, (token, following) in enumerate(zip(chain, chain[1:])):
        embedding[token][place] = 1.0
        head[following][place] = 10.0

    def flat(rows):
        return struct.pack(f"<{size * width}f", *[value for row in rows for value in row])

    tensors = []
    for _, name, rows, columns, raw in makers.tensors(tied=False):
        if name in ("token_embd.weight", "output.weight"):
            tensors.append((name, [width, size], 0, flat(embedding if name.startswith("token") else head)))
        elif columns:
            tensors.append((name, [columns, rows], 0, b"\0" * len(raw)))
        else:
            tensors.append((name, [rows], 0, raw))
    kv, kinds = makers.kv, {"tokenizer.ggml.tokens": (makers.ARR, words, makers.STR),
                            "tokenizer.ggml.token_type": (makers.ARR, types, makers.I32),
                            "llama.vocab_size": (makers.U32, size),
                            "tokenizer.chat_template": (makers.STR, template)}
    makers.gguf(str(path), makers.base_kv(**{key: kv(key, *value) for key, value in kinds.items()}), tensors)
    return path


def cut(text, length):
    """`text` in pieces of about that many characters, all different."""
    pieces = []
    while text:
        size = length
        while text[:size] in pieces:
            size += 1
        pieces.append(text[:size])
        text = text[size:]
    return pieces
