#!/usr/bin/env bash
# Fails when generated code is stale, code is not formatted, or the modules are not tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN
unformatted=$(gofmt -l $(git ls-files '*.go'))
[[ -z $unformatted ]] || { echo "not formatted; run gofmt -w on:"; echo "$unformatted"; exit 1; }

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
generated=(api config charts/mcptask/templates/crds docs/reference.md)
cp -a --parents "${generated[@]}" "$before"
hack/generate.sh
for path in "${generated[@]}"; do
  diff -r "$before/$path" "$path" >/dev/null || { diff -ru "$before/$path" "$path" | head -40; echo "$path is stale; run make generate and commit"; exit 1; }
done
go mod tidy -diff || { echo "go.mod is not tidy; run go mod tidy"; exit 1; }
