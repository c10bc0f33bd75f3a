#!/bin/sh
# Unit and golden tests (ctest), then the end-to-end tests over HTTP; both against the release build.
# The first failure ends it; the last lines sum it up. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc)
log=build/release/ctest.log
if ! ctest --preset release -j "$jobs" >"$log" 2>&1 </dev/null; then
  cat "$log"
  echo "test: FAILED in ctest ($log)" >&2
  exit 1
fi
unit=$(sed -n 's/^\(.*tests passed.*\)$/\1/p' "$log")
end_to_end="no end-to-end tests"
if [ -d tests/e2e ] && ls tests/e2e/test_*.py >/dev/null 2>&1; then
  log=build/release/e2e.log
  if ! .venv/bin/python -m pytest -q tests/e2e "$@" >"$log" 2>&1 </dev/null; then
    cat "$log"
    echo "test: FAILED in the end-to-end tests ($log)" >&2
    exit 1
  fi
  end_to_end=$(tail -n 1 "$log" | sed 's/^=* *//; s/ *=*$//')
fi
echo "test: ctest: $unit"
echo "test: end to end: $end_to_end"
