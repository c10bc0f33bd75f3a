#!/bin/sh
# Runs every fuzz program of the fuzz build for FUZZ_SECONDS (60), from the seeds in tests/fuzz/corpus
# and from what earlier runs found (build/fuzz/corpus). A crash ends with exit code 1 and leaves its
# input in build/fuzz/crashes.
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
crashes=build/fuzz/crashes
mkdir -p "$crashes"
failed=
found=0
for source in tests/fuzz/fuzz_*.cpp; do
  name=$(basename "$source" .cpp)
  program=build/fuzz/tests/fuzz/$name
  seeds=tests/fuzz/corpus/$name
  [ -d "$seeds" ] || seeds=tests/fuzz/corpus/${name#fuzz_}
  [ -d "$seeds" ] || seeds=
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  found=$((found + 1))
  echo "fuzz: $name for $seconds s"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
       -print_final_stats=1 -verbosity=0 -artifact_prefix="$crashes/$name-" "$corpus" $seeds \
       </dev/null >"build/fuzz/$name.log" 2>&1; then
    tail -n 40 "build/fuzz/$name.log"
    failed="$failed $name"
  else
    grep 'number_of_executed_units' "build/fuzz/$name.log" || true
  fi
done
if [ "$found" = 0 ]; then
  echo "fuzz: there is no tests/fuzz/fuzz_*.cpp" >&2
  exit 1
fi
if [ -n "$failed" ]; then
  echo "fuzz: failed:$failed (inputs in $crashes)" >&2
  exit 1
fi
echo "fuzz: $found targets, nothing found"
