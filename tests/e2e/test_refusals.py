"""Requests that cannot be served: the status, the field at fault, OpenAI's shape; and the API key."""
import json
import socket

import pytest

from helpers import ask, chat, complete, error

FIELDS = [  # what is added to a good request, status, field at fault
    ({"n": 0}, 400, "n"), ({"n": 9}, 400, "n"), ({"n": "2"}, 400, "n"),
    ({"temperature": -1}, 400, "temperature"), ({"temperature": 1e30}, 400, "temperature"),
    ({"temperature": "1"}, 400, "temperature"), ({"top_p": 1.0001}, 400, "top_p"),
    ({"top_p": -1}, 400, "top_p"), ({"min_p": 1.5}, 400, "min_p"), ({"top_k": -2}, 400, "top_k"),
    ({"top_k": 0.01}, 400, "top_k"), ({"top_k": 1e20}, 400, "top_k"),
    ({"seed": 2**64}, 400, "seed"), ({"seed": 0.5}, 400, "seed"),
    ({"max_tokens": 0}, 400, "max_tokens"), ({"max_tokens": -5}, 400, "max_tokens"),
    ({"max_tokens": 1.5}, 400, "max_tokens"), ({"max_completion_tokens": 0}, 400,
                                               "max_completion_tokens"),
    ({"model": "other"}, 404, "model"), ({"model": 5}, 400, "model"),
    ({"stream": "yes"}, 400, "stream"), ({"tools": "x"}, 400, "tools"),
    ({"tool_choice": "required"}, 400, "tool_choice"),
    ({"response_format": {"type": "xml"}}, 400, "response_format.type"), ({"regex": 5}, 400, "regex"),
    ({"logit_bias": {"999999": 5}}, 400, "logit_bias"), ({"logit_bias": {"-1": 5}}, 400, "logit_bias"),
    ({"logit_bias": {"abc": 5}}, 400, "logit_bias"), ({"logit_bias": {"5": 1e30}}, 400, "logit_bias"),
    ({"presence_penalty": 1e10}, 400, "presence_penalty"), ({"repetition_penalty": 0}, 400, "repetition_penalty"),
    ({"repetition_penalty": -1}, 400, "repetition_penalty"), ({"frequency_penalty": -3}, 400, "frequency_penalty"),
    ({"top_logprobs": 5}, 400, "top_logprobs"), ({"logprobs": 21.5}, 400, "logprobs"), ({"stop_token_ids": [-1]}, 400, "stop_token_ids"),
]


@pytest.mark.parametrize("more, status, param", FIELDS)
def test_bad_fields(tiny, more, status, param):
    for stream in (False, True):
        for path, body in (("/v1/chat/completions", chat), ("/v1/completions", complete)):
            reply = tiny.post(path, {**body(stream=stream), **more})
            assert error(reply, status)["param"] == param


@pytest.mark.parametrize("more", [{"top_k": 0}, {"top_k": -1}, {"top_k": 9999999}, {"top_p": 0},
                                  {"temperature": 1e-4}, {"min_p": 1}, {"seed": -1},
                                  {"seed": 2**63}, {"logit_bias": {str(i): -100 for i in range(200)}},
                                  {"presence_penalty": -2, "frequency_penalty": 2}, {"repetition_penalty": 1e-9},
                                  {"min_tokens": 16}, {"user": "x", "unheard_of": 1}])
def test_odd_but_legal_fields(tiny, more):
    assert tiny.post("/v1/chat/completions", chat(**more)).status_code == 200


def test_odd_requests_leave_a_running_stream_as_it_is(tiny):
    body = complete(temperature=0, max_tokens=200, ignore_eos=True)
    alone = ask(tiny, body, True)
    connection = tiny.raw("/v1/completions", json.dumps(body).encode())
    for more, status, _ in FIELDS:
        assert tiny.post("/v1/completions", {**complete(), **more}).status_code == status
    connection.recv(1 << 20)
    connection.close()
    assert ask(tiny, body, True) == alone


def test_prompts_that_are_no_prompts(tiny):
    for prompt in (None, [], [[]], 5, {}, [-1], [1.5], [2**40], [None], ["a", 1]):
        reply = tiny.post("/v1/completions", {"model": "m", "prompt": prompt})
        assert error(reply, 400)["param"] == "prompt"
    assert error(tiny.post("/v1/completions", {"prompt": [99_999]}), 400)["param"] == "prompt"
    assert error(tiny.post("/v1/completions", {"prompt": ""}), 400)["param"] == "prompt"
    assert error(tiny.post("/v1/chat/completions", chat(messages=[])), 400)["param"] == "messages"


