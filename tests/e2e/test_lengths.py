"""Prompts around the length of the context and every kind of max_tokens, while another stream goes on."""
import json

import pytest

from helpers import ask, at_once, complete, error, events

CONTEXT = 512  # of the tiny model


def ids_of(count: int) -> list[int]:
    return [4 + ord("a") + i % 26 for i in range(count)]


def text_of(count: int) -> str:
    return "".join(chr(ord("a") + i % 26) for i in range(count))


FORMS = {"ids": ids_of, "text": text_of}


def counted(server, stream: bool, **more) -> tuple[int, int, str]:
    """Tokens of the prompt and of the answer as usage counts them, and why it ended."""
    body = complete(ignore_eos=True, stream=stream, **more)
    if more.get("max_tokens", 0) is None:
        del body["max_tokens"]
    if not stream:
        reply = server.post("/v1/completions", body)
        assert reply.status_code == 200, reply.text
        found = reply.json()
        usage, reason = found["usage"], found["choices"][0]["finish_reason"]
    else:
        reply = server.post("/v1/completions", {**body, "stream_options": {"include_usage": True}})
        assert reply.status_code == 200, reply.text
        told = events(reply)
        usage = told[-1]["usage"]
        reason = [c["finish_reason"] for event in told for c in event["choices"] if c["finish_reason"]][0]
    return usage["prompt_tokens"], usage["completion_tokens"], reason


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [False, True])
def test_prompts_around_the_context(tiny, form, stream):
    prompt = FORMS[form]
    long = complete(prompt="a", max_tokens=400, ignore_eos=True, temperature=0)
    alone = ask(tiny, long, True)

    def around():
        # One token fits, whatever is asked; nothing is shortened.
        for asked in (None, 1, 2, 100, 1 << 62):
            assert counted(tiny, stream, prompt=prompt(CONTEXT - 1), max_tokens=asked) == (CONTEXT - 1, 1, "length")
        assert counted(tiny, stream, prompt=prompt(CONTEXT - 2), max_tokens=1) == (CONTEXT - 2, 1, "length")
        # The sum is over by one, and by far.
        for asked in (101, 1 << 62):
            assert counted(tiny, stream, prompt=prompt(CONTEXT - 100), max_tokens=asked) == (CONTEXT - 100, 100, "length")
        before = tiny.info()["prompt_tokens_total"]
        for length in (CONTEXT, CONTEXT + 1, 10 * CONTEXT, 100 * CONTEXT):
            for asked in ({}, {"max_tokens": 1}, {"max_tokens": 1 << 62}):
                found = error(tiny.post("/v1/completions", {
                    "prompt": prompt(length), "stream": stream, **asked}), 400)
                assert found["code"] == "context_length_exceeded" and found["param"] == "prompt"
                assert str(length) in found["message"] and str(CONTEXT) in found["message"]
        assert tiny.info()["prompt_tokens_total"] == before, "refused before it was queued"

    results = at_once([around, lambda: ask(tiny, long, True)])
    assert results[1] == alone


def test_chats_around_the_context(tiny):
    """The template's own tokens count."""
    around = len(tiny.post("/tokenize", {"messages": [{"role": "user", "content": ""}]}).json()["tokens"])
    for over in (-1, 0, 1):
        content = text_of(CONTEXT - around + over)
        reply = tiny.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}]})
        if over < 0:
            assert reply.json()["usage"]["prompt_tokens"] == CONTEXT - 1
            assert reply.json()["usage"]["completion_tokens"] == 1
        else:
            assert error(reply, 400)["param"] == "messages"
            assert str(CONTEXT + over) in error(reply, 400)["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_no_tokens_one_token_and_no_number_of_tokens(tiny, stream):
    for path, body in (("/v1/completions", {"prompt": "a"}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
        for wrong in (0, -1, 1.5, "5", True, 1e300, 1 << 64):
            found = error(tiny.post(path, json.dumps({**body, "max_tokens": wrong, "stream": stream})), 400)
            assert found["param"] == "max_tokens", found
        one = tiny.post(path, {**body, "max_tokens": 1, "ignore_eos": True})
        assert one.json()["usage"]["completion_tokens"] == 1
        assert one.json()["choices"][0]["finish_reason"] == "length"
    sampling = {"max_new_tokens": 0}
    reply = tiny.post("/generate", {"text": "abc", "sampling_params": sampling, "stream": stream})
    assert reply.status_code == 200
    frames = reply.text.split("\n\n")
    told = json.loads(frames[-3].removeprefix("data: ")) if stream else reply.json()
    assert told["text"] == "" and told["meta_info"]["completion_tokens"] == 0
    assert told["meta_info"]["finish_reason"]["type"] == "length"


def test_the_native_route_has_the_same_limits(tiny):
    for field, prompt in (("input_ids", ids_of), ("text", text_of)):
        body = {field: prompt(CONTEXT - 1), "sampling_params": {"max_new_tokens": 1 << 62, "ignore_eos": True}}
        told = tiny.post("/generate", body).json()["meta_info"]
        assert told["prompt_tokens"] == CONTEXT - 1 and told["completion_tokens"] == 1
        found = error(tiny.post("/generate", {**body, field: prompt(CONTEXT)}), 400)
        assert found["code"] == "context_length_exceeded" and found["param"] == field
