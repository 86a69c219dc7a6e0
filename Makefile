# allium. `make help` lists the targets. Go, make and git are enough.

SHELL       := /bin/bash
GO          ?= go
# Without a tag it is empty, and the binary says the next version with -dev (node/version.go).
VERSION     ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE        ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
MODIFIED    ?= $(shell test -z "$$(git status --porcelain 2>/dev/null)" || echo true)
LDFLAGS     := -s -w -X allium/node.version=$(VERSION) -X allium/node.commit=$(COMMIT) \
  -X allium/node.date=$(DATE) -X allium/node.modified=$(MODIFIED)
TOOLS       := bin/tools
# Binary, tests, lint and checks compile alike, so that each package is compiled once, for all clones: -trimpath takes
# the directory out of what go's cache compares.
export CGO_ENABLED ?= 0
# Compiler and linker collect their garbage less often: a sixth less CPU, for 65 MB more each. What they write is the same.
GOFLAGS     := -trimpath '-toolexec=env GOGC=400' $(filter-out -trimpath '-toolexec=env GOGC=400',$(shell $(GO) env GOFLAGS))
export GOFLAGS
FUZZTIME    ?= 5s
SOAK        ?= 30m
# The longest tests wait for nodes, and leave most of two cores idle. `make lint` vets.
PARALLEL    ?= -p 3 -parallel 4
# Of one package. On a busy machine the longest take more than go's ten minutes.
TESTTIMEOUT ?= 30m
BENCHTIME   ?= 1s
BENCHCOUNT  ?= 3
# The packages whose tests take longest, first: one that begins last leaves a core without work.
LONGTEST    := ./node ./gateway ./cmd/allium ./store ./testnet . ./gateway/fill/model ./store/cluster/plan/model
LONGRACE    := ./store ./node ./store/cluster/upkeep ./gateway ./protocols/dht ./resolver ./node/p2p ./protocols/hints
# Packages of one goroutine: no file of them starts one, or has a channel, a lock or an atomic value, so the race
# detector finds nothing there. Where others call them, it looks at them too.
ONEROUTINE  := gateway/content/markdown gateway/fill/model gateway/verified/bundle node/files/archive node/reload/model \
  protocols/delimited protocols/dht/messages protocols/dht/model protocols/erasure protocols/manifest protocols/record \
  protocols/session/model protocols/status protocols/ticket resolver/model resolver/schedule store/cluster/offer \
  store/cluster/plan store/cluster/plan/model store/cluster/wire store/disk/segment/codec
# Packages where goroutines meet; the race detector pays for itself there. The simulations of testnet have one goroutine.
RACE         = $(LONGRACE) $(filter-out $(addprefix allium/,$(ONEROUTINE)),$(shell $(GO) list ./internal/... \
  ./protocols/... ./store/... ./resolver/... ./gateway/... ./node/... ./testnet ./testnet/script))

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/allium, one static binary
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/allium ./cmd/allium

.PHONY: test
test: ## Run every test that needs nothing but Go
	$(GO) test $(PARALLEL) -vet=off -timeout $(TESTTIMEOUT) $(LONGTEST) ./...

# By default the detector sleeps a second at the end of every process.
.PHONY: race
race: ## Run the race detector where goroutines meet
	@bad=$$(grep -nE '^\s*go |\.Go\(|\bchan\b|^import "sync|"sync"|"sync/atomic"|"testing/synctest"' \
	  $$(printf '%s/*.go ' $(ONEROUTINE)) | grep -v ':\s*//'); \
	  if [ -n "$$bad" ]; then echo "race: the package has left ONEROUTINE:"; echo "$$bad"; exit 1; fi
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(GO) test $(PARALLEL) -race -short -vet=off -timeout $(TESTTIMEOUT) $(RACE)

