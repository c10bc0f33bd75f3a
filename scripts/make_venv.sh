#!/bin/sh
# Makes .venv with what the end-to-end tests need (tests/requirements.txt). Instant when it is there.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/installed
if [ -f "$stamp" ] && cmp -s tests/requirements.txt "$stamp"; then
  exit 0
fi
echo "quern: making the tests' Python environment" >&2
rm -rf .venv
python3 -m venv .venv
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check \
     -r tests/requirements.txt </dev/null >"$log" 2>&1; then
  tail -n 5 "$log" | sed 's#[a-z+]*://[^ ]*#(index)#g' >&2
  echo "quern: pip could not install tests/requirements.txt; is a package index reachable?" >&2
  exit 1
fi
cp tests/requirements.txt "$stamp"
