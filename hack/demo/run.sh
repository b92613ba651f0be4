#!/usr/bin/env bash
# Shows mcptask at work, from an agent's call to a result that is checked. It can be run again and again.
#
# It needs a cluster with the chart installed and with the image of the examples within its nodes' reach ("make demo" sees to
# both), kubectl and go in PATH, and MCPTASK, the path of the CLI. EXAMPLES_IMAGE names the image, DEMO_NAMESPACE the namespace.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${MCPTASK:?is not set: give the path of the mcptask CLI}"

namespace=${DEMO_NAMESPACE:-mcptask-demo}
image=${EXAMPLES_IMAGE:-mcptask.dev/examples:dev}
agent=(--namespace "$namespace" --service-account demo-agent)
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

# The shown command lines name the program as it is called when it is installed.
heading() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; }
kube() { show kubectl -n "$namespace" "$@"; kubectl -n "$namespace" "$@"; }

heading "A namespace with a web site of 10,000 pages and a tool that crawls web sites"
kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f -
show kubectl -n "$namespace" apply -f examples/crawl/site.yaml -f examples/crawl/tool.yaml
for file in examples/crawl/site.yaml examples/crawl/tool.yaml; do
  sed "s#image: mcptask.dev/examples:dev#image: $image#" "$file" | kubectl -n "$namespace" apply -f -
done
kube rollout status deployment/crawl-site --timeout=2m
kube wait --for=condition=Ready mcptool/crawl --timeout=1m

heading "An agent, which is a service account, and which may call the tools of this namespace"
kubectl -n "$namespace" create serviceaccount demo-agent --dry-run=client -o yaml | kubectl apply -f -
kubectl -n "$namespace" create rolebinding demo-agent-calls --clusterrole mcptask-caller --serviceaccount "$namespace:demo-agent" \
  --dry-run=client -o yaml | kubectl apply -f -

heading "What the agent sees"
show mcptask tools "${agent[@]}"
"$MCPTASK" tools "${agent[@]}"

heading "A small call, from a client that knows no tasks: the call stays open until the result is there"
small='{"url":"http://crawl-site/","depth":1}'
show mcptask call crawl "'$small'" --no-tasks "${agent[@]}"
"$MCPTASK" call crawl "$small" --no-tasks "${agent[@]}"

heading "A call over the whole site: it becomes a task, and the agent gets a handle at once"
whole='{"url":"http://crawl-site/","depth":20,"maxPages":20000}'
show mcptask call crawl "'$whole'" "${agent[@]}"
task=$("$MCPTASK" call crawl "$whole" "${agent[@]}")
echo "$task"
if [[ ! $task =~ ^[a-z][a-z2-7]{25}$ ]]; then
  echo "This machine is so fast that the call was answered within the tool's syncWindow. Its task was:"
  task=$(kubectl -n "$namespace" get mcptasks --sort-by=.metadata.creationTimestamp -o name | tail -n 1)
  task=${task##*/}
  echo "$task"
fi

heading "The same task, seen with kubectl"
kube get mcptasks,jobs -o wide

heading "The agent waits for the result"
show mcptask wait "$task" "${agent[@]}"
"$MCPTASK" wait "$task" "${agent[@]}"

heading "The numbers, compared with those that the site was made with"
show mcptask wait "$task" "${agent[@]}" -o json
"$MCPTASK" wait "$task" "${agent[@]}" -o json >"$files/result.json"
show kubectl get --raw "/api/v1/namespaces/$namespace/services/crawl-site:http/proxy/truth.json"
kubectl get --raw "/api/v1/namespaces/$namespace/services/crawl-site:http/proxy/truth.json" >"$files/truth.json"
if ! go run ./hack/demo/check "$files/result.json" "$files/truth.json"; then
  echo "The demo's numbers are wrong." >&2
  exit 1
fi
echo "The demo's numbers are exact."

heading "Look around"
cat <<HINT
  kubectl -n $namespace get mcptools,mcptasks,jobs,pods
  kubectl -n $namespace get mcptask $task -o yaml
  kubectl -n $namespace logs job/$task
  $MCPTASK call crawl --arg url=http://crawl-site/ --arg depth=3 --wait ${agent[*]}

Clean up:
  kubectl delete namespace $namespace
HINT
