# Sluice. `make` alone prints the targets. Nothing here is needed to import engine or kernels: those build with go and gcc.

# One build tag for everything that needs the set-up, added to the flags and tags that the user has (also by go env -w).
comma := ,
GOFLAGS := $(shell go env GOFLAGS 2>/dev/null)
tags := $(filter -tags=%,$(GOFLAGS))
ifeq (,$(tags))
  GOFLAGS := $(strip $(GOFLAGS) -tags=native)
else ifeq (,$(filter native,$(subst $(comma), ,$(patsubst -tags=%,%,$(tags)))))
  GOFLAGS := $(patsubst -tags=%,-tags=%$(comma)native,$(GOFLAGS))
endif
# go-llama.cpp's own binding.cpp, which go build always compiles, becomes inert with the headers of our shim.
# gorgonia.org/cu reads cuda.h from the cache (set-up part cuda), where cuda/compat gives it the declarations of its time. No real
# libcuda is linked: the driver is opened at run time (cuda/internal/driver).
cache := $(or $(SLUICE_CACHE),$(HOME)/.cache/sluice)
cuda := $(abspath $(cache))/include/cuda-$(shell sha256sum $(CURDIR)/cuda/compat/cuda.h | cut -c1-12)
CGO_CFLAGS := $(strip $(filter-out -I$(abspath $(cache))/include/cuda-%,$(shell go env CGO_CFLAGS 2>/dev/null)) -I$(cuda))
CGO_LDFLAGS := $(strip $(filter-out -Wl$(comma)--as-needed,$(shell go env CGO_LDFLAGS 2>/dev/null)) -Wl$(comma)--as-needed)
CGO_CXXFLAGS := $(filter-out -O2 -g -O1 -w -I$(CURDIR)/llm/binding/shim,$(shell go env CGO_CXXFLAGS 2>/dev/null)) \
	-O1 -w -I$(CURDIR)/llm/binding/shim
CGO_CXXFLAGS := $(strip $(CGO_CXXFLAGS))
export GOFLAGS CGO_CFLAGS CGO_CXXFLAGS CGO_LDFLAGS
# ONNX Runtime in Python, which tests and benchmarks compare with, sends telemetry as the library does (embed.DisableTelemetry).
export ORT_DISABLE_TELEMETRY := 1

# The set-up and the checks are plain Go: they compile in seconds, without a C compiler. Where there is one, the set-up is
# compiled as the program is, so that net/http and what it needs are compiled once.
cgo := $(shell printf '\043include <stdlib.h>\n' | $${CC:-gcc} -E - >/dev/null 2>&1 && echo 1 || echo 0)
# Go's compiler collects its garbage at 9 times what is live instead of 2: an eighth of its time. The program goes without what
# debuggers read (stack traces need none of it), half of the linker's time; GOFLAGS=-ldflags= brings it back.
gogc := GOGC=$(or $(GOGC),800)
setup := $(gogc) CGO_ENABLED=$(cgo) go run ./tools/setup/cmd
program = $(gogc) go build $(1) $(if $(findstring -ldflags,$(GOFLAGS)),,-ldflags=-w) -o bin/sluice ./cmd/sluice
# What `make build` makes is for this machine: without AMX, its kernels take 16 s of the compiler's time for nothing. Tests
# and archives have all kernels.
tags := $(patsubst -tags=%,%,$(filter -tags=%,$(GOFLAGS)))
# The packages of others and the kernels need no set-up: they are compiled with the lowest priority while it waits for the
# network, or has less to do than there are processors.
third = go list -tags=$(tags) -deps -f '{{with .Module}}{{if not .Main}}{{$$.ImportPath}}{{end}}{{end}}' ./cmd/sluice
linked := onnxruntime_go|daulet/tokenizers|go-llama|gorgonia.org/cu
early = $(gogc) nice -n 19 go build $(here) ./kernels/cpu/... `$(third) | grep -Ev '$(linked)'`
here := $(if $(shell grep -qsw amx_tile /proc/cpuinfo && echo 1),,-tags=$(tags)$(comma)noamx)
FUZZTIME ?= 20s
BENCH ?= .
KILLS ?= 200
FAULTS ?= 3000
SOAK_SERVE ?= 10m
REQUESTS ?= 10000
HTTP_REQUESTS ?= 200000
COMPUTE ?= --out build/out/bench
GENERATE ?= --out build/out/bench-generate
EMBED ?= --out build/out/bench-embed
DIST_CHECK ?= -suite bookworm
# What is built for another architecture is built in a copy of this tree, so that two architectures' libraries never share a folder.
# Its program writes the completions: the system has to run it (qemu-user-static).
machine := $(if $(filter arm64,$(ARCH)),aarch64,x86_64)
other := $(if $(filter-out $(shell go env GOHOSTARCH 2>/dev/null),$(ARCH)),build/out/$(ARCH))

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  The first set-up downloads about 480 MB and compiles for some minutes; the cache is SLUICE_CACHE, else ~/.cache/sluice."

