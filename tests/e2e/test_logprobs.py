"""Log-probabilities, echo, penalties and bias through every API: shapes, exactness, equal bits."""
import json
import math
import subprocess

import pytest

from conftest import QUERN, ROOT
from helpers import at_once, chat, complete, error, events

GOLDEN = ROOT / "tests/data/smollm2/golden.json"


def scored(server, ids, start=0, **more):
    body = {"input_ids": ids, "return_logprob": True, "logprob_start_len": start, **more,
            "sampling_params": {"max_new_tokens": 0, **more.get("sampling_params", {})}}
    reply = server.post("/generate", body)
    assert reply.status_code == 200, reply.text
    return reply.json()["meta_info"]


@pytest.fixture(scope="module")
def exact(start, smol_model):
    """The real model in float32, against which goldens were made."""
    return start(smol_model, "--dtype", "float32", "--kv-cache-dtype", "float32")


def test_the_text_is_scored_as_by_the_reference(exact):
    golden = json.loads(GOLDEN.read_text())["text"]
    found = scored(exact, golden["ids"], top_logprobs_num=2)
    tokens = found["input_token_logprobs"]
    assert tokens[0][0] is None and [t[1] for t in tokens] == golden["ids"]
    for (logprob, _, text), nll in zip(tokens[1:], golden["nll"]):
        assert text is None and abs(logprob + nll) < 1e-3
    tops = found["input_top_logprobs"]
    assert tops[0] is None
    for top, best, margin in zip(tops[1:], golden["top1"], golden["margin"]):
        if margin > 1e-3:
            assert top[0][1] == best and abs(top[0][0] - top[1][0] - margin) < 1e-3


def test_the_chats_likeliest_tokens_are_the_references(exact):
    for golden in json.loads(GOLDEN.read_text())["chats"]:
        wanted = golden["steps"]
        ids = golden["prompt_ids"] + [step["id"] for step in wanted]
        begin = len(golden["prompt_ids"]) - 1
        found = scored(exact, ids, begin, top_logprobs_num=5)["input_top_logprobs"]
        assert len(found) == len(wanted) + 1
        for top, step in zip(found[1:], wanted):
            values = {token: logprob for logprob, token, _ in top}
            for token, logprob in step["top"]:
                if token in values:  # the fifth may lie within rounding of the sixth
                    assert abs(values[token] - logprob) < 1e-3
            assert len(values.keys() & {token for token, _ in step["top"]}) >= 4


