# One word per thing one does here. Details are in CMakePresets.json; this file only strings them together.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
# Files of ours that are formatted: what git tracks, minus the generated headers of the ABI and the examples that pages show line by line.
SOURCES = $(shell git ls-files '*.cpp' '*.h' '*.c' | grep -v -e '^abi/include/' -e '^examples/.*\.c$$')

build = cmake --preset $(1) $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) > build/$(1).log 2>&1 \
	|| { cat build/$(1).log; exit 1; }; cmake --build build/$(1) --parallel $(JOBS)

.PHONY: help run test bench asan asan-clang tsan clang format format-check lint rules model fuzz afl vfio-test coverage mutate mutate-drivers package package-test campaign-test container-test docs docs-test abi-check abi-keep reproducible test-product traces known clean bootstrap

# Bare `make`: the words that there are.
help:
	@echo 'make run            installs what is missing, builds, runs the picture job: result.png, report.html, trace.pftrace'
	@echo 'make test           builds and runs every test'
	@echo 'make bench          measures the release build'
	@echo 'make package        Debian packages: build/package/packages'
	@echo 'make package-test   installs, uses and removes them in a clean Debian 12 (root, debootstrap)'
	@echo 'make docs           the documentation as a site: build/docs/index.html'
	@echo 'make docs-test      runs the commands that README and docs show'
	@echo 'make campaign-test  a campaign on a Slurm of three nodes that it starts (root)'
	@echo 'make container-test the image of examples/cluster, and a campaign in it (root, debootstrap, buildah)'
	@echo 'make test-product   docs, docs-test, package-test, container-test and campaign-test'
	@echo 'make abi-check      the interface of the public library against the last release'
	@echo 'make reproducible   builds the packages twice and compares their bytes'
	@echo 'make asan, asan-clang, tsan, clang    the tests with sanitizers, or with clang and its thread-safety analysis'
	@echo 'make model, fuzz, afl, coverage       minutes each: scripts/README.md, fuzz/README.md'
	@echo 'make mutate, mutate-drivers           small changes that tests, or dxgkit verify, should notice'
	@echo 'make vfio-test      real PCI devices of QEMU in a guest'
	@echo 'make rules          the rules that the last tests proved'
	@echo 'make traces, known  keeps runs anew after a change that is meant to alter them'
	@echo 'make format, format-check, lint, clean, bootstrap'

# It builds what the tests run, so that `make test` afterwards builds only what is left: docs/adr/0028.
run: bootstrap
	@mkdir -p build
	@$(call build,dev) --target dxgkit_tool
	build/dev/tools/dxgkit/dxgkit run --output result.png --report report.html --trace trace.pftrace

