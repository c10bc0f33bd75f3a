# Builds llama.cpp for the comparisons; sourced by the scripts beside it, after `set -euo pipefail`.
#
# It comes from the PyPI source package llama-cpp-python (its vendor/llama.cpp), Release with
# GGML_NATIVE (or for AVX2 alone), in build/llama.cpp below this project: once, then it is kept.
# Reads ISA (avx2, or empty for all that this processor has). Sets root, scratch, programs, quern and
# model; build_llama_cpp TARGET… makes what is missing in $programs.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
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
default_model=${QUERN_DEFAULT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf}

say() { echo "$*" >&2; }

build_llama_cpp() {
  local target missing=
  for target in "$@"; do [[ -x $programs/$target ]] || missing=1; done
  [[ -n $missing ]] || return 0
  mkdir -p "$scratch"
  if [[ ! -d $source ]]; then
    say "fetching llama-cpp-python $version"
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python \
      --dest "$scratch" "llama-cpp-python==$version"
    tar -xzf "$scratch/llama_cpp_python-$version.tar.gz" -C "$scratch"
  fi
  say "building llama.cpp; this takes many minutes (log: ${build#"$root"/}.log)"
  {
    # The server's pages for a browser would be fetched; it answers without them.
    nice -n 19 cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" \
      -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_UI=OFF
    nice -n 19 cmake --build "$build" -j 2 --target "$@"
  } > "$build.log" 2>&1 || { tail -n 20 "$build.log" >&2; exit 1; }
}
