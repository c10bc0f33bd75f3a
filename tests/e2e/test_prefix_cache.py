"""The prefix cache over HTTP: equal texts with and without it, what usage tells, who shares."""
import random

import pytest

from helpers import at_once, complete


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


def test_cancelled_prompts_leave_only_what_was_computed(tiny):
    """Half of many requests that share a prefix go away at random; the prefix answers as before."""
    expected = reply_of(tiny, ids_of(200, 4), extra_key="never shared")["choices"][0]["text"]
    source = random.Random(4)

    def ask(tail: int) -> None:
        body = complete(prompt=ids_of(200, 4) + [tail] * 40, max_tokens=20, stream=True)
        with tiny.http.stream("POST", "/v1/completions", json=body) as reply:
            if tail % 2:
                for _ in zip(range(source.randrange(4)), reply.iter_lines()):
                    pass
            else:
                reply.read()

    for _ in range(5):
        at_once([lambda tail=tail: ask(tail) for tail in range(4, 12)])
        assert reply_of(tiny, ids_of(200, 4))["choices"][0]["text"] == expected
