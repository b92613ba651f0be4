#!/usr/bin/env bash
# Looks for mistakes, known vulnerabilities, and licences that do not go with this project's. The tools are built from Go
# modules at these versions, the first time in some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN
golangci=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0
licenses=github.com/google/go-licenses@v1.6.0

step() { echo "lint: $*" >&2; }

step "mistakes (golangci-lint with gosec), in some minutes the first time"
"$(hack/tool.sh $golangci)" run ./...

step "licences of what the programs are made of"
# The licences that Apache-2.0 programs may be made of; go-licenses names any other package and its licence.
allowed=Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0
checker=$(hack/tool.sh $licenses)
# It takes packages of the standard library, whose licence is BSD-3-Clause, for unknown ones. What it says of a good end is
# about assembly in dependencies, which is under their licences too.
said=$(GOROOT=$(go env GOROOT) "$checker" check ./cmd/... --allowed_licenses=$allowed --ignore github.com/mcptask/mcptask \
  --ignore "$(go list std | cut -d/ -f1 | sort -u | paste -sd,)" 2>&1) || { echo "$said" >&2; exit 1; }

step "known vulnerabilities that the programs reach (govulncheck)"
checker=$(hack/tool.sh $govulncheck)
if ! database=$(hack/lint/vulndb.sh); then
  step "NOT CHECKED: known vulnerabilities. Neither https://vuln.go.dev nor the Go module golang.org/x/vulndb can be reached from here"
  exit 0
fi
"$checker" -db "$database" ./cmd/...
