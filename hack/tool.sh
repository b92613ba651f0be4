#!/usr/bin/env bash
# Prints the path of a developer's tool, built from the Go module proxy once a version: hack/tool.sh PACKAGE@VERSION
# The binaries are kept where hack/cluster keeps its own, outside the checkout.
set -euo pipefail
tool=${1:?the package and its version, e.g. golang.org/x/vuln/cmd/govulncheck@v1.9.0}
package=${tool%@*} version=${tool#*@}
folder=${MCPTASK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mcptask}/tools/$(tr / + <<<"$package")@$version+$(go env GOVERSION)
name=${package##*/}
if [[ ! -x $folder/$name ]]; then
  echo "building $tool, once" >&2
  mkdir -p "$folder"
  # Not -trimpath: go-licenses looks for the standard library where it was built.
  GOFLAGS=-buildvcs=false CGO_ENABLED=0 GOBIN=$folder go install -v "$tool" 2>&1 | awk -f "$(dirname "$0")/packages.awk" >&2
fi
echo "$folder/$name"
