# The names people guess. CI runs .ci/run, which runs `make test` and little else.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
BIN      := bin
# Tools and end-to-end tests are modules of their own, so that the product does not come to need what they need.
MODULES  := . tools integration
# Build tags, as TAGS=nognet or GOFLAGS=-tags=nognet; `with` adds more of them for one command.
TAGS     ?= $(patsubst -tags=%,%,$(filter -tags=%,$(shell $(GO) env GOFLAGS)))
comma    := ,
space    := $() $()
with      = -tags=$(subst $(space),$(comma),$(strip $(TAGS) $(1)))
# All but the race detector does without C, so that what is built for one is there for the others.
export CGO_ENABLED := 0
# The race detector needs a C compiler; without one the tests run without it, and say so.
RACE     := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
RACED    := $(RACE) -shuffle=on -timeout 30m
WITH_C   := CGO_ENABLED=$(if $(RACE),1,0)
# Where several goroutines meet: the packages that use package sync, or whose tests do.
CONCURRENT := {{range .Imports}}{{if eq . "sync" "sync/atomic"}}{{$$.ImportPath}}{{"\n"}}{{end}}{{end}}$\
              {{range .XTestImports}}{{if eq . "sync" "sync/atomic"}}{{$$.ImportPath}}{{"\n"}}{{end}}{{end}}$\
              {{range .TestImports}}{{if eq . "sync" "sync/atomic"}}{{$$.ImportPath}}{{"\n"}}{{end}}{{end}}
