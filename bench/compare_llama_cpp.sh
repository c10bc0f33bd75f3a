#!/usr/bin/env bash
# Compares quern with llama.cpp on the same model file: prefill, decode and batched decode, in
# interleaved rounds, with two threads and equal token counts (how: bench/compare.py).
#
# llama.cpp is built from the PyPI source package llama-cpp-python (its vendor/llama.cpp), Release
# with GGML_NATIVE (or for AVX2 alone), in build/llama.cpp below this project: once, then it is kept.
#
# Usage: bench/compare_llama_cpp.sh [MODEL.gguf [flags of compare.py]]
#   QUERN=build/release/quern   the program to measure
#   ROUNDS=3 THREADS=2          rounds (two minutes each on a calm machine), threads of both
#   JSON=FILE                   every single figure
#   TYPE=Q8_0                   the model requantised to this type first, by llama-quantize
#   ISA=avx2                    both without AVX-512: a llama.cpp built for AVX2, QUERN_ISA=avx2
#   BUILD_ONLY=1                stops once llama.cpp is built
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=0.3.36
scratch=$root/build/llama.cpp
source=$scratch/llama_cpp_python-$version/vendor/llama.cpp
isa=${ISA:-native}
build=$scratch/build
case $isa in
  native) options=(-DGGML_NATIVE=ON) ;;
  avx2) options=(-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON)
        build+=-avx2
        export QUERN_ISA=avx2 ;;
  *) echo "ISA is avx2, or empty for all that this processor has" >&2; exit 2 ;;
esac
programs=$build/bin
quern=${QUERN:-$root/build/release/quern}
model=${1:-${QUERN_DEFAULT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf}}

say() { echo "$*" >&2; }

build_llama_cpp() {
  if [[ -x $programs/llama-bench && -x $programs/llama-batched-bench &&
        -x $programs/llama-quantize ]]; then return; fi
  mkdir -p "$scratch"
  if [[ ! -d $source ]]; then
    say "fetching llama-cpp-python $version"
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python \
      --dest "$scratch" "llama-cpp-python==$version"
    tar -xzf "$scratch/llama_cpp_python-$version.tar.gz" -C "$scratch"
  fi
  say "building llama.cpp; this takes many minutes (log: ${build#"$root"/}.log)"
  {
    nice -n 19 cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" \
      -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF
    nice -n 19 cmake --build "$build" -j 2 --target llama-bench llama-batched-bench llama-quantize
  } > "$build.log" 2>&1 || { tail -n 20 "$build.log" >&2; exit 1; }
}

[[ -f $model ]] || { say "no model at $model: make model fetches the default one"; exit 1; }
build_llama_cpp
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
