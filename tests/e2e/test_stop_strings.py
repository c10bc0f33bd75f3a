"""Stop strings on real text: every kind of cut gives exactly the text before it, in both modes."""
import random

import pytest

from helpers import SOAK, ask, at_once, chat, error

ASK = dict(messages=[{"role": "user", "content": "Tell me about the sea."}], temperature=0,
           max_tokens=40)
SAMPLES = 400 if SOAK else 24  # of all substrings


@pytest.fixture(scope="module")
def out(smol):
    text, reason = ask(smol, chat(**ASK), False)
    assert reason == "length" and len(text) > 80
    return text


def both(server, stop):
    """The same request in one piece and streamed, ready to be run beside others."""
    return [lambda stream=stream: ask(server, chat(**ASK, stop=stop), stream)
            for stream in (False, True)]


def test_text_ends_before_the_stop_string(smol, out):
    random.seed(1)
    spans = [(begin, begin + size) for size in range(2, 13) for begin in range(len(out) - size)]
    stops = [out[begin:end] for begin, end in random.sample(spans, SAMPLES)]
    answers = at_once([call for stop in stops for call in both(smol, [stop])])
    for i, stop in enumerate(stops):
        for answer in answers[2 * i:2 * i + 2]:
            assert answer == (out[:out.index(stop)], "stop"), stop


def test_a_near_miss_loses_nothing(smol, out):
    random.seed(2)
    stops = []
    while len(stops) < 8:
        begin = random.randrange(len(out) - 10)
        stop = out[begin:begin + random.randint(2, 10)] + "\u20ac"
        stops.append(stop)
    for answer in at_once([call for stop in stops for call in both(smol, stop)]):
        assert answer == (out, "length")


def test_the_earliest_match_wins(smol, out):
    pairs = [[out[30:36], out[20:28]], [out[20:28], out[24:32]], [out[24:32], out[20:28]],
             [out[40:44], "never there"]]
    answers = at_once([call for pair in pairs for call in both(smol, pair)])
    for i, pair in enumerate(pairs):
        first = min(out.index(stop) for stop in pair if stop in out)
        assert answers[2 * i] == answers[2 * i + 1] == (out[:first], "stop"), pair


def test_stop_on_the_last_token(smol, out):
    size = next(size for size in range(2, 20) if out.index(out[-size:]) == len(out) - size)
    for answer in at_once(both(smol, out[-size:])):
        assert answer == (out[:-size], "stop")


def test_absent_stops_mean_none(smol, out):
    for stop in (None, []):
        for answer in at_once(both(smol, stop)):
            assert answer == (out, "length")


def test_impossible_stops_are_refused(tiny):
    for stop in ("", [""], ["a", ""], [str(i) for i in range(17)], [1], {"a": 1}, 5):
        for stream in (False, True):
            reply = tiny.post("/v1/chat/completions", chat(stop=stop, stream=stream))
            assert error(reply, 400)["param"] == "stop"
    allowed = tiny.post("/v1/chat/completions", chat(stop=["\u20ac%d" % i for i in range(16)]))
    assert allowed.status_code == 200
