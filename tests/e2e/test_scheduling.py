"""Scheduling over HTTP: what cannot fit, full queues, priorities, timeouts, choices, many at once."""
import json
import os
import time

from helpers import at_once, complete, error, streamed


def ids_of(count: int, seed: int = 0) -> list[int]:
    return [4 + (i * 37 + seed * 11) % 250 for i in range(count)]


def reaches(server, name: str, count: int, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while server.info()[name] != count:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_small_cache_serves_what_fits_and_refuses_the_rest(start, tiny_model):
    server = start(tiny_model, "--context-length", "512", "--max-total-tokens", "256")
    found = error(server.post("/v1/completions", complete(prompt=ids_of(300))), 400)
    assert "300" in found["message"] and "256" in found["message"]
    # It fits and grows past the cache: the answer ends where the cache does.
    grown = server.post("/v1/completions", complete(
        prompt=ids_of(200), max_tokens=400, ignore_eos=True)).json()
    assert grown["choices"][0]["finish_reason"] == "length"
    assert 50 <= grown["usage"]["completion_tokens"] <= 57
    begin = time.monotonic()
    for count, workers in ((10, 1), (30, 30)):
        replies = at_once([lambda seed=seed: server.post("/v1/completions", complete(
            prompt=ids_of(60, seed), max_tokens=8, ignore_eos=True)) for seed in range(count)],
            workers=workers)
        assert [reply.json()["usage"]["completion_tokens"] for reply in replies] == [8] * count
    assert time.monotonic() - begin < 10
    assert server.quiet()


def test_a_full_queue_answers_503(start, endless_model):
    server = start(endless_model, "--max-running-requests", "1", "--max-queued-requests", "2",
                   "--context-length", "100000")
    running = server.raw("/v1/completions", json.dumps(
        complete(prompt="a", max_tokens=90_000, ignore_eos=True)).encode())
    assert reaches(server, "running", 1)
    waiting = [server.raw("/v1/completions", json.dumps(complete(max_tokens=1)).encode())
               for _ in range(2)]
    assert reaches(server, "queued", 2)
    reply = server.post("/v1/completions", complete())
    assert error(reply, 503)["code"] == "queue_full"
    assert error(reply, 503)["message"] == "The request queue is full."
    assert "retry-after" in reply.headers
    running.close()
    for connection in waiting:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.close()
    assert server.quiet()


def test_priorities_preempt_and_both_answers_are_whole(start, tiny_model):
    server = start(tiny_model, "--max-running-requests", "1", "--enable-priority-scheduling")
    body = complete(prompt=ids_of(40), max_tokens=300, ignore_eos=True, temperature=0)
    expected = server.post("/v1/completions", body).json()["choices"][0]["text"]
    before = server.info()["retracted_total"]

    def low():
        with server.http.stream("POST", "/v1/completions", json={**body, "stream": True}) as reply:
            reply.read()
            return streamed(reply)[0]

    def high():
        time.sleep(0.02)
        return server.post("/v1/completions", {**body, "max_tokens": 5, "priority": 50})

    texts = at_once([low, high])
    assert texts[0] == expected and texts[1].status_code == 200
    assert server.info()["retracted_total"] - before in (0, 1)  # 0 where the first had ended


def test_requests_that_wait_or_run_too_long_end(start, endless_model):
    environment = {**os.environ, "SGLANG_REQ_RUNNING_TIMEOUT": "1"}
    server = start(endless_model, "--max-running-requests", "1", "--request-waiting-timeout", "0.2",
                   env=environment)
    body = complete(prompt="a", max_tokens=150_000, ignore_eos=True)
    replies = at_once([lambda: server.post("/v1/completions", body)] * 2)
    codes = sorted(error(reply, 503)["code"] for reply in replies)
    assert codes == ["request_running_timeout", "request_waiting_timeout"]
    assert server.quiet()


def test_choices_share_the_pages_of_their_prompt(tiny):
    before = tiny.info()
    reply = tiny.post("/v1/completions", complete(
        prompt=ids_of(100, 7), n=8, max_tokens=4, ignore_eos=True, temperature=1, seed=3,
        cache_salt="choices"))
    assert len(reply.json()["choices"]) == 8
    assert tiny.quiet()
    after = tiny.info()
    assert after["cached_tokens_total"] - before["cached_tokens_total"] == 7 * 96


def test_best_of_tells_the_likeliest_and_shares_the_pages_of_the_prompt(tiny):
    body = complete(prompt=ids_of(100, 9), max_tokens=6, ignore_eos=True, temperature=1.5, seed=11)
    every = tiny.post("/v1/completions", {**body, "n": 8, "logprobs": 0, "cache_salt": "each"}).json()
    mean = lambda choice: sum(choice["logprobs"]["token_logprobs"]) / 6
    ranked = sorted(every["choices"], key=mean, reverse=True)
    assert len({choice["text"] for choice in ranked}) > 4
    before = tiny.info()
    for count in (1, 3):
        best = tiny.post("/v1/completions", {**body, "n": count, "best_of": 8, "cache_salt": f"best {count}"}).json()
        assert [choice["text"] for choice in best["choices"]] == [choice["text"] for choice in ranked[:count]]
        assert [choice["index"] for choice in best["choices"]] == list(range(count))
        assert best["usage"]["completion_tokens"] == 8 * 6 and best["usage"]["prompt_tokens"] == 100
    assert tiny.quiet()
    assert tiny.info()["cached_tokens_total"] - before["cached_tokens_total"] == 2 * 7 * 96


def test_a_thousand_requests_at_once(start, tiny_model):
    server = start(tiny_model, "--max-total-tokens", "2048", "--schedule-policy", "lpm")
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    replies = at_once([lambda seed=seed: server.post("/v1/completions", complete(
        prompt=ids_of(20 + seed % 50, seed % 9), max_tokens=1 + seed % 12, ignore_eos=True,
        temperature=0)) for seed in range(1000)], workers=100)
    counts = [reply.json()["usage"]["completion_tokens"] for reply in replies]
    assert counts == [1 + seed % 12 for seed in range(1000)]
    assert server.quiet()
    assert len(os.listdir(f"/proc/{server.process.pid}/fd")) <= files + 110
