"""Bytes that are not text, from the model and from the client, never break an answer."""
import pytest

from helpers import SOAK, ask, at_once, chat, complete, error

SEEDS = 300 if SOAK else 30


def test_sampled_bytes_become_valid_text(tiny):
    """The tiny model has a token for each byte, so nearly every answer holds invalid UTF-8."""
    bodies = [chat(temperature=2, max_tokens=200, seed=seed) for seed in range(1, SEEDS + 1)]
    pairs = at_once([lambda b=body, s=stream: ask(tiny, b, s)
                     for body in bodies for stream in (False, True)])
    for whole, streamed in zip(pairs[::2], pairs[1::2]):
        assert whole == streamed
    assert any("\ufffd" in text for text, _ in pairs)


BAD = {
    "raw 0xFF": b'{"prompt":"\xff"}',
    "latin-1": b'{"prompt":"caf\xe9"}',
    "lone surrogate": rb'{"prompt":"\ud83d"}',
    "byte-order mark": b'\xef\xbb\xbf{"prompt":"a"}',
    "bytes outside strings": b'\xff\xfe{}',
    "raw NUL": b'{"prompt":"a\x00"}',
    "truncated": b'{',
    "empty": b'',
    "array": b'[]',
    "text": b'"a"',
    "trailing": b'{"prompt":"a"} x',
    "NaN": b'{"prompt":"a","temperature":NaN}',
    "overflow": b'{"prompt":"a","temperature":1e999}',
    "nested": b'[' * 100_000,
    "nested objects": b'{"a":' * 100_000,
}


TAKING_BODIES = ("/v1/completions", "/v1/chat/completions", "/generate", "/tokenize", "/v1/tokenize",
                 "/detokenize", "/v1/detokenize")


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused(tiny, name):
    for path in TAKING_BODIES:
        found = error(tiny.post(path, BAD[name]), 400)
        assert found["type"] == "invalid_request_error" and found["code"] in ("invalid_json", "wrong_field_type")


# Where a text may stand in a body.
PLACES = ['{"%s":"a"}', '{"prompt":"%s"}', '{"prompt":["a","%s"]}', '{"text":"%s"}', '{"x":{"y":["%s"]}}',
          '{"messages":[{"role":"user","content":"%s"}]}', '{"messages":[{"role":"%s","content":"a"}]}',
          '{"messages":[{"role":"user","content":[{"type":"text","text":"%s"}]}]}', '{"stop":["%s"]}',
          '{"tools":[{"type":"function","function":{"name":"%s"}}]}', '{"sampling_params":{"stop":"%s"}}']
NO_TEXTS = {"a lone high surrogate": rb"\ud83d", "a lone low surrogate": rb"\ude00", "surrogates the wrong way round":
            rb"\ude00\ud83d", "a surrogate in UTF-8": b"\xed\xa0\xbd", "an overlong NUL": b"\xc0\x80",
            "a byte above all": b"\xff", "a cut character": b"\xe6\xbc", "a raw NUL": b"\x00", "latin-1": b"\xe9",
            "above U+10FFFF": b"\xf4\x90\x80\x80", "a raw newline": b"\n"}


@pytest.mark.parametrize("name", NO_TEXTS)
def test_what_is_no_text_is_refused_wherever_it_stands(tiny, name):
    for place in PLACES:
        body = place.encode().replace(b"%s", b"x" + NO_TEXTS[name])
        for path in TAKING_BODIES:
            found = error(tiny.post(path, body), 400)
            assert found["code"] == "invalid_json" and "body" in found["message"], (path, body)


def test_escaped_NUL_and_pairs_of_surrogates_are_text(tiny):
    reply = tiny.post("/tokenize", rb'{"prompt":"a\u0000\ud83d\ude00"}')
    assert reply.json()["tokens"] == [4 + byte for byte in "a\0\U0001f600".encode()]
    assert tiny.post("/detokenize", {"tokens": reply.json()["tokens"]}).json()["text"] == "a\0\U0001f600"


def test_odd_but_legal_text_is_served(tiny):
    for text in ("\u0000", "a\u0000b", "\U0001f600", "\u202e", "\ufffd", "<|im_end|>"):
        assert tiny.post("/v1/completions", complete(prompt=text)).status_code == 200


def test_an_error_quotes_the_client_in_valid_text(tiny):
    reply = tiny.post("/v1/completions", complete(model="\u0000\u202e<script>"))
    assert error(reply, 404)["code"] == "model_not_found"
    assert error(tiny.get("/v1/models/%ff%00"), 404)["code"] == "model_not_found"
