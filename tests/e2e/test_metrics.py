"""/metrics as Prometheus' own parser reads it."""
import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers import at_once, complete


def scrape(server) -> dict:
    reply = server.get("/metrics")
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(reply.text)}


def value(families, name, **labels) -> float:
    for family in families.values():
        for sample in family.samples:
            if sample.name == "sglang:" + name and labels.items() <= sample.labels.items():
                assert sample.labels["model_name"] == "m"
                return sample.value
    pytest.fail(f"no {name} with {labels}")


def test_counters_and_histograms_grow_with_the_requests(tiny):
    before = scrape(tiny)
    at_once([lambda s=i % 2 == 0: tiny.post("/v1/completions", complete(max_tokens=8, ignore_eos=True, stream=s))
             for i in range(10)])
    after = scrape(tiny)
    grown = lambda name, **labels: value(after, name, **labels) - value(before, name, **labels)
    assert grown("num_requests_total") == 10
    assert grown("generation_tokens_total") == 80
    assert grown("prompt_tokens_total") == 10 * 2
    assert grown("time_to_first_token_seconds_count") == 10
    assert grown("inter_token_latency_seconds_count") == 70
    assert grown("e2e_request_latency_seconds_count") == 10
    assert grown("e2e_request_latency_seconds_bucket", le="+Inf") == 10
    assert grown("generation_tokens_histogram_sum") == 80
    assert value(after, "num_running_reqs") == value(after, "num_queue_reqs") == 0
    assert 0 <= value(after, "token_usage") <= 1
    assert value(after, "max_total_num_tokens") == tiny.info()["max_total_num_tokens"]


def test_the_prefix_cache_is_told(tiny):
    before = scrape(tiny)
    body = complete(prompt="the same beginning of a prompt that is longer than a page " * 2, max_tokens=1)
    usages = [tiny.post("/v1/completions", body).json()["usage"] for _ in range(2)]
    after = scrape(tiny)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    assert cached > 0
    assert value(after, "cached_tokens_total") - value(before, "cached_tokens_total") == cached
    assert 0 < value(after, "cache_hit_rate") < 1
    assert value(after, "kv_evictable_tokens") > 0
    assert value(after, "kv_available_tokens") + value(after, "kv_evictable_tokens") == value(after, "max_total_num_tokens")


def test_every_family_is_whole(tiny):
    for name, family in scrape(tiny).items():
        assert name.startswith("sglang:") and family.documentation and family.type in ("counter", "gauge", "histogram")
        if family.type != "histogram":
            continue
        buckets = [s.value for s in family.samples if s.name.endswith("_bucket")]
        count = [s.value for s in family.samples if s.name.endswith("_count")]
        assert buckets == sorted(buckets) and buckets[-1] == count[0]
