"""Requests that are aborted by their id, paused and continued; the cache flushed."""
import threading
import time

import pytest

from helpers import ask, complete, error

LONG = dict(max_tokens=150_000, ignore_eos=True)


def wait_for(server, **wanted):
    deadline = time.monotonic() + 30
    while not all(server.info()[key] == value for key, value in wanted.items()):
        assert time.monotonic() < deadline, server.info()
        time.sleep(0.01)


@pytest.mark.parametrize("path", ["/generate", "/v1/completions", "/v1/chat/completions"])
def test_requests_are_aborted_by_their_id(start, endless_model, path):
    server = start(endless_model, "--max-running-requests", "2")
    if path == "/generate":
        def body(rid):
            return {"text": "hi", "rid": rid, "sampling_params": {"max_new_tokens": 150_000, "ignore_eos": True}}
    else:
        def body(rid):
            prompt = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": "hi"}
            return {**prompt, "rid": rid, **LONG}
    answers = {}

    def run(rid):
        answers[rid] = server.post(path, body(rid)).json()

    threads = [threading.Thread(target=run, args=(rid,)) for rid in ("a1", "a2", "b1")]
    for thread in threads:
        thread.start()
    wait_for(server, running=2, queued=1)
    assert server.post("/abort_request", {"rid": "a"}).json() == {"aborted": 2}
    for _ in range(3000):
        if len(answers) == 2:
            break
        time.sleep(0.01)
    assert sorted(answers) == ["a1", "a2"]
    for answer in answers.values():
        reason = answer["meta_info"]["finish_reason"]["type"] if path == "/generate" \
            else answer["choices"][0]["finish_reason"]
        assert reason == "abort"
    assert server.post("/abort_request", {"abort_all": True}).json() == {"aborted": 1}
    for thread in threads:
        thread.join(30)
    assert len(answers) == 3 and server.quiet()


def test_a_paused_server_takes_requests_and_answers_them_later(start, tiny_model):
    server = start(tiny_model)
    body = complete(temperature=0, max_tokens=60, ignore_eos=True)
    alone = ask(server, body, False)
    for mode in ("in_place", "retract"):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(server, body, True)))
        assert server.post("/pause_generation", {"mode": mode}).json()["status"] == "ok"
        thread.start()
        steps = server.info()["steps_total"]
        time.sleep(0.3)
        assert server.info()["steps_total"] == steps and not answers
        assert server.get("/health").status_code == 200
        assert server.post("/continue_generation", {}).json()["status"] == "ok"
        thread.join(30)
        assert answers == [alone]


def test_a_running_answer_survives_a_retraction(start, endless_model):
    server = start(endless_model)
    body = complete(temperature=0, max_tokens=3000, ignore_eos=True)
    alone = ask(server, body, False)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask(server, body, False)))
    thread.start()
    wait_for(server, running=1)
    assert error(server.post("/flush_cache", {}), 400)["code"] == "cache_in_use"
    server.post("/pause_generation", {"mode": "retract"})
    assert server.post("/flush_cache", {}).status_code == 200
    server.post("/continue_generation", {})
    thread.join(60)
    assert answers == [alone]
    assert server.get("/flush_cache?timeout=5").status_code == 200
