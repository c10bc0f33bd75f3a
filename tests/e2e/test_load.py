"""`quern bench serve` against `quern serve` with a tiny model: every API and workload, its report, its refusals."""
import json
import socket
import subprocess
import xml.etree.ElementTree

import pytest

from conftest import QUERN

LOAD = ["--num-prompts", "12", "--max-concurrency", "4", "--random-input-len", "8",
        "--random-output-len", "6"]


def bench(*flags, code=0, env=None):
    done = subprocess.run([QUERN, "bench", "serve", *flags], capture_output=True, text=True,
                          timeout=120, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def report(server, *flags):
    done = bench("--base-url", server.url, *LOAD, *flags, "--json", "-")
    return json.loads(done.stdout)


@pytest.mark.parametrize("backend", ["sglang-oai-chat", "sglang-oai", "sglang"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_api_counts_what_the_server_counts(tiny, backend, stream):
    before = tiny.info()
    found = report(tiny, "--backend", backend, *([] if stream else ["--disable-stream"]))
    after = tiny.info()
    assert found["completed"] == 12 and found["failed"] == 0, found["failures"]
    assert found["tokens_counted_by_server"] and found["model"] == "m"
    assert found["total_output_tokens"] == 12 * 6
    # The server's own counters know the warm-up request too.
    assert after["generation_tokens_total"] - before["generation_tokens_total"] == 13 * 6
    assert after["prompt_tokens_total"] - before["prompt_tokens_total"] > found["total_input_tokens"]
    assert found["max_concurrent_requests"] == 4
    assert 0 < found["median_ttft_ms"] <= found["p99_ttft_ms"] <= found["p99_e2e_latency_ms"]
    assert (found["max_itl_ms"] > 0) == stream


def test_conversations_and_the_plot(tiny, tmp_path):
    plot = tmp_path / "plot.svg"
    found = report(tiny, "--dataset-name", "multi-turn", "--num-turns", "3", "--plot", str(plot),
                   "--gsp-system-prompt-len", "10", "--output-details")
    assert found["completed"] == 36 and len(found["turns"]) == 3
    lengths = {turn: [r["prompt_tokens"] for r in found["requests"] if r["turn"] == turn]
               for turn in range(3)}
    assert max(lengths[0]) < min(lengths[1]) and max(lengths[1]) < min(lengths[2])
    assert xml.etree.ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_a_file_of_requests_at_a_rate(tiny, tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"hi {i}"}],
                                         "max_tokens": i + 1}) + "\n" for i in range(5)))
    found = json.loads(bench("--base-url", tiny.url + "/v1", "--dataset-path", str(lines),
                             "--request-rate", "50", "--json", "-").stdout)
    assert found["completed"] == 5 and found["total_output_tokens"] == 15
    assert found["dataset_name"] == "openai" and found["request_rate"] == 50


def test_the_table_names_the_figures(tiny):
    text = bench("--base-url", tiny.url, *LOAD).stdout
    for word in ("12 answered, 0 failed", "TTFT", "ITL", "TPOT", "E2E", "p99"):
        assert word in text


def test_refusals_are_told_before_the_load(tiny, tmp_path):
    with socket.socket() as unused:  # bound and not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
        assert "connection was refused" in bench("--port", port, code=1).stderr
    refused = bench("--base-url", tiny.url, "--model", "nosuch", code=1).stderr
    assert "HTTP 404" in refused and "nosuch" in refused
    long = bench("--base-url", tiny.url, "--random-input-len", "100000", code=1).stderr
    assert "HTTP 400" in long
    for flags, word in ((("--base-url", "https://x"), "--base-url"), (("--request-rate", "0"), "--request-rate"),
                        (("--extra-request-body", "[]"), "--extra-request-body"),
                        (("--dataset-name", "openai"), "--dataset-path"),
                        (("--dataset-name", "random", "--dataset-path", "x"), "--dataset-path"),
                        (("--dataset-path", "/nonexistent"), "/nonexistent")):
        assert word in bench(*flags, code=1).stderr
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "a"}\n{"nothing": 1}\n')
    assert "Line 2" in bench("--dataset-path", str(bad), code=1).stderr
    unwritable = bench("--base-url", tiny.url, *LOAD, "--json", str(tmp_path / "no" / "x.json"), code=1)
    assert "cannot be written" in unwritable.stderr and "12 answered" in unwritable.stdout


def test_a_load_that_nothing_answers_fails(tiny):
    done = bench("--base-url", tiny.url, *LOAD, "--model", "nosuch", "--warmup-requests", "0", code=1)
    assert "None of the 12 requests" in done.stderr and "12 × HTTP 404" in done.stdout
