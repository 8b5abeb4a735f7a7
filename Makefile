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
# One set of flags for all that calls Go: what one step has compiled, the next one
# finds in Go's cache. What debuggers read is written into no binary (-w), and need
# not be compiled, a tenth of the time. Flags of the user's stay.
FLAGS   := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(FLAGS),$(shell $(GO) env GOFLAGS 2>/dev/null)) $(FLAGS)
LINT     = .tools/bin/golangci-lint
VET      = .tools/bin/vet
# How long the tests of one Go package may take: the longest take a minute, on a
# machine that has nothing else to do.
PATIENCE = 30m

.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: .venv/.stamp ## install what tests and examples need

.venv/.stamp: scripts/setup.sh scripts/requirements.txt scripts/requirements-wheel.txt scripts/requirements-tests.txt
	scripts/setup.sh tests
	@touch $@ .venv/.examples .venv/.wheel

.venv/.bench: .venv/.stamp
	scripts/setup.sh bench
	@touch $@

.venv/.examples: scripts/setup.sh scripts/requirements.txt
	scripts/setup.sh
	@touch $@

.venv/.wheel: scripts/setup.sh scripts/requirements.txt scripts/requirements-wheel.txt
	scripts/setup.sh wheel
	@touch $@ .venv/.examples

# Each of the modules may take several attempts; what fails here is told by the
# build, if it needs it.
bin/.modules: go.mod go.sum
	@mkdir -p bin
	@scripts/retry.sh $(GO) mod download || echo 'modules: not all could be downloaded, the build uses those that are here' >&2
	@touch $@

# What is released, and what `make bench` measures, is built with a profile of the
# server under load: some percent less CPU a request, a minute more to build.
PGO ?= off
wheel bench images release: export PGO = $(CURDIR)/cmd/neso/neso.pgo
# The library has a profile of its own, of what runs in neso-host.
CAPI_PGO = $(if $(filter off,$(PGO)),off,$(CURDIR)/cmd/libtritonserver/libtritonserver.pgo)

build: bin/.modules ## bin/neso, one static-as-can-be binary without cgo
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -pgo=$(PGO) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/neso ./cmd/neso

