"""Answers in a form: response_format, schemas, patterns, grammars and structural tags; through the
openai client, streamed and not. Python's jsonschema judges the JSON."""
import json
import re
import time

import jsonschema
import pytest

from conftest import ROOT
from helpers import SOAK, ask, at_once, chat, complete, error, events

SCHEMAS = json.loads((ROOT / "tests/data/schemas/schemas.json").read_text())
# `make soak` runs 500 over all 60 schemas, `make test` one each.
RUNS = 500 if SOAK else 60
PERSON = SCHEMAS["person"]


def schema_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


def asked(schema, seed):
    return chat(messages=[{"role": "user", "content": "Give me an example as JSON."}], max_tokens=512,
                temperature=1.5, seed=seed, response_format=schema_format(schema))


def test_sampled_answers_are_valid(smol):
    """The table of failures is empty whatever is drawn; at most one in twenty is cut off."""
    names = list(SCHEMAS)
    runs = [(names[i % len(names)], 1000 + i) for i in range(RUNS)]
    # Every other one is streamed.
    answers = at_once([lambda n=name, s=seed: ask(smol, asked(SCHEMAS[n], s), s % 2 == 0)
                       for name, seed in runs], workers=16)
    bad, cut = [], []
    for (name, seed), (text, reason) in zip(runs, answers):
        if reason == "length":
            cut.append(name)
            continue
        try:
            assert reason == "stop"
            jsonschema.validate(json.loads(text), SCHEMAS[name],
                                cls=jsonschema.Draft202012Validator)
        except (ValueError, AssertionError, jsonschema.ValidationError) as fault:
            bad.append((name, seed, text, str(fault)[:200]))
    print(f"{RUNS} runs over {len(names)} schemas: {len(bad)} invalid, {len(cut)} cut off {cut}")
    assert not bad
    assert len(cut) <= RUNS * 0.05, cut


def test_through_the_openai_client(smol):
    client = smol.client()
    messages = [{"role": "user", "content": "Who are you?"}]
    for form in ({"type": "json_object"}, schema_format(PERSON, strict=True)):
        common = dict(model="m", messages=messages, max_tokens=400, temperature=0.7, seed=5,
                      response_format=form)
        answer = client.chat.completions.create(**common).choices[0]
        pieces = [chunk.choices[0] for chunk in client.chat.completions.create(**common, stream=True)]
        text = "".join(piece.delta.content or "" for piece in pieces)
        assert text == answer.message.content
        assert pieces[-1].finish_reason == answer.finish_reason
        if answer.finish_reason == "stop":
            value = json.loads(text)
            assert isinstance(value, dict)
            if form["type"] == "json_schema":
                jsonschema.validate(value, PERSON)


@pytest.mark.parametrize("params, pattern", [
    ({"regex": r"[0-9]{4}-[0-9]{2}"}, r"[0-9]{4}-[0-9]{2}"),
    ({"ebnf": 'root ::= "yes" | "no" tail\ntail ::= " never"?'}, r"yes|no( never)?"),
    ({"json_schema": json.dumps(SCHEMAS["dice"])}, r"[1-6]"),
    ({"json_schema": SCHEMAS["colour"]}, r'"(red|green|blue)"'),
    ({"structural_tag": {"format": {"type": "tag", "begin": "<a>", "end": "</a>",
                                    "content": {"type": "regex", "pattern": "[a-z]{3}"}}}}, r"<a>[a-z]{3}</a>")])
def test_native_fields(smol, params, pattern):
    for seed in range(4):
        sampling = {"temperature": 1.5, "sampling_seed": seed, "max_new_tokens": 60, **params}
        reply = smol.post("/generate", {"text": "Say:", "sampling_params": sampling})
        assert reply.status_code == 200, reply.text
        assert re.fullmatch(pattern, reply.json()["text"]), reply.text
        more = {key: value for key, value in params.items()}
        text, reason = ask(smol, complete(temperature=1.5, seed=seed, max_tokens=60, **more), seed % 2 == 0)
        assert re.fullmatch(pattern, text) and reason == "stop"


BAD = [
    ({"pattern": "a(?=b)", "type": "string"}, "#/pattern"), ({"enum": []}, "#/enum"),
    ({"$ref": "#/nowhere"}, "#/$ref"), ({"$ref": "#"}, "nothing satisfies"), ({"not": {}}, "#/not"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "minimum"),
    ({"type": "string", "minLength": 5, "maxLength": 4}, "minLength"),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems"),
    ({"type": "string", "pattern": "(a{1,100}){1,100}"}, "#/pattern"),
    ({"type": "object", "properties": {"größe": {"type": "strin"}}}, "#/properties/größe/type"),
]


@pytest.mark.parametrize("schema, place", BAD)
def test_what_cannot_be_kept_is_refused(tiny, schema, place):
    for stream in (False, True):
        found = error(tiny.post("/v1/chat/completions", chat(stream=stream, response_format=schema_format(schema))), 400)
        assert place in found["message"] and found["code"] == "grammar_invalid"
    reply = tiny.post("/generate", {"text": "a", "sampling_params": {"json_schema": json.dumps(schema)}})
    assert error(reply, 400)["code"] == "grammar_invalid"


