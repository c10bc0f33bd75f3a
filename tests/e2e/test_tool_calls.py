"""Tool calls and reasoning over HTTP and through the openai client, from a model whose words are known."""
import functools
import json
import subprocess

import openai
import pytest

from conftest import QUERN
from helpers import error, events
from scripted import TEMPLATE, cut, scripted_gguf

USER = {"role": "user", "content": "hi"}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = '{"city": "Zürich", "days": 3}'
SAYS = {
    "qwen25": f'I look.\n<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>\n'
              '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    "pythonic": "I look. [get_weather(city='Zürich', days=3), now()]",
    "glm45": "I look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n"
             "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
    "mistral": f'I look. [TOOL_CALLS] [{{"name": "get_weather", "arguments": {ARGUMENTS}}}, {{"name": "now", "arguments": {{}}}}]',
}


def joined(stream):
    """Content, calls and finish reason of a stream, put together as clients do."""
    content, calls, finish = "", [], None
    for chunk in stream:
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        finish = choice.finish_reason or finish
        for call in choice.delta.tool_calls or []:
            if call.index == len(calls):
                assert call.id and call.type == "function" and call.function.name
                calls.append([call.id, call.function.name, ""])
            else:
                assert call.index == len(calls) - 1
                assert call.id is None and call.type is None and call.function.name is None
            calls[-1][2] += call.function.arguments or ""
    return content, calls, finish


@pytest.fixture(scope="module")
def talkers(start, work):
    """A server for each format, by its name; with the flag, but for the one whose template tells."""
    @functools.cache
    def talker(name):
        marks = "{# <tool_call></tool_call> #}" if name == "qwen25" else ""
        model = scripted_gguf(work / f"says-{name}.gguf", cut(SAYS[name], 6), TEMPLATE + marks)
        return start(model, *([] if marks else ["--tool-call-parser", name]))
    return talker