# The library that C programs link: its headers and what pkg-config reads lie beside it.
CAPI_LINK = -Wl,-soname,libtritonserver.so -Wl,--version-script=$(CURDIR)/cmd/libtritonserver/exports.map
capi: bin/.modules ## build/lib: libtritonserver.so, the server as a C library, and neso-host, with cgo; build/include
	@mkdir -p build/lib/pkgconfig build/include/triton/core
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -pgo=$(CAPI_PGO) -tags '$(TAGS)' -ldflags '$(LDFLAGS) -extldflags "$(CAPI_LINK)"' \
	  -o build/lib/libtritonserver.so ./cmd/libtritonserver
	@rm -f build/lib/libtritonserver.h
	$(CC) -O2 -Wall -Wextra -o build/lib/neso-host.new cmd/neso-host/neso-host.c -ldl
	@mv build/lib/neso-host.new build/lib/neso-host # one may be running
	@install -C -m 644 include/triton/core/*.h build/include/triton/core/
	@install -C -m 644 include/neso.h include/neso.hpp build/include/
	@sed 's|@VERSION@|$(VERSION)|' cmd/libtritonserver/tritonserver.pc.in >build/lib/pkgconfig/tritonserver.pc

java: capi ## java/target: the Java layer over build/lib, with its tests; needs Maven, a JDK of 17 or newer, a C++ compiler
	scripts/java.sh

edge: bin/.modules ## bin/neso-edge: the server without object stores, Redis and OpenTelemetry's protocol
	CGO_ENABLED=0 $(GO) build -pgo=$(PGO) -tags '$(TAGS),edge' -ldflags '$(LDFLAGS)' -o bin/neso-edge ./cmd/neso

windows: bin/.modules ## the program and the Go tests for Windows under Wine; writes the table of docs/operate/windows.md
	scripts/windows.sh

monitoring: ## .tools/monitoring: Prometheus and OpenTelemetry's collector, in which a test runs what deploy has for them; needs Debian's apt
	scripts/monitoring.sh

arm64: bin/.modules ## bin/neso-arm64, and .tools/arm64: an emulator and a Python that test it; needs Debian's apt
	scripts/arm64.sh

# The same commit gives the same digests. UPDATE=1 takes Debian's newest packages.
IMAGE_PLATFORMS = amd64 arm64
images: bin/.modules ## build/images: container images of the server, and with Python, for amd64 and arm64; needs Debian's apt and a Python with pip
	@mkdir -p build/images/programs
	@for a in $(IMAGE_PLATFORMS); do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$a $(GO) build -trimpath -pgo=$(PGO) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' \
	    -o build/images/programs/neso-$$a ./cmd/neso || exit 1; done
	$(GO) run ./internal/cli/image/release -programs build/images/programs -version '$(VERSION)' -architectures '$(shell echo $(IMAGE_PLATFORMS) | tr ' ' ,)' \
	  -python $(firstword $(wildcard $(PYTHON)) python3) -time "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" $(if $(UPDATE),-update)

chart: ## the manifests of deploy, rendered by Helm's code and held against the schemas; rules by promtool where there is one. UPDATE=1 writes the renders anew
	cd tools/chart && CGO_ENABLED=0 $(GO) test -vet=off -ldflags=-w . $(if $(UPDATE),-update)
	@if command -v promtool >/dev/null; then promtool test rules deploy/prometheus/neso.test.yaml; \
	  else echo 'promtool is not there (Debian: prometheus): the alert rules are not tested' >&2; fi

wheel: .venv/.wheel bin/.modules ## dist/*.whl: the Python package with the binary, and the import name pytriton
	$(PYTHON) -m build --no-isolation --wheel --outdir dist python
	$(PYTHON) -m build --no-isolation --wheel --outdir dist python/pytriton-compat

# One machine makes all of it. Version 0.1.0-79-g54416d38 is 0.1.0+79.g54416d38 in packages; without a tag 54416d38 is
# 0.1.0+g54416d38, by the number that the package has, and dev 0.1.0+dev.
NUMBER = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' python/neso/_version.py)
RELEASE_VERSION = $(shell echo '$(VERSION)' | sed -E 's/^([0-9a-f]{7,40})(-dirty)?$$/$(NUMBER)+g\1\2/; s/^dev$$/$(NUMBER)+dev/; s/-([0-9]+)-g/+\1.g/; s/-dirty/.dirty/')
RELEASE_TIME = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
RELEASE_PLATFORMS = linux-amd64 linux-arm64 musl-amd64 musl-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
release: setup build ## dist: archives, wheels, .deb, .rpm, Homebrew and winget recipes of every platform, checksums; signed with NESO_RELEASE_KEY
	@rm -rf dist build/release && mkdir -p dist build/release/programs build/release/texts
	@for s in bash zsh fish; do bin/neso completion $$s >build/release/texts/completion.$$s || exit 1; done
	@bin/neso --help >build/release/texts/help.txt && bin/neso serve --help >build/release/texts/help-serve.txt
	@for p in $(RELEASE_PLATFORMS); do os=$${p%-*} tags='$(TAGS)' suffix= libc=; \
	  case $$os in musl) os=linux tags=$$tags,nopurego libc=musl ;; windows) suffix=.exe ;; esac; \
	  echo "build $$p"; f=build/release/programs/neso-$$p$$suffix; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$${p#*-} $(GO) build -pgo=$(PGO) -tags $$tags -ldflags '$(LDFLAGS)' -o $$f ./cmd/neso && \
	  $(GO) run ./internal/cli/image/sbom -title neso-$$p -time $(RELEASE_TIME) $$f >build/release/texts/$$p.spdx.json && \
	  SOURCE_DATE_EPOCH=$(RELEASE_TIME) NESO_BINARY=$(CURDIR)/$$f NESO_LIBC=$$libc GOOS=$$os GOARCH=$${p#*-} \
	    $(PYTHON) -m build --no-isolation --wheel --outdir dist python || exit 1; done
	SOURCE_DATE_EPOCH=$(RELEASE_TIME) $(PYTHON) -m build --no-isolation --wheel --outdir dist python/pytriton-compat
	cd tools/release && CGO_ENABLED=0 $(GO) build -o ../../build/release/release .
	build/release/release -version '$(RELEASE_VERSION)' -commit "$$(git rev-parse HEAD)" -time $(RELEASE_TIME) \
	  -programs build/release/programs -texts build/release/texts
	$(PYTHON) scripts/release_check.py

serve: .venv/.examples build ## serve examples/models on ports 8000, 8001, 8002
	@echo 'When it is ready, in another terminal: .venv/bin/python examples/client.py'
	@echo '  or: curl -s localhost:8000/v2/models/digits'
	exec bin/neso serve --model-repository=examples/models --cache-config=local,size=67108864 --trace-config=triton,file=/tmp/neso-trace.json

# Without what debuggers read (-w) linking takes half the time, and lint vets. The race
# detector lets each of 130 programs wait a second for others' reports before it ends.
test: setup build ## all tests: Go with the race detector and invariants, Python, end to end
	GORACE=atexit_sleep_ms=50 $(GO) test -race -vet=off -ldflags=-w -timeout $(PATIENCE) -tags invariants ./...
	$(PYTHON) -m pytest -q -rs python/tests bench/tests
	$(PYTHON) -m pytest -q -rs python/tests_neso
	$(MAKE) --no-print-directory e2e

test-nocgo: bin/.modules ## all Go tests as users build: no cgo, no invariants
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' -ldflags=-w -timeout $(PATIENCE) ./...

test-differing: bin/.modules ## the Go tests of what differs without cgo, race detector and invariants, as users build
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS)' -ldflags=-w -timeout $(PATIENCE) $$(scripts/differing.sh)
	CGO_ENABLED=0 $(GO) test -vet=off -tags '$(TAGS),edge' -ldflags=-w -run LeftOut ./internal/repository ./internal/responsecache ./internal/tracing

test-frameworks: build ## PyTorch, TensorFlow and scikit-learn models with the real libraries (7 GB in .venv-frameworks)
	scripts/frameworks.sh $(FRAMEWORKS)

gpu-bundle: setup build ## build/gpu: the binary and clients that make gpu-check takes on a machine with neither Go nor a network
	scripts/gpu-bundle.sh

gpu-check: ## the tests that need an NVIDIA GPU; fails where there is none
	scripts/gpu-check.sh

minilm: ## build/minilm: a model repository of a sentence encoder, exported from PyTorch
	scripts/frameworks.sh -- examples/export_minilm.py --out=build/minilm

pythons: setup build ## the Python package on every Python found here, syntax and types on 3.9 to 3.14
	scripts/pythons.sh

e2e: setup build capi ## the built binary under the official clients
	scripts/e2e.sh

bin/cluster: $(wildcard tools/cluster/*.go) tools/cluster/go.mod
	@mkdir -p bin
	cd tools/cluster && CGO_ENABLED=0 $(GO) build -o ../../bin/cluster .

.PHONY: cluster-up cluster-down e2e-cluster
cluster-up: bin/cluster ## a real Kubernetes of two nodes on this machine (docs/internals/cluster.md); needs root and, once, twenty minutes; IPV6=1: of IPv6 alone
	bin/cluster up $(if $(IPV6),--ipv6)

cluster-down: bin/cluster ## end it
	bin/cluster down

# The official clients as the tests have them, for the pod that sends the load: made here, since a cluster's network has no registry.
build/images/clients.tar: .venv/.stamp
	$(PYTHON) -m pip freeze | grep -E '^(tritonclient|grpcio|gevent|geventhttpclient)==' >build/images/clients.txt
	sed -n 's/^tritonclient==/tritonclient[http,grpc]==/p' build/images/clients.txt >build/images/clients-extras.txt
	cat build/images/clients-extras.txt >>build/images/clients.txt
	bin/neso image build --base build/images/neso-python-amd64.tar -f build/images/clients.txt --python $(PYTHON) -t docker.io/neso/clients:here -o $@

# What the tests of KServe need: its programs, an image with its storage initializer, one with the libraries of frameworks, its Python client.
# build/images/kserve-tensorflow.tar and kserve-torch.tar, 2 and 10 GB on each node, are made by their names.
.PHONY: kserve
kserve: bin/cluster build build/images/kserve-storage.tar build/images/kserve-frameworks.tar build/kserve/.stamp ## KServe for make e2e-cluster; ten minutes, once
	bin/cluster kserve

# What test_custom_metrics.py needs: Prometheus, its adapter for Kubernetes' autoscaler, KEDA.
.PHONY: scalers
scalers: bin/cluster ## autoscalers by metrics for make e2e-cluster; up to an hour of one processor, once
	bin/cluster scalers

build/images/kserve-%.tar: e2e/cluster/images/%.txt .venv/.stamp $(wildcard build/images/neso-python-amd64.tar)
	bin/neso image build --base build/images/neso-python-amd64.tar -f $< --python $(PYTHON) -t docker.io/neso/$*:here -o $@

build/kserve/.stamp:
	python3 -m venv build/kserve
	scripts/retry.sh build/kserve/bin/python -m pip install --quiet --disable-pip-version-check kserve==0.21.0
	@touch $@

# NESO_FULL=1 has the bucket gone for five minutes.
e2e-cluster: setup build cluster-up build/images/clients.tar ## the chart on that cluster, under load, into bench/CLUSTER.md; TESTS=NAME runs some; needs make images
	NESO_CLUSTER_REPORT=$(CURDIR)/bench/CLUSTER.md bin/cluster client $(PYTHON) -m pytest -q e2e/cluster $(if $(TESTS),-k '$(TESTS)')

PY_DIRS = backend bench e2e examples python scripts

lint: $(LINT) ## golangci-lint, go vet for every platform, ruff
	@# Without -trimpath: with it, Go's cache gives one checkout what cgo wrote in
	@# another, with the paths of that one, and the linter opens them.
	GOFLAGS='$(filter-out -trimpath,$(GOFLAGS))' $(LINT) run ./...
	$(MAKE) --no-print-directory cross
	@if [ -x .venv/bin/ruff ]; then .venv/bin/ruff check $(PY_DIRS) && .venv/bin/ruff format --check -q $(PY_DIRS); fi
	@if [ -x .venv/bin/mypy ]; then cd python && ../.venv/bin/mypy; fi
	scripts/web.sh check

$(LINT): tools/go.mod
	@mkdir -p .tools/bin
	@cd tools && ../scripts/retry.sh $(GO) mod download || true
	cd tools && CGO_ENABLED=0 $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

vuln: .tools/bin/govulncheck ## known vulnerabilities in what the code calls; says so when the database cannot be reached
	scripts/vuln.sh

.tools/bin/govulncheck: tools/go.mod
	@mkdir -p .tools/bin
	@cd tools && ../scripts/retry.sh $(GO) mod download || true
	cd tools && CGO_ENABLED=0 $(GO) build -o ../.tools/bin/govulncheck golang.org/x/vuln/cmd/govulncheck

PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# Every platform is vetted, with the tests; then one of each system that is not this one
# is built, so that it links. Nobody runs these: without the optimizer the libraries compile in half the
# time. `make cross BUILT='windows/arm64'` builds others.
BUILT = darwin/arm64 windows/amd64

cross: $(VET) ## vet for every platform, build for one of each system
	cd tools && CGO_ENABLED=0 $(GO) test ./vet
	cd tools/release && CGO_ENABLED=0 $(GO) vet . && CGO_ENABLED=0 $(GO) test .
	$(VET) -tags '$(TAGS)' $(PLATFORMS)
	$(VET) -tags '$(TAGS),edge' linux/arm64
	@for p in $(BUILT); do echo "build $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -tags '$(TAGS)' -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w' \
	    -o /dev/null ./cmd/neso || exit 1; done

$(VET): tools/go.mod $(wildcard tools/vet/*.go)
	@mkdir -p .tools/bin
	@cd tools && ../scripts/retry.sh $(GO) mod download || true
	cd tools && CGO_ENABLED=0 $(GO) build -o ../$(VET) ./vet

fmt: $(LINT) ## format Go and Python
	$(LINT) fmt ./...
	.venv/bin/ruff format -q $(PY_DIRS)

web: ## internal/dashboard/assets, the dashboard, from web/; needs Node.js with npm
	scripts/web.sh build

generate: ## protobuf code; needs protoc (Debian: protobuf-compiler)
	proto/generate.sh

FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz.sh $(FUZZTIME)

bench-adaptive: setup build ## bench/ADAPTIVE.md: latency objectives against fixed batching, in simulated time and on real servers; some 15 minutes
	$(GO) test -count=1 ./internal/scheduler/dynamic -run TestObjectiveAgainstFixedSettings -report $(CURDIR)/bench/ADAPTIVE.md
	$(PYTHON) bench/operate/adaptive.py

bench: .venv/.bench build capi ## compare with the real Triton in the same run; writes bench/RESULTS.md
	$(PYTHON) bench/compare.py

profile: .venv/.bench capi ## cmd/neso/neso.pgo and cmd/libtritonserver/libtritonserver.pgo, made anew from the load of make bench
	scripts/profile.sh

bench-bound: .venv/.bench build ## bound callables against PyTriton; writes bench/BOUND.md
	$(PYTHON) bench/callables.py

bench-on-demand: setup build ## 1,000 models of which 50 fit, what a request waits for one, a model that is in; writes bench/ON_DEMAND.md; some 8 minutes
	$(PYTHON) bench/operate/on_demand.py all

bench-scale: setup build ## 1,000 models, 10,000 connections, a bucket for a fleet; writes bench/SCALE.md
	$(PYTHON) bench/operate/scale.py

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

.PHONY: help setup build capi java images chart wheel serve test test-nocgo test-differing test-frameworks minilm pythons e2e lint cross vuln fmt web generate fuzz bench bench-bound bench-adaptive bench-on-demand bench-scale soak overload differential conformance check clean edge arm64 monitoring windows release gpu-check gpu-bundle
