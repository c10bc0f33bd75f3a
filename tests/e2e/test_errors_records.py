"""Every record against the schema, and the facts that are promised of some."""
import json
import pathlib
import re

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "src/catalog/schema.json").read_text())
SHA = "0132848349585cfe6aae51c4941cbae872505f8a"
REGISTRY = "python/sglang/srt/layers/attention/attention_registry.py"


@pytest.fixture(scope="module")
def documents(exported):
    return [json.loads(path.read_text()) for path in sorted(exported.glob("api/errors/*.json"))]


def test_the_schema_has_the_31_fields_and_no_others(documents):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    record = SCHEMA["$defs"]["record"]
    assert len(record["required"]) == 31
    assert record["additionalProperties"] is False
    assert list(record["properties"]) == record["required"] == list(documents[0]["record"])


def test_every_record_is_valid(documents):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    faults = [f"{document['record']['slug']}: {error.json_path}: {error.message[:200]}"
              for document in documents for error in validator.iter_errors(document)]
    assert not faults, "\n".join(faults)


def test_records_are_consistent(documents):
    ids = {document["record"]["id"] for document in documents}
    for document in documents:
        record, raised = document["record"], document["raisedAt"]
        assert set(document["related"]) <= ids - {record["id"]}
        re.compile(record["messagePattern"])
        assert "# before\n" in record["exampleFix"] and "\n\n# after\n" in record["exampleFix"]
        if raised:
            lines = (ROOT / raised["file"]).read_text().split("\n")
            assert "errors::k" in lines[raised["line"] - 1], record["slug"]
            assert lines[raised["line"] - 1].strip() in raised["excerpt"]
        if record["repo"] == "quern":
            assert record["filePath"] == raised["file"] and record["lineNumber"] == raised["line"]
            assert record["sourceCode"] == raised["excerpt"]
        else:
            assert record["repo"] == "sgl-project/sglang" and record["analyzedSha"] == SHA
            assert record["sourceCode"] is None
            assert record["githubUrl"].startswith(
                f"https://github.com/sgl-project/sglang/blob/{SHA}/{record['filePath']}")


@pytest.mark.parametrize("entry, line", [("0ae807a1c0d1702a", 254), ("e45e9af63e91c033", 263)])
def test_the_two_that_circulate(documents, entry, line):
    record = next(d["record"] for d in documents if d["record"]["id"] == entry)
    assert record["filePath"] == REGISTRY and record["lineNumber"] == line
    assert (record["sourceCodeStart"], record["sourceCodeEnd"]) == (236, 272)
    assert record["githubUrl"] == (
        f"https://github.com/sgl-project/sglang/blob/{SHA}/{REGISTRY}#L{line}")
    assert record["errorClass"] == "ValueError" and record["schemaVersion"] == 2


def test_hpc_ops_leads_to_its_kin(documents):
    by_id = {document["record"]["id"]: document for document in documents}
    related = " ".join(by_id[other]["record"]["errorMessage"]
                       for other in by_id["e45e9af63e91c033"]["related"])
    for words in ("tokenspeed_mla backend can only", "cutedsl_mla backend can only",
                  "trtllm_mha backend can only", "Cross attention is not supported in the hpc_ops",
                  "hpc_ops backend does not support speculative decoding"):
        assert words in related
