"""What several test files share: requests in one line, streams read whole, many at once."""
import json
import os
from concurrent.futures import ThreadPoolExecutor

# `make soak` tries more of the same.
SOAK = bool(os.environ.get("QUERN_SOAK"))


def chat(**more) -> dict:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, **more}


def complete(**more) -> dict:
    return {"model": "m", "prompt": "hi", "max_tokens": 16, **more}


def events(reply) -> list[dict]:
    """The events of a stream, which must be valid UTF-8 and JSON and end with [DONE]."""
    frames = reply.content.decode("utf-8").split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""], frames[-2:]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def streamed(reply) -> tuple[str, str]:
    """Text and finish_reason of a stream with one choice."""
    text, reason = "", None
    for event in events(reply):
        for choice in event["choices"]:
            text += choice["text"] if "text" in choice else choice["delta"].get("content", "")
            reason = choice["finish_reason"] or reason
    return text, reason


def whole(reply) -> tuple[str, str]:
    """The same of an answer in one piece."""
    assert reply.status_code == 200, reply.text
    choice = json.loads(reply.content.decode("utf-8"))["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    return text, choice["finish_reason"]


def ask(server, body: dict, stream: bool) -> tuple[str, str]:
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    reply = server.post(path, {**body, "stream": stream})
    assert reply.status_code == 200, reply.text
    return streamed(reply) if stream else whole(reply)


def at_once(calls, workers=32) -> list:
    """Runs functions without arguments beside each other; their results in order."""
    with ThreadPoolExecutor(workers) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def error(reply, status: int) -> dict:
    """The error object of a refusal, checked for its shape."""
    assert reply.status_code == status, (reply.status_code, reply.text)
    assert reply.headers["content-type"].startswith("application/json")
    found = json.loads(reply.content.decode("utf-8"))["error"]
    assert {"message", "type", "param", "code"} <= found.keys()
    assert found["message"] and "{" not in found["message"][:40]
    return found
