"""Attention backends from the command line: contracts of simulated machines, splits, the generated
page, and a backend that a program brings along."""
import json
import subprocess

import makers
import pytest
from conftest import QUERN, ROOT, default_model

REAL = pytest.mark.skipif(not default_model().exists(), reason="the default model is not there")


def quern(*args, **more):
    return subprocess.run([QUERN, *map(str, args)], capture_output=True, text=True, timeout=120,
                          **more)


def generated(model, *args) -> str:
    done = quern("generate", "--model", model, "--raw", "Once upon a time", "--max-tokens", 24,
                 "--temperature", 0, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["text"]


@REAL
@pytest.mark.parametrize("machine, backend, page_size", [
    ("b200", "trtllm_mha", 64), ("b200", "fa4", 128), ("h100", "fa3", 32),
    ("h100", "flashinfer", 16), ("mi300x", "triton", 64)])
def test_simulated_contracts_give_the_same_text(machine, backend, page_size):
    flags = ["--simulate-hardware", machine, "--attention-backend", backend]
    if backend in ("fa3", "flashinfer", "triton"):  # they take any size
        flags += ["--page-size", page_size]
    # A bf16 cache in packed pages on the same kernels: the same bits.
    assert generated(default_model(), *flags) == generated(default_model())


@REAL
def test_single_token_pages_run_on_the_reference_layout():
    flags = ["--simulate-hardware", "h100", "--attention-backend", "fa3"]
    expected = generated(default_model(), "--attention-backend", "torch_native")
    assert generated(default_model(), *flags) == expected


@REAL
def test_simulated_serving_says_so_and_keeps_the_contract(start):
    server = start(default_model(), "--simulate-hardware", "b200", "--attention-backend",
                          "trtllm_mha", "--kv-cache-dtype", "fp8_e4m3")
    assert "simulating b200" in server.log()
    info = server.info()
    assert info["attention_backend"] == "trtllm_mha"
    assert info["page_size"] == 64
    assert info["kv_cache_dtype"] == "fp8_e4m3"


@pytest.fixture
def hpc_model(work, monkeypatch):
    """Head dim 128 and groups of four, as hpc_ops wants them."""
    monkeypatch.setattr(makers, "H", 8)
    path = work / "hpc.gguf"
    makers.tiny_gguf(str(path), hd=128)
    return path


def test_simulated_hpc_ops_serves_the_heads_it_wants(hpc_model):
    flags = ["--simulate-hardware", "h100", "--attention-backend", "hpc_ops"]
    assert generated(hpc_model, *flags) == generated(hpc_model, "--page-size", 64)


@REAL
def test_simulated_hpc_ops_refuses_other_heads():
    done = quern("generate", "--model", default_model(), "--simulate-hardware", "h100",
                 "--attention-backend", "hpc_ops", "hi")
    assert done.returncode == 1
    assert ("requires head_dim == 128 and num_q_heads // num_kv_heads in (4, 8), got head_dim=64, "
            "num_q_heads=9, num_kv_heads=3.") in done.stderr


@REAL
def test_a_split_runs_both_halves():
    flags = ["--prefill-attention-backend", "torch_native", "--decode-attention-backend",
             "cpu_flash"]
    assert len(generated(default_model(), *flags)) > 20


def test_the_page_of_backends_is_not_stale():
    page = quern("backends", "--markdown")
    assert page.returncode == 0, page.stderr
    committed = (ROOT / "docs/backends.md").read_text()
    assert page.stdout == committed, "make docs/backends.md with: quern backends --markdown"


@pytest.mark.parametrize("machine", ["h100", "b200", "xeon-amx", "arm64"])
def test_backends_of_a_machine(machine):
    rows = json.loads(quern("backends", "--hardware", machine, "--json").stdout)
    here = {row["name"]: row["here"] for row in rows}
    assert here["cpu_flash"] == "yes"
    assert here["fa3"].startswith("the machine fits" if machine == "h100" else "no: needs")


def test_a_programs_own_backend_answers():
    program = (ROOT / QUERN).parent / "examples/own_backend"
    if not program.exists():
        pytest.skip("the examples are not built")
    model = ROOT / "tests/data/models/llama"
    done = subprocess.run([str(program), str(model), "hello"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
