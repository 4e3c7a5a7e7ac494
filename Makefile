# The names people guess. CI runs .ci/run, which runs `make test` and little else.

GO       ?= go
# Tools and end-to-end tests are modules of their own, so that a user of the client does not come to need what they need.
MODULES  := . tools integration
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
BIN      := bin
SOURCES  := $(shell find . -name '*.go' -not -path './.*')
FUZZTIME ?= 30s
# All but the race detector does without C, so that what is built for one is there for the others.
export CGO_ENABLED := 0
# The long tests of ./integration: apart and verbose, so that they show their counts.
LONG     := Soak|Kill
DAMAGE   := PowerLoss|Damage
# What one goroutine does many times over, or is measured at: the race detector would find nothing in it, and
# make it ten times slower.
PLAIN    := $(DAMAGE)|WhatIsCountedIsWhatIsUsed|ALargeMapIsThinnedWhileItIsWritten|MemoryGoesBackAfterAPeak|$\
            DocumentsCostWhatTheyTake|CachesCostWhatTheyTake|OriginsAreBounded|AGroupOfWritesIsBoundedByItsFiles|$\
            MergeDeepIsLinear|LargeRolesAreComparedWhole|RequestsTogetherAreAnsweredLikeRequestsAlone|FramesOfHugeTransactionsFitAndSaySo|$\
            C30TenThousandNodesAreListedByStatus|AnInterruptedImportGoesOnWhereItWas|ASmallPoolMakesASmallEngine|$\
            TheSpaceOfForgottenEntriesGoesBack|BlamingSaysHowFarItLooked|ALongFileIsShownInPieces|$\
            KilledWhile(Registering|Removing|Replicating|Returning|JoiningAgain)|KilledInTheMiddleOfARemoval|TheLogAgreesWithAList|WhatIsToldAndWhatIsReadBackAreTheSame|$\
            AChangeIsWholeWhereverItStops
