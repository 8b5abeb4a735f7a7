# Two commands are enough: `make serve` and `make test`. Both set up what they
# need, `make serve` little of it: a virtual environment in .venv and, when run as
# root on Debian, the packages in scripts/setup.sh.

GO      ?= go
# 0.1.0 at the tag v0.1.0, 0.1.0-12-g1a2b3c4 twelve commits later, `dev` without git.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null | sed 's/^v//' | grep . || echo dev)
LDFLAGS  = -s -w -X github.com/nesoserve/neso/internal/engine.Version=$(VERSION)
# gRPC without golang.org/x/net/trace, whose html/template calls methods by name:
# with it the linker keeps every method of every type, 10 MB of them.
TAGS     = grpcnotrace
PYTHON   = .venv/bin/python
LINT     = .tools/bin/golangci-lint
# How long the tests of one Go package may take: the longest take a minute, on a
# machine that has nothing else to do.
PATIENCE = 30m

.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: .venv/.stamp ## install what tests and examples need

.venv/.stamp: scripts/setup.sh scripts/requirements.txt scripts/requirements-tests.txt
	scripts/setup.sh tests
	@touch $@ .venv/.examples

.venv/.examples: scripts/setup.sh scripts/requirements.txt
	scripts/setup.sh
	@touch $@

# Each of the modules may take several attempts; what fails here is told by the
# build, if it needs it.
bin/.modules: go.mod go.sum
	@mkdir -p bin
	@scripts/retry.sh $(GO) mod download || echo 'modules: not all could be downloaded, the build uses those that are here' >&2
	@touch $@

# What is released, and what `make bench` measures, is built with a profile of the
# server under load: some percent less CPU a request, a minute more to build.
PGO ?= off
wheel bench: export PGO = $(CURDIR)/cmd/neso/neso.pgo

build: bin/.modules ## bin/neso, one static-as-can-be binary without cgo
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -pgo=$(PGO) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/neso ./cmd/neso