def test_hostile_grammars_end_in_time_and_nobody_notices(tiny):
    deep = '{"type":"array","items":' * 5000 + "true" + "}" * 5000
    hostile = [{"json_schema": deep}, {"regex": "(" * 5000}, {"regex": "((a+)+)+$"}, {"regex": ".{9999}"},
               {"ebnf": "root ::= " + "(" * 5000}, {"ebnf": "root ::= root"}, {"ebnf": "root ::= nothing"},
               {"regex": "(a|aa)*" * 100}, {"json_schema": json.dumps({"type": "string", "maxLength": 4000})},
               {"structural_tag": "[" * 5000}, {"ebnf": "root ::= \"a\" more\nmore ::= more \"b\""}]
    body = complete(temperature=0, max_tokens=60, ignore_eos=True)
    alone = ask(tiny, body, True)

    def send(params):
        begin = time.monotonic()
        reply = tiny.post("/generate", {"text": "a", "sampling_params": {"max_new_tokens": 4, **params}})
        assert reply.status_code in (200, 400), reply.text
        assert time.monotonic() - begin < 30
        return reply.status_code

    results = at_once([lambda p=p: send(p) for p in hostile] + [lambda: ask(tiny, body, True)] * 4)
    assert results[-4:] == [alone] * 4
    assert 400 in results and 200 in results


def test_two_grammars_are_one_too_many(tiny):
    reply = tiny.post("/generate", {"text": "a", "sampling_params": {"regex": "a", "ebnf": 'root ::= "a"'}})
    found = error(reply, 400)
    assert found["message"] == "Only one of json_schema, regex, ebnf, or structural_tag can be set."
    assert found["code"] == "grammars_conflict"


def test_cut_by_length_says_so(tiny):
    text, reason = ask(tiny, chat(max_tokens=3, response_format=schema_format(SCHEMAS["exact_length"])), False)
    assert reason == "length"


def test_flags(start, tiny_model):
    off = start(tiny_model, "--grammar-backend", "none")
    assert error(off.post("/v1/completions", complete(regex="a")), 400)["code"] == "grammar_backend_off"
    narrow = start(tiny_model, "--constrained-json-disable-any-whitespace")
    schema = {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a", "b"]}
    assert ask(narrow, complete(max_tokens=40, json_schema=json.dumps(schema)), False)[0] == '{"a": 1, "b": 2}'
    own = start(tiny_model, "--constrained-json-whitespace-pattern", "_")
    assert ask(own, complete(max_tokens=40, json_schema=json.dumps(schema)), False)[0] == '{_"a"_:_1_,_"b"_:_2_}'


TOOLS = [{"type": "function", "function": {"name": "rain", "strict": True, "parameters": SCHEMAS["weather"]}},
         {"type": "function", "function": {"name": "wind", "parameters": SCHEMAS["closed_person"]}}]


@pytest.fixture(scope="module")
def caller(start, smol_model):
    return start(smol_model, "--tool-call-parser", "qwen25")


@pytest.mark.parametrize("choice, names", [("required", {"rain", "wind"}),
                                           ({"type": "function", "function": {"name": "wind"}}, {"wind"})])
def test_calls_can_be_forced(caller, choice, names):
    client = caller.client()
    for seed in range(3):
        common = dict(model="m", messages=[{"role": "user", "content": "Is it windy?"}], tools=TOOLS, max_tokens=400,
                      tool_choice=choice, parallel_tool_calls=False, temperature=1.2, seed=seed)
        answer = client.chat.completions.create(**common).choices[0]
        chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**common, stream=True)]
        assert answer.finish_reason == chunks[-1].finish_reason
        if answer.finish_reason == "length":
            continue
        assert answer.finish_reason == "tool_calls" and not answer.message.content
        call, = answer.message.tool_calls
        assert call.function.name in names
        schema = SCHEMAS["weather" if call.function.name == "rain" else "closed_person"]
        jsonschema.validate(json.loads(call.function.arguments), schema)
        deltas = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
        assert "".join(delta.function.arguments or "" for delta in deltas) == call.function.arguments


@pytest.mark.parametrize("parser, reasoning", [("glm45", None), ("qwen3_coder", None), ("pythonic", None),
                                               ("gpt-oss", "gpt-oss")])
def test_calls_of_any_format_can_be_forced(start, smol_model, parser, reasoning):
    flags = ["--tool-call-parser", parser] + (["--reasoning-parser", reasoning] if reasoning else [])
    client = start(smol_model, *flags).client()
    done = 0
    for seed in range(4):
        common = dict(model="m", messages=[{"role": "user", "content": "Is it windy?"}], tools=TOOLS[:1], max_tokens=300,
                      tool_choice="required", parallel_tool_calls=False, temperature=0.8, seed=seed)
        answer = client.chat.completions.create(**common).choices[0]
        chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**common, stream=True)]
        deltas = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
        if answer.finish_reason == "length":
            continue
        done += 1
        assert answer.finish_reason == "tool_calls"
        call, = answer.message.tool_calls
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS["weather"])
        assert "".join(delta.function.arguments or "" for delta in deltas) == call.function.arguments
    assert done > 0


def test_calls_of_other_formats_are_not_forced(start, tiny_model, tiny):
    other = start(tiny_model, "--tool-call-parser", "gemma4")
    body = chat(tools=TOOLS, tool_choice="required")
    assert error(other.post("/v1/chat/completions", body), 400)["code"] == "tool_format_not_forced"
    both = chat(tools=TOOLS, tool_choice="required", regex="a")
    assert error(tiny.post("/v1/chat/completions", both), 400)["code"] == "grammars_conflict"
