"""The openai client against the server, on the default model and on a tiny one."""
import json

import openai
import pytest

from conftest import ROOT
from helpers import ask, chat, complete, error, events, streamed, whole


def test_chat_answers_and_streams_alike(smol):
    client = smol.client()
    # A chat whose reference has wide margins, so that rounding does not change the answer.
    golden = json.loads((ROOT / "tests/data/smollm2/golden.json").read_text())["chats"][3]
    ask_for = dict(model="m", temperature=0, max_tokens=24, messages=golden["messages"])
    assert smol.post("/tokenize", ask_for).json()["tokens"] == golden["prompt_ids"]
    answer = client.chat.completions.create(**ask_for)
    reference = smol.post("/detokenize", {"tokens": [step["id"] for step in golden["steps"][:24]]})
    assert reference.json()["text"].startswith(answer.choices[0].message.content)
    assert answer.usage.prompt_tokens == len(golden["prompt_ids"])
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

    chunks = list(client.chat.completions.create(**ask_for, stream=True,
                                                 stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == answer.choices[0].message.content
    assert chunks[-1].choices == []
    # The second time the prompt is cached, which changes no other count.
    counts = lambda usage: (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    assert counts(chunks[-1].usage) == counts(answer.usage)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_completion_of_text_and_of_token_ids_agree(smol):
    client = smol.client()
    prompt = "The sky is blue because"
    ids = smol.post("/tokenize", {"prompt": prompt}).json()["tokens"]
    by_text = client.completions.create(model="m", prompt=prompt, temperature=0, max_tokens=12)
    by_ids = client.completions.create(model="m", prompt=ids, temperature=0, max_tokens=12)
    assert by_text.choices[0].text == by_ids.choices[0].text != ""
    assert by_text.usage.prompt_tokens == by_ids.usage.prompt_tokens == len(ids)
    assert smol.post("/detokenize", {"tokens": ids}).json()["text"] == prompt


def test_models_are_listed(tiny):
    client = tiny.client()
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").owned_by == "quern"
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("other")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="a")


@pytest.mark.parametrize("path, body", [("/v1/chat/completions", chat()),
                                        ("/v1/completions", complete())])
def test_usage_chunk_only_when_asked(tiny, path, body):
    for _ in range(2):  # the second time it is cached, as it will be
        plain = tiny.post(path, {**body, "temperature": 0}).json()["usage"]
    for options, wanted in (({"include_usage": True}, True), ({"include_usage": False}, False),
                            ({}, False), (None, False)):
        chunks = events(tiny.post(path, {**body, "temperature": 0, "stream": True,
                                         "stream_options": options}))
        with_usage = [chunk for chunk in chunks if chunk.get("usage")]
        assert len(with_usage) == wanted
        if wanted:
            assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == plain
    found = error(tiny.post(path, {**body, "stream_options": {"include_usage": True}}), 400)
    assert found["param"] == "stream_options"


def test_choices_differ_and_repeat(tiny):
    body = complete(n=3, seed=7, temperature=1, max_tokens=40)
    answers = [tiny.post("/v1/completions", body).json() for _ in range(2)]
    texts = [[choice["text"] for choice in answer["choices"]] for answer in answers]
    assert texts[0] == texts[1] and len(set(texts[0])) == 3
    one = tiny.post("/v1/completions", {**body, "n": 1}).json()
    assert one["choices"][0]["text"] == texts[0][0]
    assert answers[0]["usage"]["completion_tokens"] >= one["usage"]["completion_tokens"]

    parts, reasons = {0: "", 1: "", 2: ""}, {}
    for event in events(tiny.post("/v1/completions", {**body, "stream": True})):
        for choice in event["choices"]:
            parts[choice["index"]] += choice["text"]
            reasons[choice["index"]] = choice["finish_reason"] or reasons.get(choice["index"])
    assert [parts[i] for i in range(3)] == texts[0]
    assert all(reasons[i] in ("stop", "length") for i in range(3))


def test_several_prompts_in_one_request(tiny):
    prompts = ["ab", "cd", "ef"]
    body = complete(temperature=0, prompt=prompts)
    together = [choice["text"] for choice in tiny.post("/v1/completions", body).json()["choices"]]
    assert together == [ask(tiny, complete(temperature=0, prompt=p), False)[0] for p in prompts]


def test_token_limits_are_kept(tiny):
    for body in (chat(max_tokens=3), chat(max_completion_tokens=3), complete(max_tokens=3)):
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        answer = tiny.post(path, {**body, "ignore_eos": True, "temperature": 0}).json()
        assert answer["usage"]["completion_tokens"] == 3
        assert answer["choices"][0]["finish_reason"] == "length"
    default = tiny.post("/v1/completions", {"prompt": "a", "ignore_eos": True}).json()
    assert default["usage"]["completion_tokens"] == 16


def test_greedy_spellings_agree(tiny):
    greedy = ask(tiny, complete(temperature=0), False)
    for more in ({"top_p": 0}, {"temperature": 1e-10}, {"top_k": 1}):
        assert ask(tiny, complete(**more), False) == greedy, more


def test_cut_by_the_context_says_length(tiny):
    text, reason = ask(tiny, complete(prompt="a" * 511, max_tokens=100, ignore_eos=True), True)
    assert reason == "length"


def test_generate_route_in_both_modes(tiny):
    body = {"text": "hello", "sampling_params": {"temperature": 0, "max_new_tokens": 20}}
    answer = tiny.post("/generate", body).json()
    meta = answer["meta_info"]
    assert meta["prompt_tokens"] == 5 and meta["completion_tokens"] == len(answer["output_ids"])
    assert meta["finish_reason"]["type"] in ("stop", "length")
    ids = tiny.post("/tokenize", {"prompt": "hello"}).json()["tokens"]
    by_ids = tiny.post("/generate", {"input_ids": ids, "sampling_params": body["sampling_params"]})
    assert by_ids.json()["output_ids"] == answer["output_ids"]

    before = {"text": "", "output_ids": []}
    for event in events(tiny.post("/generate", {**body, "stream": True})):
        assert event["text"].startswith(before["text"])
        assert event["output_ids"][:len(before["output_ids"])] == before["output_ids"]
        before = event
    assert (before["text"], before["output_ids"]) == (answer["text"], answer["output_ids"])
    limited = {"text": "hello", "sampling_params": {"max_new_tokens": 2, "ignore_eos": True}}
    reason = tiny.post("/generate", limited).json()["meta_info"]["finish_reason"]
    assert reason == {"type": "length", "length": 2}


def test_the_page_and_its_command(tiny):
    page = tiny.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for word in ("curl -N", tiny.url, tiny.info()["attention_backend"]):
        assert word in page.text
    assert tiny.curl.startswith(f"curl -N {tiny.url}/v1/chat/completions")


def test_streams_and_answers_are_equal_for_a_seed(tiny):
    for seed in range(5):
        body = chat(seed=seed, temperature=1.5, max_tokens=60)
        reply = tiny.post("/v1/chat/completions", {**body, "stream": True})
        assert streamed(reply) == whole(tiny.post("/v1/chat/completions", body))
