# Needs make and Go 1.26 (any Go from 1.21 on fetches 1.26 by itself). `make help` lists the targets.

GO        := $(shell sh tools/find-go)
LINT      := $(GO) tool -modfile=tools/go.mod golangci-lint
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME  ?= 10s
CRASHTIME ?= 10m
PKGS      ?= ./...
OTHER_OS  := $(if $(filter Darwin,$(shell uname -s)),linux,darwin)

export PATH := $(dir $(GO)):$(PATH)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build demo test race lint fmt vet bench fuzz crash services verify prepare modules

build: modules ## build bin/haulier
	@echo '== build'
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/haulier ./cmd/haulier

demo: build ## real work over thousands of real files, with a worker killed half way
	@$(GO) run ./demo bin/haulier

test: prepare build vet lint race ## everything: build, vet, lint, all tests with the race detector

race: prepare ## all tests with the race detector (PKGS=./engine/... for some)
	@echo '== tests'
	@$(GO) test $$(sh tools/race-flag) -timeout 15m $(PKGS)

vet: modules ## go vet, for this system and, of Linux and macOS, for the other
	@echo '== vet'
	$(GO) vet ./...
	GOOS=$(OTHER_OS) CGO_ENABLED=0 $(GO) vet ./...

lint: modules ## golangci-lint at its pinned version, which the first run builds (a minute or two)
	@echo '== lint'
	$(LINT) run --allow-parallel-runners

fmt: ## format the code
	$(LINT) fmt

fuzz: modules ## run each fuzz target for FUZZTIME (10s)
	@GO='$(GO)' sh tools/fuzz $(FUZZTIME)

crash: build ## the crash suite for CRASHTIME (10m): server and worker killed with kill -9, again and again
	$(GO) test ./e2e -run '^TestCrash$$' -count=1 -v -timeout 0 -crash.time $(CRASHTIME) -crash.rounds 0

bench: build ## measure this build; with QBENCH_SRC=DIR also compare it with other queues
	@if [ -n "$$QBENCH_SRC" ]; then sh bench/run.sh "$$QBENCH_SRC"; else bin/haulier bench; fi

services: prepare ## start a PostgreSQL, a Redis and an etcd for use by hand, and name them, until Ctrl-C
	@$(GO) test ./store/services -run '^TestHold$$' -count=1 -timeout 0 -v -services.hold

verify: test ## test, then once more the seeds of all fuzz targets, and the comparison's module
	@echo '== fuzz seeds'
	@$(GO) test -run '^Fuzz' -count=1 ./...
	@echo '== bench module'
	@cd bench && $(GO) vet ./...

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

prepare:
	@sh tools/prepare

modules:
	@GO='$(GO)' sh tools/modules