def test_scores_make_the_perplexity(smol, smol_model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text((ROOT / "tests/data/smollm2/text.txt").read_text()[:1500])
    done = subprocess.run([QUERN, "bench", "perplexity", "--model", str(smol_model), str(text), "--json",
                           "--log-level", "error"], capture_output=True, text=True, check=True)
    ids = smol.post("/tokenize", {"prompt": text.read_text()}).json()["tokens"]
    values = [token[0] for token in scored(smol, ids)["input_token_logprobs"][1:]]
    assert math.exp(-sum(values) / len(values)) == pytest.approx(json.loads(done.stdout)["perplexity"], rel=1e-5)


def test_scores_do_not_depend_on_what_else_runs(smol):
    ids = [smol.post("/tokenize", {"prompt": f"{i} " + "The sea is wide and the moon is far. " * (i + 3)}).json()["tokens"]
           for i in range(8)]
    alone = [scored(smol, one)["input_token_logprobs"] for one in ids]
    assert at_once([lambda o=one: scored(smol, o)["input_token_logprobs"] for one in ids]) == alone


def test_drawn_tokens_are_told_with_their_bytes(smol):
    body = chat(temperature=1.5, seed=3, max_tokens=60, logprobs=True, top_logprobs=5,
                messages=[{"role": "user", "content": "Write smileys: 😀 😃 你好"}])
    choice = smol.post("/v1/chat/completions", body).json()["choices"][0]
    content = choice["logprobs"]["content"]
    assert bytes(b for token in content for b in token["bytes"]).decode(errors="replace") == choice["message"]["content"]
    for token in content:
        assert token["token"] and -10000 < token["logprob"] <= 0
        assert len(token["top_logprobs"]) in (5, 6)
        assert token["token"] in [other["token"] for other in token["top_logprobs"]]
        values = [other["logprob"] for other in token["top_logprobs"][:5]]
        assert values == sorted(values, reverse=True)
    streamed = [t for event in events(smol.post("/v1/chat/completions", {**body, "stream": True}))
                for c in event["choices"] if c["logprobs"] for t in c["logprobs"]["content"]]
    assert streamed == content


def test_the_openai_client_reads_both_shapes(smol):
    client = smol.client()
    answer = client.chat.completions.create(**chat(temperature=0, logprobs=True, top_logprobs=2))
    assert len(answer.choices[0].logprobs.content) == answer.usage.completion_tokens - (answer.choices[0].finish_reason == "stop")
    assert answer.choices[0].logprobs.content[0].top_logprobs[0].token == answer.choices[0].logprobs.content[0].token
    old = client.completions.create(**complete(prompt="The sea", temperature=0, max_tokens=4, logprobs=2, echo=True))
    told = old.choices[0].logprobs
    assert old.choices[0].text.startswith("The sea") and "".join(told.tokens) == old.choices[0].text
    assert told.token_logprobs[0] is None and told.top_logprobs[0] is None
    assert all(old.choices[0].text[o:].startswith(t) for o, t in zip(told.text_offset, told.tokens))
    zero = client.completions.create(**complete(prompt="The sea", max_tokens=0, echo=True, logprobs=0))
    assert zero.choices[0].text == "The sea" and zero.usage.completion_tokens == 0


def first_logprobs(server, **more):
    body = complete(prompt="red green blue red green blue red green blue red green", temperature=0, max_tokens=1, logprobs=5, **more)
    return server.post("/v1/completions", body).json()["choices"][0]


def test_penalties_count_what_they_say(smol):
    """Presence and frequency count drawn tokens, repetition the prompt too; told are the model's own."""
    plain = first_logprobs(smol)
    for more in ({"presence_penalty": 2}, {"frequency_penalty": 2}):
        assert first_logprobs(smol, **more) == plain
    harsh = first_logprobs(smol, repetition_penalty=2)
    assert harsh["text"] != plain["text"]
    assert harsh["logprobs"]["top_logprobs"][0].items() >= plain["logprobs"]["top_logprobs"][0].items()
    body = complete(prompt="One fish, two fish,", temperature=0, max_tokens=48, ignore_eos=True)
    texts = {smol.post("/v1/completions", {**body, **more}).json()["choices"][0]["text"]
             for more in ({}, {"frequency_penalty": 2}, {"presence_penalty": 2}, {"repetition_penalty": 1.8})}
    assert len(texts) == 4


def test_bias_forbids_and_forces(tiny):
    ids = lambda **bias: tiny.post("/generate", {"text": "hi", "sampling_params": {
        "max_new_tokens": 12, "ignore_eos": True, **bias}}).json()["output_ids"]
    assert ids(logit_bias={"70": 100}, temperature=0) == [70] * 12
    everything = {str(i): -100 for i in range(200)}
    assert len(ids(logit_bias=everything)) == 12
    assert 70 not in ids(logit_bias={"70": -100}, temperature=1, sampling_seed=1)


def test_no_end_before_the_least_tokens(smol):
    body = chat(temperature=0, max_tokens=40, messages=[{"role": "user", "content": "Say only: yes"}])
    plain = smol.post("/v1/chat/completions", body).json()
    count = plain["usage"]["completion_tokens"]
    assert plain["choices"][0]["finish_reason"] == "stop" and count < 39
    longer = smol.post("/v1/chat/completions", {**body, "min_tokens": count + 1}).json()
    assert longer["usage"]["completion_tokens"] > count


def test_what_cannot_be_told(tiny):
    for more, param in (({"logprob_start_len": 100}, "logprob_start_len"), ({"token_ids_logprob": [99999]}, "token_ids_logprob"),
                        ({"top_logprobs_num": 65}, "top_logprobs_num")):
        reply = tiny.post("/generate", {"text": "hi", "return_logprob": True, **more})
        assert error(reply, 400)["param"] == param
