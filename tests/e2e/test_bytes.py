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


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused(tiny, name):
    for path in ("/v1/completions", "/v1/chat/completions", "/generate", "/tokenize"):
        assert error(tiny.post(path, BAD[name]), 400)["type"] == "invalid_request_error"


def test_odd_but_legal_text_is_served(tiny):
    for text in ("\u0000", "a\u0000b", "\U0001f600", "\u202e", "\ufffd", "<|im_end|>"):
        assert tiny.post("/v1/completions", complete(prompt=text)).status_code == 200


def test_an_error_quotes_the_client_in_valid_text(tiny):
    reply = tiny.post("/v1/completions", complete(model="\u0000\u202e<script>"))
    assert error(reply, 404)["code"] == "model_not_found"
    assert error(tiny.get("/v1/models/%ff%00"), 404)["code"] == "model_not_found"
