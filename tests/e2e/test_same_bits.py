"""The real model's greedy answers: alone, sixteen equal ones at once and beside fifteen others, with any number
of threads, size of chunks and of pages. Not one token differs."""
import pytest

from helpers import at_once

TOKENS = 200
OTHERS = ["sea", "moon", "bread", "iron", "rain", "glass", "salt", "wind", "stone", "fire", "snow", "leaf", "gold",
          "river", "night"]

# threads, --chunked-prefill-size, --page-size; more threads than processors too
WAYS = [(1, 512, 16), (2, 64, 64), (3, 16, 16), (8, 512, 64)]


def answer(server, content: str, tokens: int = TOKENS) -> list[int]:
    ids = server.post("/tokenize", {"messages": [{"role": "user", "content": content}]}).json()["tokens"]
    reply = server.post("/generate", {"input_ids": ids, "sampling_params": {
        "temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}})
    assert reply.status_code == 200, reply.text
    found = reply.json()["output_ids"]
    assert len(found) == tokens
    return found


QUESTION = "Tell me a long story about a lighthouse, its keeper, and the ships that pass by in the night. " * 3


@pytest.fixture(scope="module")
def alone(smol):
    return answer(smol, QUESTION)


@pytest.mark.parametrize("threads, chunk, page", WAYS)
def test_tokens_do_not_depend_on_the_batch(start, smol_model, alone, threads, chunk, page):
    server = start(smol_model, "--threads", str(threads), "--chunked-prefill-size", str(chunk),
                   "--page-size", str(page))
    assert server.info()["page_size"] == page and server.info()["threads"] == threads
    assert answer(server, QUESTION) == alone
    if threads == 1:
        assert at_once([lambda: answer(server, QUESTION)] * 16, 16) == [alone] * 16
    else:
        count = TOKENS if threads == 2 else 40  # where they fight for processors a batch takes long
        beside = at_once([lambda: answer(server, QUESTION)] +
                         [lambda word=word: answer(server, f"Say a word about {word}.", count) for word in OTHERS], 16)
        assert beside[0] == alone
    assert server.stop() == 0
