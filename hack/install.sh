#!/usr/bin/env bash
# Installs or upgrades the chart with the images just built: hack/install.sh REPOSITORY TAG
set -euo pipefail
cd "$(dirname "$0")/.."
helm upgrade --install mcptask charts/mcptask --namespace mcptask-system --create-namespace \
  --set image.repository="$1" --set image.tag="$2" --wait --timeout 3m --hide-notes
# A tag that stays the same does not restart Pods whose image changed.
kubectl -n mcptask-system rollout restart deployment -l app.kubernetes.io/instance=mcptask
kubectl -n mcptask-system rollout status deployment -l app.kubernetes.io/instance=mcptask --timeout 3m