PLAIN_IN  = $(shell grep -rlwE '^func Test($(PLAIN))' --include='*_test.go' . | grep -v '^./tools/' | xargs -n1 dirname | sort -u)
# Programs the tests and the benchmark need beside Go, each with its Debian package; a path may be a pattern.
PROGRAMS := redis-server=redis-server redis-benchmark=redis-tools etcd=etcd-server tshark=tshark chromium=chromium curl=curl openssl=openssl \
            mariadbd=mariadb-server /usr/lib/postgresql/*/bin/postgres=postgresql
# What the server is seen to do for profile.pgo, from which the compiler learns what is hot.
PROFILED := get,path,push,kvget,kvput,kvwatch,httpput,httpget,httpsse
PROFILES := /tmp/confcenter-profile
# The race detector needs a C compiler; without one the tests run without it, and say so.
# Tests wait as much as they work, so several packages run at once, the long ones, which happen to
# be the last by name, first; the soak of integration/siege lasts two minutes whatever runs beside
# it. The rest of integration/siege, which attacks another process with more goroutines than the
# detector follows, has the machine for itself.
RACE     := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
RACED    := CGO_ENABLED=$(if $(RACE),1,0) $(GO) test $(RACE)

.DEFAULT_GOAL := help
.PHONY: help packages modules modules-test build run test short fuzz soak bench profile integration fmt fmt-check vet clean FORCE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(BIN)/confcenter $(BIN)/ccdump ## build bin/confcenter and bin/ccdump, each one static binary

modules:
	@GO='$(GO)' sh scripts/modules.sh . ./cmd/confcenter
	@GO='$(GO)' sh scripts/modules.sh tools ./ccdump

modules-test:
	@for module in $(MODULES); do GO='$(GO)' sh scripts/modules.sh $$module -test ./... || exit; done

$(BIN)/confcenter: FORCE | modules
	$(GO) build -trimpath -pgo=cmd/confcenter/profile.pgo -ldflags '$(LDFLAGS)' -o $@ ./cmd/confcenter

$(BIN)/ccdump: FORCE | modules
	$(GO) build -C tools -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ ./ccdump

$(BIN)/ccload: FORCE | modules
	$(GO) build -C tools -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$@ ./ccload

run: build ## serve the sample ./conf on 127.0.0.1:4800
	exec $(BIN)/confcenter serve --listen 127.0.0.1:4800 --conf ./conf --data ./data

packages: ## install what tests and benchmarks need beside Go, from Debian's packages
	@sh scripts/packages.sh $(PROGRAMS)

test: modules-test packages fmt-check vet ## everything that must hold: format, vet, all tests with the race detector, a tenth of the soak, a moment of fuzzing
ifeq ($(RACE)$(CI),true)
	@echo 'error: the race detector needs a C compiler, which CI must have'; exit 1
endif
ifeq ($(RACE),)
	@echo 'note: no C compiler found, so the tests run without the race detector'
endif
	$(GO) test -timeout 15m -v -run Soak ./integration/siege & soak=$$!; \
	$(RACED) -p 3 -shuffle=on -timeout 15m -skip '^Test($(PLAIN))$$' $$($(GO) list ./... | grep -v '/integration\(/siege\)*$$' | sort -r); \
	others=$$?; wait $$soak && exit $$others
	{ CONFCENTER_POWER_LOSSES=100 nice $(GO) test -timeout 15m -run '^Test($(PLAIN))$$' -v $(PLAIN_IN) && \
	FUZZTIME=2000x GO='$(GO)' nice sh scripts/fuzz.sh; } & beside=$$!; \
	$(RACED) -shuffle=on -timeout 15m -skip '$(LONG)' ./integration && \
	$(RACED) -timeout 15m -run '$(LONG)' -v ./integration; \
	others=$$?; wait $$beside && exit $$others
	$(GO) test -timeout 15m -v -skip Soak ./integration/siege

short: modules-test ## a quick look: the tests without the race detector and without fuzzing
	$(GO) test ./...

integration: modules-test ## the end-to-end tests, each by its name
	$(GO) test -v -timeout 15m ./integration

fuzz: ## every fuzz target for FUZZTIME (30s)
	@FUZZTIME=$(FUZZTIME) GO='$(GO)' sh scripts/fuzz.sh

soak: ## the long tests in full: 420 kills, 1,000 power cuts, an hour under siege; prints their counts
	CONFCENTER_SOAK=1 $(GO) test -run '$(LONG)' -timeout 60m -count 1 -v ./integration
	CONFCENTER_SOAK=1 CONFCENTER_POWER_LOSSES=1000 $(GO) test -run '^Test($(DAMAGE))$$' -timeout 60m -count 1 -v ./kvstore/pebblekv/disk
	CONFCENTER_SOAK=1 $(GO) test -timeout 120m -count 1 -v ./integration/siege

bench: modules-test packages $(BIN)/confcenter $(BIN)/ccdump $(BIN)/ccload ## measure on this machine and print the figures beside their targets
	$(BIN)/ccload bench --server $(BIN)/confcenter --ccdump $(BIN)/ccdump

# A profile names the path of its program, so that is one which any machine may have.
profile: packages $(BIN)/ccload ## see under load what the server spends its time on, for the compiler: cmd/confcenter/profile.pgo
	rm -rf $(PROFILES) && mkdir -p $(PROFILES)/cpu
	$(GO) build -tags profile -trimpath -o $(PROFILES)/confcenter ./cmd/confcenter
	CPU_PROFILES=$(PROFILES)/cpu $(BIN)/ccload bench --server $(PROFILES)/confcenter --only $(PROFILED) --pairs 3 --slice 1s
	$(GO) tool pprof -proto $(PROFILES)/cpu/* >cmd/confcenter/profile.pgo
	rm -rf $(PROFILES)

fmt: ## format the code
	gofmt -w $(SOURCES)

fmt-check:
	@files=$$(gofmt -l $(SOURCES)) && test -z "$$files" || { echo "not formatted (make fmt):"; echo "$$files"; exit 1; }

vet: ## go vet
	for module in $(MODULES); do $(GO) vet -C $$module ./... || exit; done

clean: ## remove what was built; ./data stays
	rm -rf $(BIN)