# The library that C programs link: its headers and what pkg-config reads lie beside it.
CAPI_LINK = -Wl,-soname,libtritonserver.so -Wl,--version-script=$(CURDIR)/cmd/libtritonserver/exports.map
capi: bin/.modules ## build/lib: libtritonserver.so, the server as a C library, and neso-host, with cgo; build/include
	@mkdir -p build/lib/pkgconfig build/include/triton/core
	CGO_ENABLED=1 $(GO) build -trimpath -buildmode=c-shared -tags '$(TAGS)' -ldflags '$(LDFLAGS) -extldflags "$(CAPI_LINK)"' \
	  -o build/lib/libtritonserver.so ./cmd/libtritonserver
	@rm -f build/lib/libtritonserver.h
	$(CC) -O2 -Wall -Wextra -o build/lib/neso-host cmd/neso-host/neso-host.c -ldl
	@cp include/triton/core/*.h build/include/triton/core/
	@cp include/neso.hpp build/include/
	@sed 's|@VERSION@|$(VERSION)|' cmd/libtritonserver/tritonserver.pc.in >build/lib/pkgconfig/tritonserver.pc

wheel: setup ## dist/*.whl: the Python package with the binary, and the import name pytriton
	$(PYTHON) -m build --no-isolation --wheel --outdir dist python
	$(PYTHON) -m build --no-isolation --wheel --outdir dist python/pytriton-compat

serve: .venv/.examples build ## serve examples/models on ports 8000, 8001, 8002
	@echo 'When it is ready, in another terminal: .venv/bin/python examples/client.py'
	@echo '  or: curl -s localhost:8000/v2/models/digits'
	exec bin/neso serve --model-repository=examples/models --cache-config=local,size=67108864 --trace-config=triton,file=/tmp/neso-trace.json

# Without what debuggers read (-w) linking takes half the time, and lint vets.
test: setup build ## all tests: Go with the race detector and invariants, Python, end to end
	$(GO) test -race -vet=off -ldflags=-w -timeout $(PATIENCE) -tags invariants ./...
	$(PYTHON) -m pytest -q python/tests bench/tests
	$(PYTHON) -m pytest -q python/tests_neso
	$(MAKE) --no-print-directory e2e

test-nocgo: bin/.modules ## the Go tests as users build: no cgo, no invariants
	CGO_ENABLED=0 $(GO) test -vet=off -ldflags=-w -timeout $(PATIENCE) ./...

test-frameworks: build ## PyTorch, TensorFlow and scikit-learn models with the real libraries (7 GB in .venv-frameworks)
	scripts/frameworks.sh $(FRAMEWORKS)

minilm: ## build/minilm: a model repository of a sentence encoder, exported from PyTorch
	scripts/frameworks.sh -- examples/export_minilm.py --out=build/minilm

pythons: setup build ## the Python package on every Python found here, syntax and types on 3.9 to 3.14
	scripts/pythons.sh

e2e: setup build capi ## the built binary under the official clients
	scripts/e2e.sh

PY_DIRS = backend bench e2e examples python scripts

lint: $(LINT) ## golangci-lint, go vet for every platform, ruff
	$(LINT) run ./...
	$(MAKE) --no-print-directory cross
	@if [ -x .venv/bin/ruff ]; then .venv/bin/ruff check $(PY_DIRS) && .venv/bin/ruff format --check -q $(PY_DIRS); fi
	@if [ -x .venv/bin/mypy ]; then cd python && ../.venv/bin/mypy; fi

$(LINT): tools/go.mod
	@mkdir -p .tools/bin
	@cd tools && ../scripts/retry.sh $(GO) mod download || true
	cd tools && $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

vuln: .tools/bin/govulncheck ## known vulnerabilities in what the code calls; says so when the database cannot be reached
	scripts/vuln.sh

.tools/bin/govulncheck: tools/go.mod
	@mkdir -p .tools/bin
	@cd tools && ../scripts/retry.sh $(GO) mod download || true
	cd tools && $(GO) build -o ../.tools/bin/govulncheck golang.org/x/vuln/cmd/govulncheck

PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

cross: ## build and vet for every platform
	@for p in $(PLATFORMS); do echo "vet $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./... || exit 1; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -tags '$(TAGS)' -o /dev/null ./cmd/neso || exit 1; done

fmt: $(LINT) ## format Go and Python
	$(LINT) fmt ./...
	.venv/bin/ruff format -q $(PY_DIRS)

generate: ## protobuf code; needs protoc (Debian: protobuf-compiler)
	proto/generate.sh

FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz.sh $(FUZZTIME)

bench: setup build ## compare with the real Triton in the same run; writes bench/RESULTS.md
	$(PYTHON) bench/compare.py

profile: setup ## cmd/neso/neso.pgo, made anew from the load of make bench
	scripts/profile.sh

bench-bound: setup build ## bound callables against PyTriton; writes bench/BOUND.md
	$(PYTHON) bench/callables.py

SOAK_MINUTES ?= 10
soak: setup build ## load, unload, cancel, stream and kill for SOAK_MINUTES; nothing may grow, every request is answered
	$(PYTHON) bench/operate/soak.py --minutes $(SOAK_MINUTES)

overload: setup build ## ten times the requests that a model can execute: latency of the accepted ones, memory
	$(PYTHON) bench/operate/overload.py

SEEDS ?= 20
differential: setup build ## SEEDS new programs on the real Triton and on Neso: answers, what models saw, counters
	$(PYTHON) e2e/differential --seeds=$(SEEDS)
	$(PYTHON) e2e/differential --seeds=$(SEEDS) --bound

conformance: setup build capi ## suites that hold on the real peers, if they lie beside the checkout
	scripts/conformance.sh

check: ## exactly what CI runs; the tree must be at the end as it was
	scripts/check.sh

clean: ## remove what was built
	rm -rf bin build dist .tools .venv .venv-frameworks

.PHONY: help setup build capi wheel serve test test-nocgo test-frameworks minilm pythons e2e lint cross vuln fmt generate fuzz bench bench-bound soak overload differential conformance check clean
