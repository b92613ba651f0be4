#!/usr/bin/env bash
# Breaks things while tasks run, and judges: see test/chaos/README.md. hack/chaos/run.sh REPOSITORY TAG, with EXAMPLES_IMAGE, and
# SEED and FAULTS as one likes. The images must be in bin/images.
#
# With CLUSTER=local it has a cluster of its own, for it breaks the control plane and nodes, too. On other clusters it does what
# kubectl can; RECORDER_HOST is then this machine's address as Pods reach it.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=${1:?the repository of the image} tag=${2:?its tag}
arguments=(-image "${EXAMPLES_IMAGE:-mcptask.dev/examples:dev}" -seed "${SEED:-1}" -faults "${FAULTS:-12}")

export CLUSTER=${CLUSTER:-local}
case $CLUSTER in
local)
  export CLUSTER_NAME=${CLUSTER_NAME:-mcptask}-chaos NODES=2
  arguments+=(-cluster "$CLUSTER_NAME")
  trap 'hack/dev.sh down' EXIT ;;
kind)
  : "${RECORDER_HOST:=$(docker network inspect kind --format '{{range .IPAM.Config}}{{.Gateway}} {{end}}' | tr ' ' '\n' | grep -m 1 '\.')}" ;;
esac
if [[ $CLUSTER != local ]]; then
  arguments+=(-program "" -recorder-host "${RECORDER_HOST:?set it to an address of this machine that Pods of the cluster reach}")
fi

hack/dev.sh up
hack/dev.sh load bin/images/mcptask.tar bin/images/examples.tar
hack/dev.sh exec hack/install.sh "$repository" "$tag"
trap : INT TERM # the program makes no more faults then, mends and judges; it is waited for
go build -o bin/chaos/chaos ./test/chaos
hack/dev.sh exec bin/chaos/chaos "${arguments[@]}"