.PHONY: go
go:
	@command -v go >/dev/null || { echo "make: go is not installed; see go.dev/doc/install" >&2; exit 1; }

.PHONY: preflight
preflight: go ## check that the machine has the tools, and say how to install what is missing
	@$(setup) preflight

.PHONY: setup
setup: go ## assemble native parts and default models (nothing to do the second time)
	@$(setup)

.PHONY: build
build: go ## set up if needed, then bin/sluice, for this machine's processor
	@{ $(early); } >/dev/null 2>&1 & $(setup) && wait
	$(call program,$(here))

.PHONY: dist
dist: go ## one archive for other machines, in dist/: program, libraries, licences, completions, digests; ARCH=arm64 for those
ifeq ($(other),)
	@$(setup) -all-sets
	@CGO_ENABLED=0 go build -o build/out/dist-tool ./tools/dist/cmd
	@build/out/dist-tool build
else
	@mkdir -p dist $(other) && git ls-files -z | xargs -0 cp --parents -u -t $(other)
	@env -u GOFLAGS -u CGO_CFLAGS -u CGO_CXXFLAGS -u CGO_LDFLAGS SLUICE_ARCH=$(ARCH) QEMU_LD_PREFIX=/usr/aarch64-linux-gnu \
		$(MAKE) --no-print-directory -C $(other) ARCH= dist
	@cp $(other)/dist/sluice* dist/
endif

.PHONY: dist-check
dist-check: go ## the archive of make dist on a bare Debian, made by debootstrap; for root; DIST_CHECK holds flags
	@CGO_ENABLED=0 go build -o build/out/dist-tool ./tools/dist/cmd
	@build/out/dist-tool check $(if $(other),-arch $(ARCH)) $(DIST_CHECK) $(if $(other),dist/sluice-*-$(machine)-*.tar.gz)

.PHONY: gpu-bundle
gpu-bundle: build ## dist/gpu-bundle.tar.gz: what runs the tests of the GPU part on a machine without toolchain and network
	@mkdir -p dist
	@$(setup) flashlib
	@go run ./tools/gpubundle dist '$(abspath $(cache))'

.PHONY: gpu-models
gpu-models: go ## dist/gpu-models.tar.gz.NN: models and NVIDIA's libraries for two stages of run-gpu; DATA holds squad16
	@mkdir -p dist
	@go run ./tools/gpubundle dist '$(abspath $(cache))' -models '$(or $(DATA),../shared/data)'

.PHONY: test
test: preflight ## everything CI runs; prints how many tests passed, failed and were skipped
	@$(setup) -all-sets
	@$(setup) python clients ocr postgres llama-asan
	$(call program)
	@CGO_ENABLED=0 go build -o build/out/check ./tools/check
	@build/out/check test

.PHONY: test-cluster
test-cluster: setup ## the module cluster/ (Apache Beam); it compiles for minutes, and CI does not run it
	cd cluster && go vet ./... && go test ./...

.PHONY: race
race: setup ## the concurrent packages under the race detector
	@$(setup) python
	@CGO_ENABLED=0 go build -o build/out/check ./tools/check
	@build/out/check race

.PHONY: asan
asan: setup ## the C kernels and llama.cpp's binding under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(setup) llama-asan
	@CGO_ENABLED=0 go build -o build/out/check ./tools/check
	@build/out/check asan

.PHONY: test-arm64
test-arm64: go ## the tests of the C kernels, and some above them, on emulated processors of arm64 (qemu-user); takes an hour
	@CGO_ENABLED=0 go build -o build/out/check ./tools/check
	@build/out/check arm64

.PHONY: fuzz
fuzz: setup ## every fuzz target for FUZZTIME (20s), and inputs that are doubled for each parser and route: is the time linear?
	@CGO_ENABLED=0 go build -o build/out/check ./tools/check
	@build/out/check fuzz $(FUZZTIME)
	SLUICE_DOUBLING=$(FUZZTIME) go test -count=1 -p 1 -timeout 120m -run '^TestDoubling$$' ./rag/corpus ./internal/test/doubling ./internal/models ./serve ./rag/web ./llm/tests

.PHONY: fuzz-http
fuzz-http: setup ## HTTP_REQUESTS (200000) requests by openapi.json, spoiled ones and raw bytes to the server: no 5xx, no crash
	SLUICE_FUZZ_REQUESTS=$(HTTP_REQUESTS) go test -count=1 -v -timeout 60m -run TestFuzzed ./serve