# The closing lines are the test runner's, again below the summary of the simulation.
test: bootstrap
	@mkdir -p build
	@$(call build,dev)
	@rm -f build/dev/test-results/*.xml build/dev/test-results/*.summary
	@ctest --preset dev --parallel $(JOBS) --output-log build/dev/ctest.log; status=$$?; \
	cat build/dev/test-results/sim.summary 2> /dev/null; \
	grep -A 100000 'tests passed' build/dev/ctest.log; exit $$status

bench: bootstrap
	@mkdir -p build
	@$(call build,release) --target dxgkit_bench dxgkit_bench_process_client dxgkit_tool
	build/release/bench/dxgkit_bench --out build/bench.json
	@bench/gl_frames.py build/release/tools/dxgkit/dxgkit build/bench.json
	@bench/tool_lines.py build/release/tools/dxgkit/dxgkit build/release/miniports build/release/tools/dxgkit/clients build/bench.json
	@bench/process_lines.py build/release/tools/dxgkit/dxgkit build/release/bench/dxgkit_bench_process_client build/release/src/dxcore build/bench.json

asan asan-clang tsan clang: bootstrap
	@mkdir -p build
	@$(call build,$@)
	@rm -f build/$@/test-results/*.xml
	@ctest --preset $@ --parallel $(JOBS)

format:
	@clang-format -i $(SOURCES)

format-check:
	@clang-format --dry-run --Werror $(SOURCES)

lint: bootstrap
	@mkdir -p build
	@$(call build,clang)
	@scripts/lint build/clang

# What the last `make test` proved of the rulebook.
rules:
	@scripts/rules build/dev/test-results

# Minutes each, not part of `make test`: RUNS of every target (fuzz/README.md), branches the core's tests take, conditions nobody tests.
RUNS ?= 1000000
# GPU virtual addresses beside a page-by-page model, long form; the seed is printed.
OPS ?= 10000000
SEED ?= $(shell date +%s)
model: bootstrap
	@mkdir -p build
	@$(call build,release) --target dxgkit_gpuva_test
	DXGKIT_GPUVA_OPS=$(OPS) DXGKIT_GPUVA_SEED=$(SEED) build/release/src/gpuva/dxgkit_gpuva_test --gtest_filter='AddressSpaceModel.*'

fuzz: bootstrap
	@mkdir -p build
	@$(call build,dev)
	@$(call build,fuzz) --target fuzz_d3dkmt
	@fuzz/run --runs $(RUNS) build/dev build/fuzz

# One target under AFL++ instead of libFuzzer.
TARGET ?= pe
SECONDS_EACH ?= 60
afl:
	@scripts/bootstrap afl++
	@mkdir -p build
	@$(call build,dev) --target dxgkit_afl_$(TARGET)
	@fuzz/afl build/dev $(TARGET) $(SECONDS_EACH)

# Real PCI devices: QEMU's, behind an IOMMU, in a guest of Debian's packages. tests/vfio/README.md
vfio-test: bootstrap
	@scripts/bootstrap qemu-system-x86
	@mkdir -p build
	@$(call build,dev) --target dxgkit_tool miniport_edu miniport_edu_astray edu_client picture_client
	@tests/vfio/guest_test.py build/dev build/dev/vfio

# Debian packages of a release build for /usr, with a build folder of their own. Then a clean Debian 12 that installs, uses and removes them.
# Times in them are the commit's, so that the same commit makes the same bytes again.
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
package: bootstrap
	@mkdir -p build
	@$(call build,package) --target installed
	@rm -rf build/package/packages
	@cd build/package && umask 022 && cpack -G DEB > packages.log 2>&1 || { cat packages.log; exit 1; }
	@ls build/package/packages/*.deb

package-test: package
	@scripts/bootstrap debootstrap
	@scripts/package_test build/package/packages

# A campaign on a real Slurm of three nodes, one of which dies in the middle.
SEEDS ?= 20000
campaign-test: bootstrap
	@scripts/bootstrap slurm-wlm munge
	@mkdir -p build
	@$(call build,dev) --target dxgkit_tool
	@scripts/campaign_test build/dev/tools/dxgkit/dxgkit $(SEEDS)

# The image of examples/cluster, made out of the packages, and a campaign in it.
container-test: package
	@scripts/bootstrap debootstrap buildah crun
	@scripts/container_test build/package/packages

# The documentation as a site that works without a network, links checked: build/docs/index.html.
docs:
	@scripts/bootstrap mkdocs doxygen
	@mkdir -p build
	@$(call build,dev) --target dxgkit_tool
	@scripts/docs_site build/docs build/dev/tools/dxgkit/dxgkit

# The public library's interface against that of the last release; abi-keep describes it anew, which releases do. scripts/README.md.
abi-check abi-keep: bootstrap
	@mkdir -p build
	@$(call build,dev) --target dxgkit
	@scripts/abi_check $(if $(filter abi-keep,$@),--keep) build/dev/src/api/libdxgkit.so

# The packages of two builds in different folders, byte for byte. Both builds are from nothing.
reproducible: bootstrap
	@scripts/reproducible

# Every command that a page shows, in what `make run` builds.
docs-test: bootstrap
	@mkdir -p build
	@$(call build,dev) --target installed dxgkit_plugin_program miniport_debugged_first
	@scripts/docs_commands build/dev

# What is too long for `make test`: packages in a clean root, the image of a container, a campaign on a cluster, the site and its commands.
test-product: docs docs-test package-test container-test campaign-test

coverage: bootstrap
	@scripts/coverage --jobs $(JOBS)

# Small changes of the core that tests should notice, SAMPLE of them drawn by SEED: scripts/README.md.
SAMPLE ?= 60
mutate: bootstrap
	@scripts/mutate --jobs $(JOBS) --sample $(SAMPLE) $(if $(filter command line environment,$(origin SEED)),--seed $(SEED))

# Small changes of the reference drivers that `dxgkit verify` should find, SAMPLE of them for each driver and memory model.
mutate-drivers: bootstrap
	@mkdir -p build
	@$(call build,dev) --target dxgkit_tool
	@scripts/mutate_drivers --jobs $(JOBS) --sample $(SAMPLE) $(if $(filter command line environment,$(origin SEED)),--seed $(SEED))

# The traces that simulated worlds and runs with a seed are held against: after a change that is meant to alter what happens.
traces: bootstrap
	@mkdir -p build
	@$(call build,dev)
	DXGKIT_SIM_KEEP_TRACES=sim/known_traces.txt build/dev/sim/dxgkit_sim_test --gtest_filter='Simulation.*'
	DXGKIT_KEEP_TRACES=1 tools/dxgkit/cli/trace_test.py build/dev/tools/dxgkit/dxgkit build/dev/miniports build/traces.xml
	@git diff --stat -- sim/known_traces.txt tools/dxgkit/cli/known_traces.txt

# What happened in tests with drivers: after a change that is meant to alter it. The difference of the texts is what authors will read.
known: bootstrap
	@mkdir -p build
	@$(call build,dev)
	@for program in $$(ls tests/known | sed -n 's/\..*//p' | sort -u); do \
	  DXGKIT_KEEP_RUNS=1 $$(find build/dev -name $$program -type f) > /dev/null || exit 1; done
	@git diff --stat -- tests/known

clean:
	rm -rf build result.png report.html trace.pftrace

bootstrap:
	@scripts/bootstrap
