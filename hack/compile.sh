#!/usr/bin/env bash
# Is "go build" that says how far it is, for builds that take minutes when nothing is cached: hack/compile.sh ARGUMENTS...
set -euo pipefail
GOFLAGS="${GOFLAGS:-} -v" go build "$@" 2>&1 | awk -f "$(dirname "$0")/packages.awk" >&2
