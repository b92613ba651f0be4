# mcptask: see README.md. `make help` lists the targets.

# CLUSTER says where everything runs: local (a Kubernetes built from Go modules, on this machine),
# kind (Docker with kind) or existing (the cluster that kubectl reaches now).
CLUSTER ?= local
export CLUSTER

# One set of build flags everywhere: what a test compiles, the image need not compile again.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false
# The release of Go that go.mod names, whatever is installed.
export GOTOOLCHAIN := $(shell hack/toolchain.sh)

TAG ?= dev
export TAG
ifdef IMAGE_REPOSITORY
export IMAGE_REPOSITORY
image = $(IMAGE_REPOSITORY)/$(1)
else
image = mcptask.dev/$(1)
endif

# What enforces NetworkPolicies in the tests, where the cluster's own network does not: that of the local cluster. kind's does; another
# cluster's must, or the test of the policies fails.
netpol = $(if $(filter local,$(CLUSTER)),$(call image,netpol):$(TAG))

FUZZTIME ?= 10s

LDFLAGS = -s -w
programs = controller bridge taskrt
DEV = hack/dev.sh

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: install bin/mcptask ## A cluster, the chart in it, and a real tool called over MCP
	MCPTASK=$(CURDIR)/bin/mcptask EXAMPLES_IMAGE=$(call image,examples):$(TAG) $(DEV) exec hack/demo/run.sh

.PHONY: invoice
invoice: install ## Invoices that people approve and that are paid once; FAULTS=1 kills things meanwhile; WEEK=60 lets people take a week of 60 s
	EXAMPLES_IMAGE=$(call image,examples):$(TAG) FAULTS=$(FAULTS) WEEK=$(WEEK) $(DEV) exec hack/invoice/run.sh

.PHONY: cluster-up
cluster-up: ## A running cluster (builds what it needs, the first time)
	$(DEV) up

.PHONY: cluster-down
cluster-down: ## The end of that cluster
	$(DEV) down

.PHONY: install
install: cluster-up load ## The chart, installed or upgraded in that cluster
	$(DEV) exec hack/install.sh $(call image,mcptask) $(TAG)

##@ Build

.PHONY: build
build: $(addprefix bin/,$(programs) mcptask) ## All programs, into bin/

.PHONY: bin/mcptask $(addprefix bin/,$(programs))
bin/mcptask $(addprefix bin/,$(programs)):
	go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/$(@F)

.PHONY: images
images: ## The images as OCI archives, into bin/images, without a container engine
	hack/images.sh $(call image,mcptask):$(TAG) $(call image,examples):$(TAG) $(call image,netpol):$(TAG)

.PHONY: load
load: images cluster-up
	$(DEV) load bin/images/mcptask.tar bin/images/examples.tar bin/images/netpol.tar

##@ Generated code

.PHONY: generate
generate: ## Deep copies, definitions, RBAC, reference documentation
	hack/generate.sh

.PHONY: verify
verify: ## Fail when generated code is stale or code is unformatted
	hack/verify.sh

.PHONY: lint
lint: ## Mistakes, known vulnerabilities, and licences of dependencies (builds its tools, the first time)
	hack/lint/run.sh

##@ Test

.PHONY: test
test: verify lint test-unit test-integration test-e2e test-clients test-conformance test-chaos ## Everything but fuzzing

.PHONY: test-unit
test-unit: ## Needs nothing
	go vet ./...
	go test ./...
	cd hack/cluster && export GOTOOLCHAIN=$$(../toolchain.sh hack/cluster) && go vet ./internal/... ./cmd/cluster ./cmd/image && go test ./internal/... ./cmd/cluster ./cmd/image

.PHONY: test-fuzz
test-fuzz: ## Every entrance, for FUZZTIME each
	hack/fuzz.sh $(FUZZTIME)

.PHONY: test-integration
test-integration: ## Needs etcd, kube-apiserver and kube-controller-manager
	env $$($(DEV) assets) go test -tags integration -count=1 -timeout 30m ./test/integration/... ./mcpbridge/...

.PHONY: test-e2e
test-e2e: load ## Needs nodes: real Pods, the chart installed as users install it
	NETPOL_IMAGE=$(netpol) IMAGE=$(call image,mcptask) EXAMPLES_IMAGE=$(call image,examples):$(TAG) $(DEV) exec go test -tags e2e -count=1 -timeout 60m ./test/e2e/...

.PHONY: test-clients
test-clients: load ## MCP clients as they are shipped on npm against the installed bridge
	IMAGE=$(call image,mcptask) EXAMPLES_IMAGE=$(call image,examples):$(TAG) $(DEV) exec go test -tags e2e -count=1 -timeout 30m ./test/clients/...

.PHONY: test-conformance
test-conformance: load ## The official MCP conformance suite: tasks against the installed bridge, all of it against its endpoint
	IMAGE=$(call image,mcptask) EXAMPLES_IMAGE=$(call image,examples):$(TAG) $(DEV) exec go test -tags e2e -count=1 -p 1 -timeout 30m ./test/conformance/...

.PHONY: test-chaos
test-chaos: images ## Tasks of all kinds while everything is killed: SEED=number FAULTS=number
	EXAMPLES_IMAGE=$(call image,examples):$(TAG) SEED=$(SEED) FAULTS=$(FAULTS) exec hack/chaos/run.sh $(call image,mcptask) $(TAG)

.PHONY: bench
bench: load ## Ratios against a baseline of the same run
	go test -run '^$$' -bench 'Handler|PollBesideConstant' ./mcpbridge/endpoint/
	IMAGE=$(call image,mcptask) EXAMPLES_IMAGE=$(call image,examples):$(TAG) $(DEV) exec go test -tags e2e -count=1 -timeout 30m -v ./test/bench/...
