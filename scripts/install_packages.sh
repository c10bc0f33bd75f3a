#!/bin/sh
# Installs the Debian packages named in the given lists (default: packages.txt) that are missing.
# Silent and instant when all are there. Without root it prints the one command and exits 1.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- packages.txt

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "quern: this is not Debian; install what $* names with your own package manager" >&2
  exit 0
fi
wanted=$(cat "$@" | sed 's/#.*//' | tr -s ' \t\n' '\n' | grep -v '^$')
# shellcheck disable=SC2086
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
  sed -n 's/ installed$//p' || true)
missing=
for package in $wanted; do
  printf '%s\n' "$installed" | grep -qx "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

command="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ]; then
  echo "quern: some Debian packages are missing. As root, run:" >&2
  echo "  $command" >&2
  exit 1
fi
echo "quern: installing$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# The package lists are fetched only where the present ones do not serve.
if ! $command >"$log" 2>&1 </dev/null; then
  if ! { apt-get update && $command; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    echo "quern: the packages could not be installed; as root, run: apt-get update && $command" >&2
    exit 1
  fi
fi