# With bench in one workspace its packages find what was already said about the product's.
.PHONY: lint
lint: $(TOOLS)/golangci-lint vuln lockcheck ## Vet, lint and look for known vulnerabilities
	@printf '%s\n\nuse (\n\t$(CURDIR)\n\t$(CURDIR)/bench\n)\n' "$$(grep '^go ' go.mod)" >$(TOOLS)/go.work
	GOWORK=$(CURDIR)/$(TOOLS)/go.work GOGC=400 $(TOOLS)/golangci-lint run ./... ./bench/...
	@cd tools/depguard && bad=$$(find . -name bad.go | wc -l) && \
	  found=$$(../../$(TOOLS)/golangci-lint run --config ../../.golangci.yml --enable-only depguard ./... | grep -c 'bad.go.*(depguard)'); \
	  echo "depguard finds $$found of $$bad forbidden imports in tools/depguard"; [ "$$found" -eq "$$bad" ]

.PHONY: lockcheck
lockcheck: ## Prove what happens under locks and their order, and the check itself on mistakes
	cd tools && $(GO) test -count 1 ./lockcheck

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## Look for known vulnerabilities in what the binary calls
	@out=$$($(TOOLS)/govulncheck ./cmd/allium 2>&1); code=$$?; echo "$$out"; \
	  if [ $$code -eq 1 ] && echo "$$out" | grep -q '^govulncheck: fetching vulnerabilities'; then \
	    echo "vuln: not checked, as the database of vulnerabilities cannot be reached"; else exit $$code; fi

.PHONY: fuzz-smoke
fuzz-smoke: ## Run every fuzz target for FUZZTIME (5s), two at a time
	FUZZTIME=$(FUZZTIME) $(GO) test -p 2 -count 1 -vet=off -gcflags 'allium/...=-d=libfuzzer' -exec $(CURDIR)/tools/fuzz.sh \
	  $$(grep -rl --include='*_test.go' '^func Fuzz' cmd gateway internal node protocols resolver store testnet | xargs -n 1 dirname | \
	  sort -u | sed 's|^|./|')

.PHONY: bench
bench: build ## Run benchmarks, simulations, the reference pipe and 25 crash rounds
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) ./internal/... ./protocols/... ./store/... ./resolver/... ./gateway/... ./testnet/...
	ALLIUM_CRASH_ROUNDS=25 $(GO) test -run 'Crash' -count 1 -v ./store/
	ALLIUM_SIM_HOSTS=200 $(GO) test -run 'TestHedging|TestReadyInALargeNetwork|TestSybils' -count 1 -timeout 60m -v ./protocols/dht/
	ALLIUM_SIM_HOSTS=200 $(GO) test -run TestManyNodes -count 1 -timeout 60m -v ./store/cluster/plan/
	$(GO) run -C bench . -allium ../bin/allium

.PHONY: soak
soak: build ## Work on three nodes for SOAK (30m) with reloads and restarts, and say what grows
	$(GO) run -C bench ./operate -allium ../bin/allium -only soak -hold $(SOAK)

.PHONY: torture
torture: ## Damage every byte that may be damaged, and crash 1,000 times (an hour or more)
	ALLIUM_TORTURE=1 ALLIUM_CRASH_ROUNDS=1000 $(GO) test -count 1 -timeout 6h -v -run 'Torture|Crash|Damage|Replay' ./store/... ./node/... ./gateway/... ./protocols/capability/...

.PHONY: docs
docs: $(TOOLS)/lockcheck ## Write docs/reference, and the hash kernel, from their sources
	$(GO) test ./gateway/openapi -run Comments -update
	$(GO) test ./gateway/console -run Types -update
	$(GO) run ./cmd/allium docs docs/reference
	$(TOOLS)/lockcheck -table docs/reference/locks.md ./...
	$(GO) generate ./protocols/b3

.PHONY: web
web: $(TOOLS)/webbundle ## Bundle the scripts of the pages that draw packs, of the console, and of the page that proves
	$(TOOLS)/webbundle -modules $(MODULES) -out gateway/pack/viewer/assets viewer.js=gateway/pack/viewer/script/main.js \
	  worker.js=$(MODULES)/maplibre-gl/dist/maplibre-gl-csp-worker.js maplibre-licence.txt=$(MODULES)/maplibre-gl/LICENSE.txt
	$(TOOLS)/webbundle -modules $(MODULES) -out gateway/console/assets console.js=gateway/console/script/main.tsx \
	  preact-licence.txt=$(MODULES)/preact/LICENSE
	$(TOOLS)/webbundle -modules $(MODULES) -out gateway/proof/assets page.js=gateway/proof/script/main.ts \
	  worker.js=gateway/proof/script/worker.ts save.js=gateway/proof/script/save.ts \
	  verify.mjs=gateway/proof/script/verify.ts