@pytest.mark.parametrize("name", SAYS)
def test_calls_through_the_client(talkers, name):
    server = talkers(name)
    assert server.get("/model_info").json()["tool_call_parser"] == name
    client = server.client()
    ask = dict(model="m", messages=[USER], tools=TOOLS)
    choice = client.chat.completions.create(**ask).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content.strip() == "I look."
    found = [(call.type, call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
    assert found == [("function", "get_weather", json.loads(ARGUMENTS)), ("function", "now", {})]
    content, calls, finish = joined(client.chat.completions.create(**ask, stream=True))
    assert finish == "tool_calls" and content == choice.message.content
    assert [call[1:] for call in calls] == [[c.function.name, c.function.arguments] for c in choice.message.tool_calls]
    assert len({call[0] for call in calls}) == 2
    # The answer goes back as it came, with the results, and the conversation goes on.
    history = [USER, choice.message, *({"role": "tool", "tool_call_id": call.id, "content": "ok"}
                                       for call in choice.message.tool_calls)]
    again = client.chat.completions.create(**{**ask, "messages": history})
    assert again.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("more", [{}, {"tools": TOOLS, "tool_choice": "none"},
                                  {"tools": [TOOLS[1]]}])
def test_what_is_no_call_of_a_tool_stays_text(talkers, more):
    for stream in (False, True):
        reply = talkers("qwen25").post("/v1/chat/completions", {"messages": [USER], "stream": stream, **more})
        if stream:
            text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events(reply))
        else:
            text = reply.json()["choices"][0]["message"]["content"]
        if more.get("tools") == [TOOLS[1]]:  # the other call is one
            assert text == SAYS["qwen25"].split("</tool_call>")[0] + "</tool_call>"
        else:
            assert text == SAYS["qwen25"]


@pytest.mark.parametrize("name", SAYS)
def test_a_cut_at_every_token(talkers, name):
    server = talkers(name)
    whole = [call["function"] for call in server.post(
        "/v1/chat/completions", {"messages": [USER], "tools": TOOLS}).json()["choices"][0]["message"]["tool_calls"]]
    for limit in range(1, len(cut(SAYS[name], 6)) + 1):
        body = {"messages": [USER], "tools": TOOLS, "max_tokens": limit}
        choice = server.post("/v1/chat/completions", body).json()["choices"][0]
        assert choice["finish_reason"] == "length", limit
        calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
        for mine, full in zip(calls, whole):
            assert mine["name"] == full["name"] and full["arguments"].startswith(mine["arguments"])
        content, parts = "", []
        for event in events(server.post("/v1/chat/completions", {**body, "stream": True})):
            delta = event["choices"][0]["delta"]
            content += delta.get("content") or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(parts):
                    parts.append({"name": call["function"]["name"], "arguments": ""})
                parts[call["index"]]["arguments"] += call["function"]["arguments"]
        assert (content, parts) == (choice["message"]["content"] or "", calls), limit


def test_one_call_without_parallel_calls(talkers):
    body = {"messages": [USER], "tools": TOOLS, "parallel_tool_calls": False}
    choice = talkers("qwen25").post("/v1/chat/completions", body).json()["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["get_weather"]


def test_marks_that_are_control_tokens_are_read_and_no_other_is_shown(start, work):
    pieces = ["Now.", "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.now:0",
              "<|tool_call_argument_begin|>", "{}", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|other|>"]
    model = scripted_gguf(work / "kimi.gguf", pieces, control=[p for p in pieces if p.startswith("<|")])
    server = start(model, "--tool-call-parser", "kimi_k2")
    choice = server.post("/v1/chat/completions", {"messages": [USER], "tools": TOOLS}).json()["choices"][0]
    assert choice["message"]["content"] == "Now."
    assert [(c["id"], c["function"]) for c in choice["message"]["tool_calls"]] == [
        ("functions.now:0", {"name": "now", "arguments": "{}"})]
    # Without tools nobody looks for calls, and control tokens are left out as ever.
    choice = server.post("/v1/chat/completions", {"messages": [USER]}).json()["choices"][0]
    assert choice["message"]["content"] == "Now.functions.now:0{}"


@pytest.fixture(scope="module")
def thinker(start, work):
    pieces = ["<think>", "\n", "one ", "two ", "three", "\n\n", "</think>", " \n", "Answer", " here."]
    return start(scripted_gguf(work / "thinks.gguf", pieces), "--reasoning-parser", "qwen3")


def test_reasoning_through_the_client(thinker):
    client = thinker.client()
    answer = client.chat.completions.create(model="m", messages=[USER])
    message = answer.choices[0].message
    assert (message.reasoning_content, message.content) == ("one two three", "Answer here.")
    assert answer.usage.completion_tokens_details.reasoning_tokens == 6
    deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(model="m", messages=[USER], stream=True)]
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "one two three"
    assert "".join(d.content or "" for d in deltas) == "Answer here."
    raw = client.chat.completions.create(model="m", messages=[USER], extra_body={"separate_reasoning": False})
    assert raw.choices[0].message.content == "<think>\none two three\n\n</think> \nAnswer here."


@pytest.mark.parametrize("mark, parser, reasoning, content", [
    ("<think>", "qwen3", "one two", "Answer"),
    ("</think>", "qwen3-thinking", None, "one two</think>Answer")])
def test_the_prompt_opens_or_closes_reasoning(start, work, mark, parser, reasoning, content):
    pieces = ["one ", "two"] + (["</think>", "Answer"] if reasoning else ["</thi", "nk>", "Answer"])
    model = scripted_gguf(work / f"{parser}.gguf", pieces, TEMPLATE.replace("<s>", mark), start=mark)
    server = start(model, "--reasoning-parser", parser)
    message = server.post("/v1/chat/completions", {"messages": [USER]}).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (reasoning, content)


@pytest.mark.parametrize("limit, reasoning", [(0, ""), (2, "one"), (3, "one two"), (40, "one two three")])
def test_a_budget_closes_reasoning(thinker, limit, reasoning):
    body = {"messages": [USER], "max_thinking_tokens": limit}
    message = thinker.post("/v1/chat/completions", body).json()["choices"][0]["message"]
    assert message["content"] == "Answer here." and (message["reasoning_content"] or "") == reasoning


def test_a_budget_needs_a_format(talkers):
    body = {"messages": [USER], "max_thinking_tokens": 5}
    assert error(talkers("qwen25").post("/v1/chat/completions", body), 400)["param"] == "max_thinking_tokens"


def test_texts_are_taken_apart(tiny):
    body = {"text": SAYS["glm45"], "tools": TOOLS, "tool_call_parser": "glm45"}
    found = tiny.post("/parse_function_call", body).json()
    assert found["normal_text"] == "I look."
    assert [(c["tool_index"], c["name"], json.loads(c["parameters"])) for c in found["calls"]] == [
        (0, "get_weather", json.loads(ARGUMENTS)), (1, "now", {})]
    body = {"text": "<think>hm</think>ok", "reasoning_parser": "qwen3"}
    assert tiny.post("/separate_reasoning", body).json() == {"reasoning_text": "hm", "text": "ok"}
    assert error(tiny.post("/parse_function_call", {"text": "a", "tool_call_parser": "x"}), 400)["param"] == "tool_call_parser"
    assert error(tiny.post("/separate_reasoning", {"text": "a", "reasoning_parser": "x"}), 400)["param"] == "reasoning_parser"


def test_bad_tools_and_calls_are_refused_and_the_next_request_is_served(tiny):
    def function(**more):
        return [{"type": "function", "function": {"name": "f", **more}}]
    for tools, param in ((function() * 2, "tools[1].function.name"),
                         (function(parameters={"type": "nosuch"}), "tools[0].function.parameters.type"),
                         (function(parameters={"properties": {"a": 5}}), "tools[0].function.parameters.properties.a")):
        for path in ("/v1/chat/completions", "/parse_function_call"):
            reply = tiny.post(path, {"messages": [USER], "text": "a", "tool_call_parser": "qwen25", "tools": tools})
            assert error(reply, 400)["param"] == param
    with pytest.raises(openai.BadRequestError) as refused:
        tiny.client().chat.completions.create(model="m", messages=[USER], tools=TOOLS, tool_choice={
            "type": "function", "function": {"name": "nosuch"}})
    assert refused.value.param == "tool_choice.function.name"
    assert tiny.post("/v1/chat/completions", {"messages": [USER], "max_tokens": 1}).status_code == 200


@pytest.mark.parametrize("flag, value, says", [
    ("--tool-call-parser", "llama3_json", "Unsupported tool_call_parser: llama3_json"),
    ("--reasoning-parser", "Qwen3-8B", "Unsupported model type: Qwen3-8B")])
def test_a_parser_that_is_unknown_ends_the_start(tiny_model, flag, value, says):
    done = subprocess.run([QUERN, "serve", "--model", str(tiny_model), "--port", "0", flag, value],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and says in done.stderr.splitlines()[0]
