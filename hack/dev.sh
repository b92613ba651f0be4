#!/usr/bin/env bash
# Gives the make targets a cluster, its tools and its images, whatever kind of cluster that is.
#
#   hack/dev.sh up               a cluster that runs
#   hack/dev.sh load FILE...     image archives into its nodes
#   hack/dev.sh exec COMMAND...  a command with KUBECONFIG, GOTOOLCHAIN, and kubectl and helm in PATH
#   hack/dev.sh assets           the environment of tests that need an API server and no node
#   hack/dev.sh down             the end of a cluster that "up" made
#
# CLUSTER says which: local (made from Go modules by hack/cluster), kind (Docker with kind), or
# existing (the one that kubectl reaches now; nothing is built).
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN

kind_of=${CLUSTER:-local}
name=${CLUSTER_NAME:-mcptask}

die() { echo "hack/dev.sh: $*" >&2; exit 1; }

need() { command -v "$1" >/dev/null || die "CLUSTER=$kind_of needs $1 in PATH${2:+ ($2)}"; }

local_tool() { # the cluster program, built when its sources are newer
  GOTOOLCHAIN=$(hack/toolchain.sh hack/cluster) hack/compile.sh -C hack/cluster -o ../../bin/ ./cmd/cluster ./cmd/image
}

kubeconfig() {
  case $kind_of in
  local) bin/cluster kubeconfig --name "$name" ;;
  kind) mkdir -p bin && kind get kubeconfig --name "$name" >bin/kubeconfig && echo "$PWD/bin/kubeconfig" ;;
  existing) echo "${KUBECONFIG:-}" ;;
  esac
}

case $kind_of in
local | existing) local_tool ;;
kind) need docker && need kind && need kubectl && need helm && local_tool ;;
*) die "CLUSTER must be local, kind or existing, not $kind_of" ;;
esac

command=${1:?what to do: up, load, exec, assets or down}
shift
case $kind_of/$command in
local/up) bin/cluster up --name "$name" --nodes "${NODES:-1}" >/dev/null ;;
kind/up) kind get clusters 2>/dev/null | grep -qx "$name" || kind create cluster --name "$name" --wait 2m ;;
existing/up) need kubectl && need helm && kubectl version >/dev/null || die "kubectl reaches no cluster: set KUBECONFIG" ;;

local/load) bin/cluster load --name "$name" "$@" ;;
kind/load) for file in "$@"; do kind load image-archive --name "$name" "$file"; done ;;
existing/load)
  context=$(kubectl config current-context)
  if [[ $context == kind-* ]]; then
    for file in "$@"; do kind load image-archive --name "${context#kind-}" "$file"; done
  else
    [[ -n ${IMAGE_REPOSITORY:-} ]] || die "set IMAGE_REPOSITORY to a registry path that the nodes of $context can pull from, e.g. registry.example/mcptask"
    for file in "$@"; do bin/image push "$file" "$IMAGE_REPOSITORY/$(basename "$file" .tar):${TAG:-dev}"; done
  fi ;;

local/exec)
  tools=$(bin/cluster bin)
  KUBECONFIG=$(kubeconfig)
  export KUBECONFIG PATH=$tools:$PATH
  exec "$@" ;;
kind/exec)
  KUBECONFIG=$(kubeconfig)
  export KUBECONFIG
  exec "$@" ;;
existing/exec) need kubectl && need helm && exec "$@" ;;

local/assets)
  assets=$(bin/cluster assets)
  tools=$(bin/cluster bin)
  echo "KUBEBUILDER_ASSETS=$assets HELM=$tools/helm GOTOOLCHAIN=$GOTOOLCHAIN" ;;
*/assets) need helm && echo "USE_EXISTING_CLUSTER=true HELM=$(command -v helm) GOTOOLCHAIN=$GOTOOLCHAIN" ;;

local/down) bin/cluster down --name "$name" ;;
kind/down) kind delete cluster --name "$name" ;;
existing/down) echo "CLUSTER=existing: your cluster is left as it is" ;;
*) die "unknown command $command" ;;
esac