.PHONY: docs-check
docs-check: kernel-check $(TOOLS)/lockcheck ## Fail when what is generated differs from its source
	$(GO) run ./cmd/allium docs docs/reference --check
	$(TOOLS)/lockcheck -table docs/reference/locks.md -check ./...

# The rest of docs-check stands in `make ci` without it: TestReferenceIsUpToDate of `make test`, and TestTree of lockcheck.
.PHONY: kernel-check
kernel-check: ## Fail when the hash kernel differs from its source
	$(GO) generate ./protocols/b3 && git diff --exit-code -- protocols/b3

.PHONY: tidy-check
tidy-check: ## Fail when go.mod or go.sum are not tidy
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/versitygw && $(GO) mod tidy -diff
	cd tools/h2spec && $(GO) mod tidy -diff
	cd tools/acmetest && $(GO) mod tidy -diff
	cd tools/gopmtiles && $(GO) mod tidy -diff
	cd tools/webbundle && $(GO) mod tidy -diff
	cd tools/nfpm && $(GO) mod tidy -diff
	cd tools/sbom && $(GO) mod tidy -diff
	cd tools/image && $(GO) mod tidy -diff

.PHONY: testnet
testnet: build ## Start a local network of 5 nodes, add a tree on one, fetch it on another
	bin/allium testnet up $(TESTNET_FLAGS)

.PHONY: ci
ci: ## What CI runs
	$(MAKE) test
	$(MAKE) ci-rest

# Tests that wait leave some of two cores idle: lint and packages take that, and are heard when the race detector is done.
.PHONY: ci-rest
ci-rest:
	@mkdir -p bin; nice -n 10 $(MAKE) lint tidy-check package-check >bin/beside.log 2>&1 & \
	  beside=$$!; trap 'kill $$beside 2>/dev/null' EXIT; code=0; \
	  $(MAKE) race || code=$$?; wait $$beside || code=$$?; cat bin/beside.log; exit $$code
	$(MAKE) fuzz-smoke FUZZTIME=1s
	$(MAKE) kernel-check
	$(MAKE) testnet TESTNET_FLAGS='--exit'

RELEASE := $(TOOLS)/nfpm $(TOOLS)/cyclonedx-gomod $(TOOLS)/image
# The tag of the commit. A release has one, and DIRTY=1 tries without.
TAG     ?= $(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null)
EPOCH    = $(shell git log -1 --format=%ct)

.PHONY: release
release: $(RELEASE) ## Write archives, packages, image, SBOM and checksums of a tag to dist/
	@if [ -z "$(DIRTY)" ] && { [ -z "$(TAG)" ] || [ -n "$(MODIFIED)" ]; }; then \
	  echo "release: the commit has no tag such as v0.1.0, or files differ from it: commit and tag them (DIRTY=1 to try)"; \
	  exit 1; fi
	rm -rf dist
	VERSION=$(or $(TAG),$$(sed -n 's/^const Release = "\(.*\)"/\1/p' node/version.go)-dev) COMMIT=$(COMMIT) EPOCH=$(EPOCH) \
	  MODIFIED=$(MODIFIED) URL=$(URL) packaging/release.sh dist

.PHONY: package-check
package-check: $(RELEASE) build ## Build packages twice, compare them, and install one below a directory
	COMMIT=$(COMMIT) EPOCH=$(EPOCH) packaging/check.sh bin/allium

.PHONY: clean
clean: ## Remove bin/ and dist/
	rm -rf bin dist

$(TOOLS)/golangci-lint: tools/go.mod
	cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(TOOLS)/govulncheck: tools/go.mod
	cd tools && $(GO) build -o ../$@ golang.org/x/vuln/cmd/govulncheck