.PHONY: soak
soak: build ## REQUESTS (10000) random requests to a language model, after twice as many to warm up: nothing crashes, nothing leaks
	SLUICE_SOAK_REQUESTS=$(REQUESTS) go test -count=1 -v -timeout 60m -run Soak ./llm/tests

.PHONY: soak-serve
soak-serve: build ## a server under twice its load for SOAK_SERVE (10m), with kills and changes by another process
	SLUICE_SOAK_SERVE=$(SOAK_SERVE) go test -count=1 -v -timeout 120m -run 'SoakServe|ServeDrains|ServeKilled' ./internal/e2e

.PHONY: kill
kill: build ## kill -9 at KILLS (200) random moments of ingest, sync, rm, compact and uploads, and FAULTS (3000) changes on a disk that fails
	@$(setup) postgres
	SLUICE_KILL_ROUNDS=$(KILLS) SLUICE_POSTGRES_KILLS=$(KILLS) SLUICE_FAULT_ROUNDS=$(FAULTS) go test -count=1 -v -timeout 60m -run 'Kill|RandomFaults|Restarts' \
		./internal/e2e ./rag/store ./serve

.PHONY: bench
bench: build ## Go benchmarks matching BENCH (.); what needs Python or llama-bench finds them
	@$(setup) python llama-bench
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./...

.PHONY: bench-compute
bench-compute: build ## the compute core against its peers (docs/benchmarks); COMPUTE holds flags
	@$(setup) peers
	bin/sluice bench compute $(COMPUTE)

.PHONY: bench-embed
bench-embed: build ## the encoder against its peers (docs/benchmarks); EMBED holds flags
	@$(setup) embed-peers
	bin/sluice bench embed $(EMBED)

.PHONY: bench-generate
bench-generate: build ## the language model against llama.cpp's own programs; GENERATE holds flags
	@$(setup) llama-bench llama-server
	bin/sluice bench generate $(GENERATE)

.PHONY: bench-serve
bench-serve: build ## the server against FastAPI + onnxruntime + FAISS and llama-server; SERVE holds flags
	@$(setup) serve-peers llama-server
	bin/sluice bench serve $(SERVE)

.PHONY: cuda-image
cuda-image: go ## compile kernels/cuda into its image; brings NVIDIA's compiler (105 MB); prints registers, fails on spills
	@$(setup) nvcc
	@CGO_ENABLED=0 GOFLAGS= go run ./tools/cudaimage/cmd

.PHONY: llama-cuda
llama-cuda: go ## llama.cpp's back-end for NVIDIA GPUs of one architecture (ARCH=90): build/out/llama-cuda; brings 530 MB, takes long
	@SLUICE_CUDA_ARCH=$(or $(ARCH),90) $(setup) llama-cuda

.PHONY: onnxruntime-cuda
onnxruntime-cuda: go ## ONNX Runtime for NVIDIA GPUs (embed.device), into the cache; brings 1.3 GB
	@$(setup) onnxruntime-cuda

.PHONY: cuda-emulated
cuda-emulated: go ## all tests of the engine on the GPU's kernels, which the host runs (some seven minutes)
	@SLUICE_EMULATED=all go test ./engine ./engine/internal/statistics -run '^TestOnCUDA$$' -count=1 -timeout 130m

.PHONY: cuda-image-check
cuda-image-check: go ## compile kernels/cuda again and compare with the image that is checked in
	@$(setup) nvcc
	@CGO_ENABLED=0 GOFLAGS= go run ./tools/cudaimage/cmd -check

.PHONY: demo
demo: ## the main job on real documents, from nothing to two answers with their traces
	@started=$$(date +%s); $(MAKE) --no-print-directory build && SLUICE_DEMO_STARTED=$$started sh build/demo.sh

.PHONY: demo-check
demo-check: build ## 20 questions in scope and 20 out of scope: gate and recall
	@sh build/demo.sh check

.PHONY: env
env: ## print the environment for a shell (see build/env.sh)
	@echo "export GOFLAGS='$(GOFLAGS)'"
	@echo "export CGO_CFLAGS='$(CGO_CFLAGS)'"
	@echo "export CGO_CXXFLAGS='$(CGO_CXXFLAGS)'"
	@echo "export CGO_LDFLAGS='$(CGO_LDFLAGS)'"

.PHONY: clean
clean: ## remove what was built in this folder (the cache stays)
	rm -rf bin dist build/out third_party/*/lib third_party/*/include third_party/python embed/stamp/native.digest llm/stamp/native.digest
