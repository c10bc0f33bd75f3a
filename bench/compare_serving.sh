#!/usr/bin/env bash
# Compares quern with llama.cpp's server under the same load on the same model file, in interleaved
# rounds, and quern with itself without its prefix cache (how: bench/compare_serving.py).
# llama.cpp is built by bench/llama_cpp.sh.
#
# Usage: bench/compare_serving.sh [MODEL.gguf [flags of compare_serving.py]]
#   QUERN=build/release/quern   the program to measure
#   ROUNDS=3 THREADS=2          rounds, threads of both servers
#   JSON=FILE                   every single figure
#   ISA=avx2                    both without AVX-512: a llama.cpp built for AVX2, QUERN_ISA=avx2
#   BUILD_ONLY=1                stops once llama.cpp is built
set -euo pipefail
source "$(dirname "$0")/llama_cpp.sh"
model=${1:-$default_model}

[[ -f $model ]] || { say "no model at $model: make model fetches the default one"; exit 1; }
build_llama_cpp llama-server
[[ -n ${BUILD_ONLY:-} ]] && exit 0
[[ -x $quern ]] || { say "no program at $quern: build it first (make)"; exit 1; }
exec python3 "$root/bench/compare_serving.py" --quern "$quern" --llama "$programs" --model "$model" \
  --rounds "${ROUNDS:-3}" --threads "${THREADS:-2}" ${JSON:+--json "$JSON"} "${@:2}"
