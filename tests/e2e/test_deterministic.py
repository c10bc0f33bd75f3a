"""--enable-deterministic-inference with latent attention: an answer depends on its request alone, not
on what else is in the batch nor on how its prompt is cut into chunks."""
import pytest
from conftest import ROOT
from helpers import at_once

MODELS = ROOT / "tests/data/models"
LENGTHS = (1, 7, 60, 130, 300, 700)  # some prompts run expanded where they may, some absorbed


def requests() -> list[dict]:
    """Greedy ones, and sampled ones that follow a seed: whatever bits differ turn some token."""
    made = []
    for i, length in enumerate(LENGTHS):
        for sampling in ({"temperature": 0}, {"temperature": 1.0, "sampling_seed": 7 + i}):
            made.append({"input_ids": [5 + (i + j * 37) % 500 for j in range(length)],
                         "sampling_params": {"max_new_tokens": 100, "ignore_eos": True, **sampling}})
    return made


def answer(server, body: dict) -> list[int]:
    reply = server.post("/generate", body)
    assert reply.status_code == 200, reply.text
    ids = reply.json()["output_ids"]
    assert len(ids) == 100
    return ids


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3"])
def test_alone_and_in_a_batch_are_the_same(start, name):
    server = start(MODELS / name, "--enable-deterministic-inference", "--chunked-prefill-size", "64")
    alone = [answer(server, body) for body in requests()]
    for _ in range(3):
        assert at_once([lambda body=body: answer(server, body) for body in requests()]) == alone
    assert server.stop() == 0
    other = start(MODELS / name, "--enable-deterministic-inference", "--threads", "1")
    assert [answer(other, body) for body in requests()] == alone
    assert other.stop() == 0


def test_without_the_flag_chunks_show(start):
    """That the test above would notice."""
    answers = []
    for size in ("64", "512"):
        server = start(MODELS / "deepseek_v2", "--chunked-prefill-size", size)
        answers.append([answer(server, body) for body in requests()])
        assert server.stop() == 0
    assert answers[0] != answers[1]
