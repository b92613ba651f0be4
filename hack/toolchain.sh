#!/usr/bin/env bash
# Prints the Go release that a module is built with, for GOTOOLCHAIN: hack/toolchain.sh [FOLDER of the module]
# It is the one that the module's go.mod names, which the installed go command fetches as it does modules. So everyone builds
# the same, with what is known to be safe, also where an older Go is installed that GOTOOLCHAIN=local keeps from fetching another.
# hack/cluster names its own, older one: a Kubernetes that runs tests is no product, and another Go means half an hour to build it.
set -euo pipefail
cd "$(dirname "$0")/.."
awk '$1 == "go" { named = "go" $2 } $1 == "toolchain" { named = $2 } END { print named }' "${1:-.}/go.mod"
