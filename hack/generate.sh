#!/usr/bin/env bash
# Generates what is generated: deep copies, definitions, the chart's copy of them, RBAC, the API reference.
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN
GOTOOLCHAIN=$(hack/toolchain.sh hack/cluster) go build -C hack/cluster -o ../../bin/ ./cmd/cluster
PATH=$(bin/cluster bin controller-gen):$PATH
rm -rf config/crd charts/mcptask/templates/crds config/rbac
controller-gen object paths=./api/...
controller-gen crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd
controller-gen rbac:roleName=mcptask-controller paths=./controllers/... output:rbac:dir=config/rbac/controller
controller-gen rbac:roleName=mcptask-bridge paths=./mcpbridge/... output:rbac:dir=config/rbac/bridge
go run ./hack/crds config/crd charts/mcptask/templates/crds
go run ./hack/apidocs config/crd docs/reference.md
