"""The prefix cache over HTTP: equal texts with and without it, what usage tells, who shares."""
import json
import random
import socket
import time

import pytest

from conftest import reset
from helpers import SOAK, at_once, complete


def reply_of(server, ids, **more) -> dict:
    reply = server.post("/v1/completions", complete(
        prompt=ids, max_tokens=8, temperature=0, ignore_eos=True, **more))
    assert reply.status_code == 200, reply.text
    return reply.json()


def cached(reply: dict) -> int:
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def ids_of(count: int, seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(4, 260) for _ in range(count)]


@pytest.mark.parametrize("length", [1, 15, 16, 17, 64, 200])
def test_the_same_prompt_again(tiny, length):
    ids = ids_of(length, length)
    first = reply_of(tiny, ids, cache_salt="again")
    assert cached(first) == 0
    for reply in at_once([lambda: reply_of(tiny, ids, cache_salt="again")] * 8):
        assert reply["choices"][0]["text"] == first["choices"][0]["text"]
        assert cached(reply) == (length - 1) // 16 * 16
    # A strict prefix of what is cached, and all of it with more behind.
    if length > 1:
        assert cached(reply_of(tiny, ids[:-1], cache_salt="again")) == (length - 2) // 16 * 16
    assert cached(reply_of(tiny, ids + [7, 8], cache_salt="again")) >= length // 16 * 16


def test_salts_and_keys_are_kept_apart(tiny):
    ids = ids_of(80, 1)
    for more in ({"cache_salt": "one"}, {"cache_salt": "two"}, {"extra_key": "one"}):
        assert cached(reply_of(tiny, ids, **more)) == 0
        assert cached(reply_of(tiny, ids, **more)) == 64


def test_generate_tells_the_same(tiny):
    body = {"input_ids": ids_of(40, 2), "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
    replies = [tiny.post("/generate", body).json() for _ in range(2)]
    assert [reply["meta_info"]["cached_tokens"] for reply in replies] == [0, 32]
    assert replies[0]["output_ids"] == replies[1]["output_ids"]


def test_the_next_turn_starts_from_the_answer(tiny):
    ids = ids_of(20, 3)
    body = {"input_ids": ids, "sampling_params": {
        "max_new_tokens": 30, "temperature": 0, "ignore_eos": True}}
    answer = tiny.post("/generate", body).json()["output_ids"]
    assert cached(reply_of(tiny, ids + answer + [9] * 5)) == 48


@pytest.fixture(scope="module")
def uncached(start, tiny_model):
    return start(tiny_model, "--disable-radix-cache")


def scored(server, ids, **more) -> dict:
    """Ids and log-probabilities of an answer of eight tokens."""
    reply = server.post("/generate", {"input_ids": ids, "return_logprob": True, "sampling_params": {
        "max_new_tokens": 8, "temperature": 0, "ignore_eos": True}, **more})
    assert reply.status_code == 200, reply.text
    meta = reply.json()["meta_info"]
    return {name: meta[name] for name in ("prompt_tokens", "output_token_logprobs", "input_token_logprobs")}


@pytest.mark.parametrize("length", [1, 15, 16, 17, 64])
@pytest.mark.parametrize("more", [{}, {"logprob_start_len": 0}], ids=["answer", "prompt too"])
def test_log_probabilities_are_those_without_the_cache(tiny, uncached, length, more):
    """Of a prompt that is cached as a whole, of a strict prefix of it, eight at once; with echo and one token."""
    ids = ids_of(length, 100 + length)
    expected = scored(uncached, ids, **more)
    assert scored(tiny, ids, **more) == expected
    assert at_once([lambda: scored(tiny, ids, **more)] * 8) == [expected] * 8
    if length > 1:
        assert scored(tiny, ids[:-1], **more) == scored(uncached, ids[:-1], **more)
    echo = complete(prompt=ids, max_tokens=1, temperature=0, echo=True, logprobs=2, ignore_eos=True)
    choices = [server.post("/v1/completions", echo).json()["choices"] for server in (tiny, uncached)]
    assert choices[0] == choices[1]


@pytest.mark.parametrize("chunk, page", [("16", "16"), ("64", "1"), ("512", "64")])
def test_cancelled_prompts_leave_only_what_was_computed(start, tiny_model, chunk, page):
    """Half of many requests that share a prefix go away at random moments, many of them within their prefill; the
    prefix answers as without the cache, and a flush takes back every page."""
    flags = ("--chunked-prefill-size", chunk, "--page-size", page)
    server, uncached = start(tiny_model, *flags), start(tiny_model, *flags, "--disable-radix-cache")
    source = random.Random(4)
    for turn in range(200 if SOAK else 20):
        prefix = ids_of(200, 1000 + turn)

        def leave(tail: int, delay: float) -> None:
            body = json.dumps(complete(prompt=prefix + [tail] * 40, max_tokens=20, stream=tail % 4 == 1)).encode()
            connection = server.raw("/v1/completions", body)
            time.sleep(delay)
            (reset if tail % 3 else socket.socket.close)(connection)

        stay = [lambda tail=tail: reply_of(server, prefix + [tail] * 40) for tail in range(4, 12, 2)]
        go = [lambda tail=tail, delay=source.random() * 0.02: leave(tail, delay) for tail in range(5, 13, 2)]
        at_once([call for pair in zip(stay, go) for call in pair])
        assert scored(server, prefix) == scored(uncached, prefix)
    assert server.quiet()
    assert server.post("/flush_cache", {}).status_code == 200
    assert server.info()["pages_used"] == server.info()["pages_cached"] == 0
