#!/usr/bin/env bash
# Fuzzes every target of the module for a time: hack/fuzz.sh 10s
# What fails is written to testdata/fuzz beside the target, where every later test run tries it again: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?how long, e.g. 10s}
grep -rl --include='*_test.go' '^func Fuzz' api cmd controllers mcpbridge | sort | while read -r file; do
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
    echo "fuzz: $target of $(dirname "$file")" >&2
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
  done
done