$(TOOLS)/lockcheck: tools/go.mod $(wildcard tools/lockcheck/*.go)
	cd tools && $(GO) build -o ../$@ ./lockcheck

$(TOOLS)/benchstat: tools/go.mod
	cd tools && $(GO) build -o ../$@ golang.org/x/perf/cmd/benchstat

# The S3 server of the tests, in a module of its own.
$(TOOLS)/versitygw: tools/versitygw/go.mod
	cd tools/versitygw && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/versity/versitygw/cmd/versitygw

# The HTTP/2 suite and the ACME authority of the tests, each in a module of its own.
$(TOOLS)/h2spec: tools/h2spec/go.mod
	cd tools/h2spec && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/summerwind/h2spec/cmd/h2spec

$(TOOLS)/acmetest: tools/acmetest/go.mod
	cd tools/acmetest && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/letsencrypt/pebble/v2/cmd/pebble

# The accessibility rules of the browser tests. They are one script: npm gets it, and package-lock.json has its digest.
$(TOOLS)/axe.min.js: tools/axe/package-lock.json
	npm ci --prefix tools/axe --ignore-scripts --no-audit --no-fund --silent
	mkdir -p $(TOOLS) && cp tools/axe/node_modules/axe-core/axe.min.js $@

# The client of resumable uploads that a test runs: npm gets it, and package-lock.json has its digests.
$(TOOLS)/tus: tools/tus/package-lock.json
	npm ci --prefix tools/tus --ignore-scripts --no-audit --no-fund --silent
	mkdir -p $(TOOLS) && touch $@

# The compiler for the second reader of bundles: npm gets it, and package-lock.json has its digest.
$(TOOLS)/bundle: tools/bundle/package-lock.json
	npm ci --prefix tools/bundle --ignore-scripts --no-audit --no-fund --silent
	mkdir -p $(TOOLS) && touch $@

# What builds a website that a browser test opens: npm gets it, and package-lock.json has its digests.
$(TOOLS)/vite: tools/vite/package-lock.json
	npm ci --prefix tools/vite --ignore-scripts --no-audit --no-fund --silent
	mkdir -p $(TOOLS) && touch $@

# Two other readers of PMTiles archives, with which tests compare ours: that of browsers, and the authors' in Go.
$(TOOLS)/pmtiles: tools/pmtiles/package-lock.json
	npm ci --prefix tools/pmtiles --ignore-scripts --no-audit --no-fund --silent
	mkdir -p $(TOOLS) && touch $@

$(TOOLS)/go-pmtiles: tools/gopmtiles/go.mod
	cd tools/gopmtiles && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/protomaps/go-pmtiles

# The generators of clients: npm gets those for TypeScript, and package-lock.json has their digests.
$(TOOLS)/clients: tools/clients/package-lock.json tools/clients/go/go.mod
	npm ci --prefix tools/clients --ignore-scripts --no-audit --no-fund --silent
	cd tools/clients/go && $(GO) mod download && $(GO) tool oapi-codegen -version
	mkdir -p $(TOOLS) && touch $@

# What bundles the library that draws packs, in a module of its own: npm gets that, and package-lock.json has its digest.
$(TOOLS)/mapbundle: tools/mapbundle/main.go tools/mapbundle/go.mod tools/mapbundle/package-lock.json
	npm ci --prefix tools/mapbundle --ignore-scripts --no-audit --no-fund --silent
	cd tools/mapbundle && $(GO) build -ldflags '-s -w' -o ../../$@ .
# What bundles the scripts of pages, in a module of its own: npm gets what they import, and package-lock.json has its
# digests.
MODULES := tools/webbundle/node_modules
$(TOOLS)/webbundle: tools/webbundle/main.go tools/webbundle/go.mod tools/webbundle/package-lock.json
	npm ci --prefix tools/webbundle --ignore-scripts --no-audit --no-fund --silent
	cd tools/webbundle && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o ../../$@ .

# What makes packages, lists of modules and images, each in a module of its own.
$(TOOLS)/nfpm: tools/nfpm/go.mod
	cd tools/nfpm && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

$(TOOLS)/cyclonedx-gomod: tools/sbom/go.mod
	cd tools/sbom && $(GO) build -ldflags '-s -w' -o ../../$@ \
	  github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(TOOLS)/image: tools/image/go.mod tools/image/main.go
	cd tools/image && $(GO) build -ldflags '-s -w' -o ../../$@ .