def test_prompts_longer_than_the_context(tiny):
    for count in (512, 513, 5120):
        for stream in (False, True):
            for prompt in ("a" * count, [4 + ord("a")] * count):
                found = error(tiny.post("/v1/completions", complete(prompt=prompt, stream=stream)),
                              400)
                assert found["code"] == "context_length_exceeded" and found["param"] == "prompt"
                assert str(count) in found["message"] and "512" in found["message"]
    found = error(tiny.post("/v1/chat/completions", chat(
        messages=[{"role": "user", "content": "a" * 600}])), 400)
    assert found["code"] == "context_length_exceeded" and found["param"] == "messages"


def test_the_last_token_of_the_context(tiny):
    reply = tiny.post("/v1/completions", complete(
        prompt="a" * 511, max_tokens=1, ignore_eos=True, cache_salt="nobody's"))
    assert reply.json()["usage"] == {"prompt_tokens": 511, "completion_tokens": 1,
                                     "total_tokens": 512,
                                     "prompt_tokens_details": {"cached_tokens": 0}}
    assert reply.json()["choices"][0]["finish_reason"] == "length"


def test_routes_methods_and_content_types(tiny):
    assert error(tiny.get("/nowhere"), 404)["code"] == "route_not_found"
    reply = tiny.get("/v1/chat/completions")
    assert error(reply, 405)["code"] == "method_not_allowed" and "POST" in reply.headers["allow"]
    body = json.dumps(complete())
    for kind, status in (("text/plain", 415), ("application/json; charset=latin1", 415),
                         ("application/json; charset=utf-8", 200), ("application/json", 200)):
        reply = tiny.post("/v1/completions", body, headers={"content-type": kind})
        assert reply.status_code == status, kind
    with tiny.raw("/v1/completions", body.encode()) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_bodies_and_headers_that_are_too_large(tiny):
    reply = tiny.post("/v1/completions", complete(prompt="a" * (33 << 20)))
    assert error(reply, 413)["code"] == "body_too_large"
    reply = tiny.get("/health", headers={"x": "a" * 70_000})
    assert error(reply, 431)["code"] == "header_too_large"


def test_only_what_fits_the_cache_is_taken(start, tiny_model):
    server = start(tiny_model, "--max-total-tokens", "256")
    found = error(server.post("/v1/completions", complete(prompt="a" * 300)), 400)
    assert "300" in found["message"] and "256" in found["message"]
    grown = ask(server, complete(prompt="a" * 200, max_tokens=250, ignore_eos=True), False)
    assert grown[1] == "length"
    assert ask(server, complete(), False)[1] in ("stop", "length")


@pytest.fixture(scope="module")
def guarded(start, tiny_model):
    return start(tiny_model, "--api-key", "sekret-4711", "--log-level", "debug")


def test_the_key_guards_everything_but_health(guarded):
    for path in ("/", "/v1/models", "/v1/models/m", "/generate", "/v1/completions", "/server_info",
                 "/tokenize", "/nowhere", "//v1/models", "/v1/models/", "/health/",
                 "/health_generate", "/V1/models", "/v1/models?api_key=sekret-4711"):
        for method in ("GET", "HEAD", "POST", "OPTIONS", "PUT"):
            assert guarded.http.request(method, path).status_code == 401, (method, path)
    for target in (b"/v1/../server_info", b"/%2e%2e/server_info", b"/health/../server_info",
                   b"http://x/server_info", b"/health%00"):
        with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
            connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 401"), target
    assert guarded.get("/health").status_code == 200
    assert error(guarded.get("/v1/models"), 401)["code"] == "invalid_api_key"


def test_only_the_right_key_opens(guarded):
    def status(*values):
        return guarded.get("/v1/models", headers=[("authorization", v) for v in values]).status_code

    for right in ("Bearer sekret-4711", "bearer sekret-4711"):
        assert status(right) == 200
    for wrong in ("Bearer sekret-471", "Bearer sekret-47111", "Bearer x", "Bearer",
                  "sekret-4711", "Basic sekret-4711", "Bearer SEKRET-4711"):
        assert status(wrong) == 401, wrong
    assert status("Bearer sekret-4711", "Bearer sekret-4711") == 401
    assert "sekret" not in guarded.log()
