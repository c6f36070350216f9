# Everything a newcomer or a build machine does. Needs Go, git and make; the race
# detector is used where a C compiler is found.

GO           ?= go
BIN          := bin
CONTROLPLANE := $(CURDIR)/$(BIN)/karve-controlplane
VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS      := -s -w -X main.version=$(VERSION)

# One package's tests may bring up a whole cluster; two at a time is all that two cores hold.
TESTFLAGS    ?= -timeout 30m
CC           ?= cc
RACE         := $(if $(shell command -v $(CC) 2>/dev/null),-race)
CGO          := $(if $(RACE),1,0)

# Whatever runs in one goroutine, of which test/arch makes sure: the race detector has
# nothing to look for. And what tests the whole in virtual time, whose controllers and provider are raced by their own tests.
# The longest first.
UNRACED      := ./test/clusterlife ./engine/... $(addprefix ./test/,arch disasters evictions faults kubeapi report scarcity simulation soak takeover)

SCALEFLAGS   := -karve $(CURDIR)/$(BIN)/karve -upstream $(CURDIR)/$(BIN)/upstream-kwok -controlplane $(CONTROLPLANE)
DEMOFLAGS    := $(if $(ONCE),--once) $(if $(BARE),--bare)

.DEFAULT_GOAL := help
.PHONY: help build controlplane demo test lint generate bench bench-azure bench-scale bench-trace clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## build bin/karve, which runs in a cluster, and bin/karve-demo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/karve ./cmd/karve-demo

controlplane: ## build bin/karve-controlplane: Kubernetes in one binary (once, about 4 minutes)
	@hack/build-controlplane

demo: build controlplane ## the whole system on this machine, narrated (ONCE=1: check each step and exit; BARE=1: no workload)
	@$(BIN)/karve-demo $(DEMOFLAGS)

test: controlplane ## every test of every module, the end-to-end ones on the embedded control plane included
	CGO_ENABLED=0 $(GO) test -vet=off $(TESTFLAGS) $(UNRACED)
	CGO_ENABLED=$(CGO) KARVE_CONTROLPLANE=$(CONTROLPLANE) $(GO) test -vet=off $(RACE) $(TESTFLAGS) $$($(GO) list ./... | grep -Ev '/(engine|test)(/|$$)')
	CGO_ENABLED=0 KARVE_CONTROLPLANE=$(CONTROLPLANE) KARVE_RACE=$(RACE) $(GO) test -count=1 -vet=off -parallel 100 $(TESTFLAGS) ./test/e2e # it builds karve itself, for most tests with the race detector: Go's cache of results cannot know. Most of its tests wait their turn
	cd local/controlplane && CGO_ENABLED=0 $(GO) test -trimpath -vet=off $(TESTFLAGS) ./...
	cd bench && CGO_ENABLED=0 $(GO) test -vet=off $(TESTFLAGS) ./... # with the flags of lint: most of Kubernetes is compiled only once

lint: ## gofmt, vet, staticcheck, errcheck, ineffassign
	@hack/lint/run

generate: ## rewrite generated files
	hack/generate

bench: ## compare with upstream Karpenter (about an hour; QUICK=1: about 4 minutes; BENCHFLAGS="-only diverse")
	cd bench && CGO_ENABLED=0 $(GO) run . $(if $(QUICK),-quick) $(BENCHFLAGS)

bench-azure: ## what the Azure provider does to Azure, in virtual time: purchases, growth, evictions, every fault and 66 pairs, with 1,000 machines each (about 5 minutes)
	CGO_ENABLED=0 GOGC=400 $(GO) test ./test/report -run TestFigures -count=1 -vet=off -v -timeout 60m -write=$(CURDIR)/bench/results/azure.json

bench-scale: build controlplane ## the processes of karve and upstream on 1,000 nodes with 30,000 pods, on the embedded API server (about half an hour; NIGHTLY=1: 5,000 nodes with 100,000 pods, too)
	cd bench && CGO_ENABLED=0 $(GO) build -o ../$(BIN)/upstream-kwok sigs.k8s.io/karpenter/kwok
	cd bench && CGO_ENABLED=0 $(GO) run ./scale/cmd $(SCALEFLAGS) $(BENCHFLAGS)
	$(if $(NIGHTLY),cd bench && CGO_ENABLED=0 $(GO) run ./scale/cmd $(SCALEFLAGS) -nodes 5000 -pods 100000 $(BENCHFLAGS))

bench-trace: ## replay 3.5 days of VMs in Azure beside upstream (hours; TRACE=folder of the trace, see bench/README.md; BENCHFLAGS="-scale 100 -policy WhenEmpty")
	cd bench && CGO_ENABLED=0 $(GO) run ./trace/cmd $(if $(TRACE),-trace $(abspath $(TRACE))) -results results $(BENCHFLAGS)

clean: ## remove what make built and what the demo left
	rm -rf $(BIN) .karve
