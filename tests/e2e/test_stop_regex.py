"""Stop regexes, what ended an answer, and control tokens in its text."""
import re

import pytest

import makers
from helpers import SOAK, ask, at_once, chat, complete, error, events

ASK = dict(messages=[{"role": "user", "content": "Tell me about the sea."}], temperature=0,
           max_tokens=40)
PATTERNS = [r"[.!?]", r"\w{9}", r"\bo\w+ ", r"(?i)THE\s", r"(?<=\w), ", r"e..a", r"\n+", r"zzz\d",
            r"[aeiou]{2}\w", r"(\w)\1", "w.*?s"]


@pytest.fixture(scope="module")
def out(smol):
    text, reason = ask(smol, chat(**ASK), False)
    assert reason == "length" and len(text) > 80
    return text


def native(server, params, **more):
    reply = server.post("/generate", {"text": "hi", "sampling_params": params, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_text_ends_before_the_match(smol, out):
    patterns = PATTERNS * (10 if SOAK else 1)
    calls = [lambda p=pattern, s=stream: ask(smol, chat(**ASK, stop_regex=p), s)
             for pattern in patterns for stream in (False, True)]
    answers = at_once(calls)
    for i, pattern in enumerate(patterns):
        whole, stream = answers[2 * i:2 * i + 2]
        assert whole == stream, pattern
        found = re.search(pattern, out)
        if found is None:
            assert whole == (out, "length"), pattern
        elif not pattern.startswith(r"\b"):  # assertions at the end of the text so far
            assert whole == (out[:found.start()], "stop"), pattern


def test_what_ended_the_text_is_told_and_kept_where_asked(smol, out):
    word = next(w for w in re.findall(r"\w+", out)[5:] if len(w) > 4)
    end = out.index(word) + len(word)
    regex = word[:2] + r"\w" + word[3:]
    for stop in ({"stop": word}, {"stop_regex": [regex]}):
        matched = list(stop.values())[0]
        matched = matched if isinstance(matched, str) else matched[0]
        reply = smol.post("/v1/chat/completions", chat(**ASK, **stop, no_stop_trim=True))
        choice = reply.json()["choices"][0]
        assert choice["message"]["content"] == out[:end]
        assert choice["matched_stop"] == matched and choice["finish_reason"] == "stop"
        streamed = events(smol.post("/v1/chat/completions", chat(**ASK, **stop, stream=True)))
        assert [e["choices"][0]["matched_stop"] for e in streamed] == [None] * (len(streamed) - 1) + [matched]
        said = "".join(e["choices"][0]["delta"].get("content", "") for e in streamed)
        assert said == out[:end - len(word)]
    ended = smol.post("/v1/chat/completions", chat(**ASK)).json()["choices"][0]
    assert ended["matched_stop"] is None


def test_tokens_that_end_an_answer_are_told(tiny):
    free = native(tiny, {"temperature": 0, "ignore_eos": True, "max_new_tokens": 12})
    stop_id = free["output_ids"][5]
    at = free["output_ids"].index(stop_id)
    params = {"temperature": 0, "ignore_eos": True, "max_new_tokens": 12, "stop_token_ids": [stop_id]}
    found = native(tiny, params)
    assert found["output_ids"] == free["output_ids"][:at + 1]
    assert found["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop_id}
    kept = native(tiny, {**params, "no_stop_trim": True, "skip_special_tokens": False})
    for answer, ids in ((kept, kept["output_ids"]), (found, found["output_ids"][:-1])):
        written = tiny.post("/detokenize", {"tokens": ids, "skip_special_tokens": answer is found})
        assert answer["text"] == written.json()["text"]
    reply = tiny.post("/v1/completions", complete(temperature=0, ignore_eos=True, stop_token_ids=[stop_id]))
    assert reply.json()["choices"][0]["matched_stop"] == stop_id


@pytest.fixture(scope="module")
def loud(start, work):
    """A model whose control tokens are as likely as any: the answers hold many of them."""
    path = work / "loud.gguf"
    kinds = [3 if i % 3 else 1 for i in range(len(makers.V))]
    for token in ("\u0120", "t", "\u0120t"):  # of a merge
        kinds[makers.V.index(token)] = 1
    makers.tiny_gguf(str(path), kvo={"tokenizer.ggml.token_type": makers.kv(
        "tokenizer.ggml.token_type", makers.ARR, kinds, makers.I32)})
    return start(path)


def test_control_tokens_are_written_where_asked(loud):
    for seed in range(4):
        params = {"temperature": 2, "sampling_seed": seed, "max_new_tokens": 40, "ignore_eos": True}
        quiet = native(loud, params)
        written = native(loud, {**params, "skip_special_tokens": False})
        assert quiet["output_ids"] == written["output_ids"]
        for answer, skip in ((quiet, True), (written, False)):
            ids = {"tokens": answer["output_ids"], "skip_special_tokens": skip}
            assert answer["text"] == loud.post("/detokenize", ids).json()["text"]
        assert len(written["text"]) > len(quiet["text"])
        dense = native(loud, {**params, "skip_special_tokens": False, "spaces_between_special_tokens": False})
        assert dense["text"] == written["text"]  # such a tokenizer puts no blanks there
        body = complete(temperature=2, seed=seed, max_tokens=40, ignore_eos=True, skip_special_tokens=False)
        assert ask(loud, body, True) == ask(loud, body, False)
        assert ask(loud, body, False)[0] == written["text"]


BAD = [({"stop_regex": "["}, "stop_regex_invalid"), ({"stop_regex": "a*"}, "stop_regex_invalid"),
       ({"stop_regex": ["ok", "(?P<a"]}, "stop_regex_invalid"), ({"stop_regex": ""}, "field_out_of_range"),
       ({"stop_regex": "a" * 1025}, "field_out_of_range"), ({"stop_regex": ["a"] * 17}, "field_out_of_range"),
       ({"stop_regex": 5}, "wrong_field_type"), ({"stop_regex": [None]}, "wrong_field_type"),
       ({"no_stop_trim": "yes"}, "wrong_field_type"), ({"skip_special_tokens": 1}, "wrong_field_type"),
       ({"spaces_between_special_tokens": []}, "wrong_field_type")]


@pytest.mark.parametrize("more, code", BAD)
def test_bad_fields_are_named(tiny, more, code):
    name = next(iter(more))
    for stream in (False, True):
        for path, body in (("/v1/chat/completions", chat), ("/v1/completions", complete)):
            found = error(tiny.post(path, body(**more, stream=stream)), 400)
            assert (found["code"], found["param"]) == (code, name)
        found = error(tiny.post("/generate", {"text": "a", "stream": stream, "sampling_params": more}), 400)
        assert found["code"] == code and found["param"] in (name, "sampling_params." + name)


def test_a_regex_that_backtracks_without_end_hurts_nobody_else(tiny):
    """Nested repetition over everything; the neighbour's text stays what it is."""
    neighbour = complete(prompt="clean", temperature=0, max_tokens=200, ignore_eos=True)
    alone = ask(tiny, neighbour, True)
    hostile = complete(temperature=1, seed=1, max_tokens=400, ignore_eos=True, stop_regex="(?s)((.+)+)+\U0010ffff")
    beside = at_once([lambda: ask(tiny, neighbour, True)] +
                     [lambda: tiny.post("/v1/completions", hostile)] * 4)
    assert beside[0] == alone
    for reply in beside[1:]:
        assert error(reply, 400)["code"] == "stop_regex_too_costly"
    stream = tiny.post("/v1/completions", {**hostile, "stream": True})
    assert b'"stop_regex_too_costly"' in stream.content
