#!/usr/bin/env bash
# Compares quern with llama.cpp on the same model file: prefill, decode and batched decode, in
# interleaved rounds, with two threads and equal token counts; no prompt is cached on either side
# and nothing is sampled. llama.cpp runs with flash attention off and on and is counted at its best.
#
# llama.cpp is built from the PyPI source package llama-cpp-python (its vendor/llama.cpp), Release
# with GGML_NATIVE, in build/llama.cpp below this project: once, then it is kept.
#
# Usage: bench/compare_llama_cpp.sh [MODEL.gguf]
#   QUERN=build/release/quern   the program to measure
#   ROUNDS=3 THREADS=2          rounds of each measurement, threads of both
#   BUILD_ONLY=1                stops once llama.cpp is built
# The figures go to stdout; with JSON=FILE also there, every round of them.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=0.3.36
scratch=$root/build/llama.cpp
source=$scratch/llama_cpp_python-$version/vendor/llama.cpp
programs=$scratch/build/bin
quern=${QUERN:-$root/build/release/quern}
model=${1:-${QUERN_DEFAULT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf}}
rounds=${ROUNDS:-3}
threads=${THREADS:-2}

say() { echo "$*" >&2; }

build_llama_cpp() {
  if [[ -x $programs/llama-bench && -x $programs/llama-batched-bench ]]; then return; fi
  mkdir -p "$scratch"
  if [[ ! -d $source ]]; then
    say "fetching llama-cpp-python $version"
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python \
      --dest "$scratch" "llama-cpp-python==$version"
    tar -xzf "$scratch/llama_cpp_python-$version.tar.gz" -C "$scratch"
  fi
  say "building llama.cpp; this takes many minutes (log: ${scratch#"$root"/}/build.log)"
  {
    nice -n 19 cmake -S "$source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release \
      -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF
    nice -n 19 cmake --build "$scratch/build" -j 2 --target llama-bench llama-batched-bench
  } > "$scratch/build.log" 2>&1 || { tail -n 20 "$scratch/build.log" >&2; exit 1; }
}

# One line of results: program, measurement, tokens per second.
quern_run() {  # name, field, flags…
  local name=$1 field=$2
  shift 2
  "$quern" bench latency --model "$model" --threads "$threads" --repeats 1 --json --log-level error \
    "$@" | python3 -c "import json, sys; print('quern $name', json.load(sys.stdin)['$field'])"
}

llama_bench() {  # name, flash attention, flags…
  local name=$1 flash=$2
  shift 2
  "$programs/llama-bench" -m "$model" -t "$threads" -fa "$flash" -r 1 -o json "$@" 2> /dev/null |
    python3 -c "import json, sys; print('llama-$flash $name', json.load(sys.stdin)[0]['avg_ts'])"
}

llama_batched() {  # name, flash attention, batch
  "$programs/llama-batched-bench" -m "$model" -t "$threads" -tb "$threads" -fa "$2" -c 8192 -npp 16 \
    -ntg 64 -npl "$3" --output-format jsonl 2> /dev/null |
    python3 -c "
import json, sys
for line in sys.stdin:
    if line.startswith('{'):
        print('llama-$2 $1', json.loads(line)['speed_tg'])"
}

measure() {
  local flash
  for ((round = 1; round <= rounds; round++)); do
    say "round $round of $rounds"
    for tokens in 512 2048; do
      quern_run "prefill-$tokens" prefill_tokens_per_s --prefill "$tokens" --decode 1
      for flash in off on; do llama_bench "prefill-$tokens" $flash -p "$tokens" -n 0; done
    done
    quern_run decode-at-0 decode_tokens_per_s --prefill 1 --decode 64
    for flash in off on; do llama_bench decode-at-0 $flash -p 0 -n 64; done
    quern_run decode-at-2048 decode_tokens_per_s --depth 2047 --prefill 1 --decode 64
    for flash in off on; do llama_bench decode-at-2048 $flash -p 0 -n 64 -d 2048; done
    for batch in 8 64; do
      quern_run "decode-batch-$batch" decode_tokens_per_s --prefill 16 --decode 64 --batch "$batch"
      for flash in off on; do llama_batched "decode-batch-$batch" $flash "$batch"; done
    done
  done
}

report() {
  python3 -c '
import collections, json, statistics, sys

figures = collections.defaultdict(lambda: collections.defaultdict(list))
for line in sys.stdin:
    program, name, value = line.split()
    figures[name][program].append(float(value))
heads = ("quern", "range", "llama.cpp", "range", "ratio")
print("{:<18}{:>9} {:>19}{:>11} {:>19}{:>8}  flash".format("tokens/s", *heads))
for name, by in figures.items():
    best = max((p for p in by if p != "quern"), key=lambda p: statistics.median(by[p]))
    ours, theirs = statistics.median(by["quern"]), statistics.median(by[best])
    span = lambda v: "{:.1f}-{:.1f}".format(min(v), max(v))
    print("{:<18}{:9.1f} {:>19}{:11.1f} {:>19}{:8.2f}  {}".format(
        name, ours, span(by["quern"]), theirs, span(by[best]), ours / theirs, best[6:]))
if len(sys.argv) > 1:
    json.dump(figures, open(sys.argv[1], "w"), indent=1)
' ${JSON:+"$JSON"}
}

[[ -f $model ]] || { say "no model at $model: make model fetches the default one"; exit 1; }
build_llama_cpp
[[ -n ${BUILD_ONLY:-} ]] && exit 0
[[ -x $quern ]] || { say "no program at $quern: build it first (make)"; exit 1; }
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
measure > "$figures"
report < "$figures"
