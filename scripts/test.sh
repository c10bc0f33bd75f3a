#!/bin/sh
# Unit and golden tests (ctest), then the end-to-end tests over HTTP; both against the release build.
# The first failure ends it; the last lines sum it up. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc)
log=build/release/ctest.log
# Every program of the tests notes here which errors it raises.
export QUERN_ERROR_TRACE=$PWD/build/release/raised.txt
rm -f "$QUERN_ERROR_TRACE"
if ! ctest --preset release -j "$jobs" >"$log" 2>&1 </dev/null; then
  cat "$log"
  echo "test: FAILED in ctest ($log)" >&2
  exit 1
fi
details=build/release/Testing/Temporary/LastTest.log
sum() { sed -n "$1" "$2" | awk '{ total += $1 } END { print total + 0 }'; }
passed=$(sum 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$details")
skipped=$(sum 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$details")
sed -n 's/^\(.*tests passed.*\)$/unit tests: \1/p' "$log"
# Why tests were skipped, each reason once.
awk '/: Skipped$/ { getline; print "  skipped: " $0 }' "$details" | sort | uniq

log=build/release/e2e.log
if ! .venv/bin/python -m pytest -q -rs tests/e2e "$@" >"$log" 2>&1 </dev/null; then
  cat "$log"
  echo "test: FAILED in the end-to-end tests ($log)" >&2
  exit 1
fi
summary=$(tail -n 1 "$log" | sed 's/^=* *//; s/ *=*$//')
echo "end-to-end tests: $summary"
sed -n 's/^SKIPPED \[\([0-9]*\)\] [^ ]* /\1 /p' "$log" |
  awk '{ n = $1; $1 = ""; all[$0] += n } END { for (why in all) print "  skipped:" why ": " all[why] " tests" }'
more_passed=$(echo "$summary" | sed -n 's/.*\b\([0-9][0-9]*\) passed.*/\1/p')
more_skipped=$(echo "$summary" | sed -n 's/.*\b\([0-9][0-9]*\) skipped.*/\1/p')
echo "tests: $((passed + ${more_passed:-0})) passed, 0 failed," \
     "$((skipped + ${more_skipped:-0})) skipped"
# With arguments only some tests ran.
[ $# -gt 0 ] || python3 -B tools/check_raised.py src "$QUERN_ERROR_TRACE"
