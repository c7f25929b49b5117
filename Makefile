# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GPUSlice Authors

# go-nvml wraps calls that NVIDIA has deprecated; their warnings are not ours.
export CGO_CFLAGS := -Wno-deprecated-declarations -O2 -g
# One way to compile, so that linters, binaries and tests share what was built.
export GOFLAGS := -trimpath
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X gpuslice/internal/command.Version=$(VERSION)
# Where every go.mod of the tree is that has tests of its own; test/repository checks that none is left out.
MODULES := . test/oracle
# Another Kubernetes release for e2e and demo, such as 1.34.4; empty is the one that test/cluster/modules/kubernetes pins.
K8S ?=
# Which e2e stories to run.
RUN ?= .
export K8S
SHELL := bash

.DEFAULT_GOAL := help
.PHONY: .out/cluster help deps build test test-go test-short scenario e2e test-docs demo soak bench cases mutants lint fmt generate verify cover ci full clean

help: ## print this text
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what Debian provides and the tests need
	bash test/deps.sh

build: ## build the binaries into bin/
	go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...
	CGO_ENABLED=0 go build -ldflags "-s -w" -o bin/ ./cmd/gpuslice-hook # it runs on the host, whatever its C library is

test: deps build ## run every test: of every module with the race detector, the exhaustive ones, and those on a real node
	$(MAKE) -j2 test-go .out/cluster # tests mostly wait for conditions; the build of the cluster uses that time
	$(MAKE) e2e

test-go: build
	set -o pipefail; for m in $(MODULES); do (cd $$m && go test -race -timeout 20m ./...) || exit 1; done
	go test -run 'TestEvery' ./pkg/mig

test-short: ## run the pure tests without cgo, in seconds
	CGO_ENABLED=0 go test -short ./pkg/... ./internal/...

scenario: build ## run the stories in test/scenario on the real binaries
	go test -race ./test/scenario/...

.out/cluster: deps build
	mkdir -p .out && go build -o .out/cluster ./test/cluster && .out/cluster build

e2e: .out/cluster ## run the stories on a real Kubernetes node
	go build -o .out/demo.bin ./test/demo && go test -tags e2e -c -o .out/e2e.test ./test/e2e
	set -o pipefail; GPUSLICE_ROOT=$(CURDIR) .out/cluster exec -- .out/e2e.test -test.v -test.timeout 40m -test.run '$(RUN)' 2>&1 | tee .out/e2e.log

test-docs: ## run every block of commands in README and docs/ on a real node
	$(MAKE) e2e RUN='^TestDocs$$'

demo: .out/cluster ## show the main job on a real Kubernetes node; DEMO_CONFIG=FILE tells another story
	.out/cluster demo

soak: .out/cluster ## let an agent live through SOAK_ROUNDS rounds of pods, edits, restarts and faults on a real node
	go build -o .out/soak.bin ./test/soak && .out/cluster exec -- .out/soak.bin

bench: .out/cluster ## measure the budgets; fails when one is missed, unless BENCH_REPORT_ONLY=1
	go test -run '^$$' -bench . -benchtime 200ms -count 5 ./pkg/... ./internal/...
	go build -o .out/bench.bin ./test/bench && .out/bench.bin; a=$$?; .out/cluster exec -- .out/bench.bin && exit $$a # the second has an API server

cases: ## check that every case and promise asked for has a test that ran at its tier
	go run ./test/cases

mutants: ## check that every one-line fault in test/mutants makes its test fail
	go run ./test/mutants

lint: ## run the linters
	go tool -modfile=tools/go.mod golangci-lint run ./...

fmt: ## format the code
	go tool -modfile=tools/go.mod golangci-lint fmt ./...

generate: ## write the generated files
	go generate ./pkg/... ./internal/...

verify: generate ## fail when generated files or go.mod are not up to date
	go mod tidy -diff
	git diff --exit-code -- pkg docs go.mod go.sum

cover: ## print the coverage of pkg/ and internal/
	go test -short -coverprofile=.out/cover.out ./pkg/... ./internal/... && go tool cover -func=.out/cover.out | tail -1

ci: verify lint test cases mutants demo ## everything that must hold before a change lands

full: ci ## ci and what takes longer: other Kubernetes releases, a soak, the budgets, every plan
	$(MAKE) e2e K8S=1.36.3
	$(MAKE) e2e K8S=1.34.4
	$(MAKE) soak
	GPUSLICE_EVERY_PLAN=1 go test -timeout 60m -run TestEveryPlanApplied ./pkg/mig
	$(MAKE) bench

clean: ## remove what the build made
	rm -rf bin .out
