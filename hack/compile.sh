#!/usr/bin/env bash
# Is "go build" that says how far it is, for builds that take minutes when nothing is cached: hack/compile.sh ARGUMENTS...
set -euo pipefail
GOFLAGS="${GOFLAGS:-} -v" go build "$@" 2>&1 | awk '
  /^[^ #:]+$/ { n++; if (n % 50 == 0) { print "  " n " packages compiled"; fflush() } next }
  { print; fflush() }' >&2