# Tests wait as much as they work, so more of them run at once than there are processors.
WAITING  := -p 4 -parallel 8
CROSS    := darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
FUZZTIME ?= 25s
# Programs the tests and the benchmark need beside Go, each with its Debian package; a path may be a pattern.
PROGRAMS := redis-server=redis-server redis-benchmark=redis-tools tshark=tshark chromium=chromium curl=curl openssl=openssl \
            mariadbd=mariadb-server /usr/lib/postgresql/*/bin/postgres=postgresql
# What the server is seen to do for profile.pgo, from which the compiler learns what is hot.
PROFILED := get,path,push,kvget,kvput,kvwatch,httpput,httpget,httpsse
PROFILES := /tmp/confcenter-profile

.DEFAULT_GOAL := help
.PHONY: help packages modules modules-test build run check test soak soak-race soak-kills soak-siege soak-fuzz race cross bench profile fmt fmt-check vet clean FORCE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(BIN)/confcenter $(BIN)/ccdump ## build bin/confcenter and bin/ccdump as they are shipped, each one static binary

modules:
	@GO='$(GO)' sh scripts/modules.sh . ./cmd/confcenter
	@GO='$(GO)' sh scripts/modules.sh tools ./ccdump

modules-test:
	@for module in $(MODULES); do GO='$(GO)' sh scripts/modules.sh $$module -test ./... || exit; done

$(BIN)/confcenter: FORCE | modules
	$(GO) build -trimpath $(call with) -pgo=cmd/confcenter/profile.pgo -ldflags '$(LDFLAGS)' -o $@ ./cmd/confcenter

$(BIN)/ccdump: FORCE | modules
	$(GO) build -C tools -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ ./ccdump

$(BIN)/ccload: FORCE | modules
	$(GO) build -C tools -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$@ ./ccload

# As it takes the least time to build; what is compiled for it is there for the tests, too.
run: ## build a server in the shortest time, without SQLite, and serve the sample ./conf on 127.0.0.1:4800
	@GO='$(GO)' sh scripts/modules.sh . $(call with,nosqlite) ./cmd/confcenter
	@echo 'building $(BIN)/confcenter, which takes some minutes the first time; then it serves ./conf'
	$(GO) build $(call with,nosqlite) -ldflags '$(LDFLAGS)' -o $(BIN)/confcenter ./cmd/confcenter
	exec $(BIN)/confcenter serve --listen 127.0.0.1:4800 --conf ./conf --data ./data

packages: ## install what tests and benchmarks need beside Go, from Debian's packages
	@sh scripts/packages.sh $(PROGRAMS)

check: modules-test fmt-check vet ## a quick look, which needs Go alone: format, vet, and the tests of all packages
	$(GO) test $(WAITING) ./...
	$(GO) test -C tools $(WAITING) ./...

test: check packages race ## everything that must hold before a change lands
	$(GO) test -C integration -shuffle=on -count 1 -timeout 15m ./...

# Not optimized, as nothing is run, and without SQLite, which takes longer than all else.
cross: ## compile the Go client and the command for macOS and Windows
	for system in $(CROSS); do GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -gcflags='all=-N -l' $(call with,nosqlite) \
		./client ./clienttest ./cmd/confcenter || exit; done

race:
ifeq ($(RACE)$(CI),true)
	@echo 'error: the race detector needs a C compiler, which CI must have'; exit 1
endif
ifeq ($(RACE),)
	@echo 'note: no C compiler found, so the tests run without the race detector'
endif
	for module in . tools; do $(WITH_C) $(GO) test -C $$module $(RACED) $(WAITING) $(call with,nosqlite) \
		$$($(GO) list -C $$module -f '$(CONCURRENT)' ./... | sort -u) || exit; done

soak: soak-race soak-kills soak-siege soak-fuzz ## all tests there are, in full; each of the four parts runs alone, too

soak-race: modules-test packages ## all tests with the race detector
	$(WITH_C) sh scripts/counted.sh $(GO) test $(RACED) $(call with,soak) ./...
	$(WITH_C) sh scripts/counted.sh $(GO) test -C tools $(RACED) $(call with,soak) ./...
	$(WITH_C) sh scripts/counted.sh $(GO) test -C integration $(RACED) $(call with,soak) $$($(GO) list -C integration ./... | grep -v /siege$$)

soak-kills: modules-test packages ## kills of every store, 1,000 power cuts and all damage to files; prints their counts
	$(GO) test $(call with,soak) -timeout 40m -count 1 -v ./kvstore/disk
	$(GO) test -C integration $(call with,soak) -timeout 40m -count 1 -v ./kills

soak-siege: modules-test packages ## 25 minutes under siege; prints what happened
	$(GO) test -C integration $(call with,soak) -timeout 40m -count 1 -v ./siege

soak-fuzz: modules-test ## every fuzz target for FUZZTIME (25s)
	@FUZZTIME=$(FUZZTIME) GO='$(GO)' MODULES='$(MODULES)' sh scripts/fuzz.sh

bench: modules-test packages $(BIN)/confcenter $(BIN)/ccdump $(BIN)/ccload ## measure on this machine and print the figures beside their targets
	$(BIN)/ccload bench --server $(BIN)/confcenter --ccdump $(BIN)/ccdump

# A profile names the path of its program, so that is one which any machine may have.
profile: packages $(BIN)/ccload ## see under load what the server spends its time on, for the compiler: cmd/confcenter/profile.pgo
	rm -rf $(PROFILES) && mkdir -p $(PROFILES)/cpu
	$(GO) build $(call with,profile) -trimpath -o $(PROFILES)/confcenter ./cmd/confcenter
	CPU_PROFILES=$(PROFILES)/cpu $(BIN)/ccload bench --server $(PROFILES)/confcenter --only $(PROFILED) --pairs 3 --slice 1s
	$(GO) tool pprof -proto $(PROFILES)/cpu/* >cmd/confcenter/profile.pgo
	rm -rf $(PROFILES)

fmt: ## format the code
	gofmt -w .

fmt-check:
	@files=$$(gofmt -l .) && test -z "$$files" || { echo "not formatted (make fmt):"; echo "$$files"; exit 1; }

vet: ## go vet
	for module in $(MODULES); do $(GO) vet -C $$module $(call with,soak) ./... || exit; done

clean: ## remove what was built; ./data stays
	rm -rf $(BIN)
