#!/bin/sh
# Fetches the source of xgrammar, the grammar compiler, from its PyPI package and unpacks it into the
# given folder. Silent and instant when it is there. CMake calls it (cmake/xgrammar.cmake).
set -eu

version=0.2.9
sha256=87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90
folder=$1
stamp=$folder/.fetched
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$sha256" ]; then
  exit 0
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
echo "quern: fetching xgrammar $version (3 MB)" >&2
# pip checks the hash before it asks the package for its metadata, which runs code of the package.
echo "xgrammar==$version --hash=sha256:$sha256" >"$work/wanted"
if ! python3 -m pip download --quiet --no-deps --no-input --disable-pip-version-check \
     --no-binary xgrammar --require-hashes --requirement "$work/wanted" --dest "$work" \
     </dev/null >"$work/log" 2>&1; then
  tail -n 5 "$work/log" | sed 's#[a-z+]*://[^ ]*#(index)#g' >&2
  echo "quern: pip could not download xgrammar $version; is a package index reachable?" >&2
  exit 1
fi
tar -xzf "$work/xgrammar-$version.tar.gz" -C "$work"
echo "$sha256" >"$work/xgrammar-$version/.fetched"
rm -rf "$folder"
# Another build may have been faster; then its copy serves.
mv -T "$work/xgrammar-$version" "$folder" 2>/dev/null || [ -f "$stamp" ]
