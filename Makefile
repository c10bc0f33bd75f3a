# Thin wrappers; CMake with presets does the work (CMakePresets.json).
#   make run    a model answering on http://127.0.0.1:30000; ARGS="--port 31000" passes flags
#   make test   everything that must pass
.PHONY: run test configure program build model packages browser venv fuzz asan tsan soak format
JOBS := $(shell nproc 2>/dev/null || echo 2)

run: program model
	@exec build/release/quern serve $(ARGS)

test: build model venv browser
	@scripts/test.sh

# Longer suites.
soak: build model venv browser
	@QUERN_SOAK=1 scripts/test.sh

configure: packages
	@[ -f build/release/build.ninja ] || cmake --preset release >/dev/null

program: configure
	@cmake --build --preset release -j $(JOBS) --target quern

build: configure
	@cmake --build --preset release -j $(JOBS)

model: packages
	@scripts/fetch_model.sh

packages:
	@scripts/install_packages.sh

# Chromium for the tests of the error pages, which are skipped without it.
browser: packages
	@scripts/install_packages.sh packages-browser.txt || \
	  echo "quern: without Chromium the browser tests are skipped" >&2

venv: packages
	@scripts/make_venv.sh

asan tsan: packages
	@[ -f build/$@/build.ninja ] || cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -j $(JOBS)

# FUZZ_SECONDS=10 make fuzz
fuzz:
	@scripts/install_packages.sh packages.txt packages-fuzz.txt
	@[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target fuzz_programs
	@scripts/fuzz.sh

format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i
