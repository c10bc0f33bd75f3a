#!/usr/bin/env bash
# Compares quern with llama.cpp on the same model file: prefill, decode and batched decode, in
# interleaved rounds, with two threads and equal token counts (how: bench/compare.py).
# llama.cpp is built by bench/llama_cpp.sh.
#
# Usage: bench/compare_llama_cpp.sh [MODEL.gguf [flags of compare.py]]
#   QUERN=build/release/quern   the program to measure
#   ROUNDS=3 THREADS=2          rounds (two minutes each on a calm machine), threads of both
#   JSON=FILE                   every single figure
#   TYPE=Q8_0                   the model requantised to this type first, by llama-quantize
#   ISA=avx2                    both without AVX-512: a llama.cpp built for AVX2, QUERN_ISA=avx2
#   BUILD_ONLY=1                stops once llama.cpp is built
set -euo pipefail

source "$(dirname "$0")/llama_cpp.sh"
model=${1:-$default_model}

[[ -f $model ]] || { say "no model at $model: make model fetches the default one"; exit 1; }
build_llama_cpp llama-bench llama-batched-bench llama-quantize
[[ -n ${BUILD_ONLY:-} ]] && exit 0
[[ -x $quern ]] || { say "no program at $quern: build it first (make)"; exit 1; }
if [[ -n ${TYPE:-} ]]; then
  name=$(basename "$model" .gguf)
  typed=$scratch/${name%.*}.$TYPE.gguf
  [[ -f $typed ]] || "$programs/llama-quantize" --allow-requantize "$model" "$typed" "$TYPE" >&2
  model=$typed
fi
exec python3 "$root/bench/compare.py" --quern "$quern" --llama "$programs" --model "$model" \
  --rounds "${ROUNDS:-3}" --threads "${THREADS:-2}" ${JSON:+--json "$JSON"} "${@:2}"
