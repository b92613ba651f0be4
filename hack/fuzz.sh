#!/usr/bin/env bash
# Fuzzes every target of the module for a time: hack/fuzz.sh 10s
# What fails is written to testdata/fuzz beside the target, where every later test run tries it again: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN
time=${1:?how long, e.g. 10s}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

fuzz() { # TARGET FOLDER
  go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" "./$2" 2>&1 | tee "$said" && return
  # On a busy machine Go at times takes the end of the time for a failure: stop in internal/fuzz.CoordinateFuzzing compares the
  # errors of two contexts, one of which is told a moment later. No input is named then.
  grep -qx '    context deadline exceeded' "$said" && ! grep -q 'Failing input' "$said"
}

grep -rl --include='*_test.go' '^func Fuzz' api cmd controllers mcpbridge | sort | while read -r file; do
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
    echo "fuzz: $target of $(dirname "$file")" >&2
    fuzz "$target" "$(dirname "$file")"
  done
done
