#!/usr/bin/env bash
# Shows an application on mcptask: purchase orders whose invoices people approve, and which are paid exactly once. It can be
# run again and again. With FAULTS=1 the caller, the bridge, the controller and Pods of the Jobs are killed meanwhile. With
# WEEK=60 people take a week to answer, and a week is 60 seconds long: no Pod is kept for them, and nothing else survives it.
#
# It needs a cluster with the chart installed and with the image of the examples within its nodes' reach ("make invoice" sees
# to both), kubectl and go in PATH. EXAMPLES_IMAGE names the image, INVOICE_NAMESPACE the namespace.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
namespace=${INVOICE_NAMESPACE:-mcptask-invoice}
system=${SYSTEM_NAMESPACE:-mcptask-system}
image=${EXAMPLES_IMAGE:-mcptask.dev/examples:dev}
faults=${FAULTS:-}
week=${WEEK:-}
while_waiting=Hold
thinking=(--think "${THINK:-15s}")
if [[ -n $week ]]; then
  [[ -z $faults && $week =~ ^[0-9]+$ && $week -ge 30 ]] || { echo "hack/invoice/run.sh: WEEK is a number of seconds, at least 30, and goes without FAULTS" >&2; exit 2; }
  while_waiting=Release
  thinking=(--think-at-least "${week}s" --think "$((week * 5 / 4))s")
fi
files=$(mktemp -d)
children=()

finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  rm -rf "$files"
}
trap finish EXIT

heading() { printf '\n== %s\n' "$*"; }
note() { printf '%s  ** %s\n' "$(date +%H:%M:%S)" "$*"; }
kube() { kubectl -n "$namespace" "$@"; }

# until_seen SECONDS COMMAND... prints what the command prints, once that is something.
until_seen() {
  local end=$((SECONDS + $1)) seen
  shift
  while ((SECONDS < end)); do
    seen=$("$@") || true
    if [[ -n $seen ]]; then echo "$seen"; return; fi
    sleep 0.2
  done
  echo "hack/invoice/run.sh: nothing came of: $*" >&2
  return 1
}

heading "A namespace with an ERP system, the tool pay_invoice, and an agent, a service account that may call it"
kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f -
kube create serviceaccount order-agent --dry-run=client -o yaml | kube apply -f -
kube create rolebinding order-agent-calls --clusterrole mcptask-caller --serviceaccount "$namespace:order-agent" \
  --dry-run=client -o yaml | kube apply -f -
kube delete mcptasks --all # those of an earlier run
kube delete deployment/erp --ignore-not-found --cascade=foreground # the new one begins with an empty record
for file in examples/invoice/erp.yaml examples/invoice/tool.yaml; do
  sed "s#image: mcptask.dev/examples:dev#image: $image#" "$file" | kube apply -f -
done
kube patch mcptool pay-invoice --type=merge -p '{"spec":{"runtime":{"whileWaiting":"'$while_waiting'"}}}'
kube rollout status deployment/erp --timeout=2m
kube wait --for=condition=Ready mcptool/pay-invoice --timeout=1m

go build -o "$files/order" ./examples/invoice/cmd/order
kubectl proxy --port=0 >"$files/proxy" &
children+=($!)
address=$(until_seen 30 sed -n 's/^Starting to serve on //p' "$files/proxy")
erp="http://$address/api/v1/namespaces/$namespace/services/erp:http/proxy"
order=("$files/order")
arguments=(--orders examples/invoice/orders.json --journal "$files/journal.json" --erp "$erp"
  --namespace "$namespace" --service-account order-agent "${thinking[@]}" --seed "${SEED:-$RANDOM}")

# What kubectl sees of the tasks, to be shown at the end.
kubectl -n "$namespace" get mcptasks --watch --no-headers \
  -o custom-columns=INVOICE:.spec.arguments.invoice,STATE:.status.state,NAME:.status.stateName >"$files/watch" &
children+=($!)

place() {
  "${order[@]}" place "${arguments[@]}" &
  caller=$!
  children+=("$caller")
}

restart_caller() {
  note "the caller is killed, and started again"
  kill -KILL "$caller"
  wait "$caller" 2>/dev/null || true
  place
}

# task_in STATE STATENAME prints a task that is there.
task_in() {
  kube get mcptasks -o jsonpath='{range .items[*]}{.status.state} {.status.stateName} {.metadata.name}{"\n"}{end}' |
    awk -v state="$1" -v name="$2" '$1 == state && $2 == name {print $3; exit}'
}

# paid prints a task that the ERP has recorded a payment of.
paid() {
  kubectl get --raw "/api/v1/namespaces/$namespace/services/erp:http/proxy/record" | grep -o '"key":"[^"/]*' | cut -d '"' -f 4 | head -n 1
}

kill_pods_of() {
  note "the Pod of task $1 is killed: $2"
  kube delete pods -l "mcptask.dev/task=$1" --grace-period=0 --force --wait=false 2>/dev/null
}

kill_system() {
  note "all Pods of the $1 are killed"
  kubectl -n "$system" delete pods -l "app.kubernetes.io/component=$1" --grace-period=0 --force --wait=false 2>/dev/null
}

# work_pods names the Pods of tasks that have not ended.
work_pods() {
  kube get pods -l mcptask.dev/task --field-selector=status.phase!=Succeeded,status.phase!=Failed -o name
}

answers() { kube get mcptasks -o 'jsonpath={.items[*].spec.inputResponses[*].key}'; }

# all_released says yes once five tasks wait, each says that it keeps no Pod, and there is none.
all_released() {
  local released
  released=$(kube get mcptasks -o 'jsonpath={range .items[*]}{.status.state}/{.status.reason}: {.status.message}{"\n"}{end}' |
    grep -c '^input_required/AwaitingInput: no Pod is kept until an answer comes') || true
  [[ $released == 5 && -z $(work_pods) ]] && echo yes
}

# a_week_passes ends with the first answer. It looks all the time, and fails if there is a Pod before that.
a_week_passes() {
  local looks=0 began=$SECONDS pods
  while pods=$(work_pods) && [[ -z $(answers) ]]; do
    if [[ -n $pods ]]; then
      echo "hack/invoice/run.sh: nobody has answered, and there is $pods" >&2
      return 1
    fi
    ((++looks))
    sleep 1
  done
  note "the first answer; $looks looks in $((SECONDS - began)) s found no Pod of any task"
  if ((looks < 3)); then
    echo "hack/invoice/run.sh: that was too short to show anything: give WEEK more seconds" >&2
    return 1
  fi
}

heading "Six orders are placed at once, and people answer in any order"
echo "TIME      ORDER    INVOICE   STATUS          MESSAGE"
place
if [[ -n $faults ]]; then
  until_seen 120 task_in input_required awaiting_approval >/dev/null
  kill_system bridge
  kill_system controller
  restart_caller
  asking=$(until_seen 120 task_in input_required awaiting_approval)
  kill_pods_of "$asking" "its question is open"
  payer=$(until_seen 180 paid)
  kill_pods_of "$payer" "the ERP has just recorded its payment"
  payer=$(until_seen 180 task_in working paying)
  kill_pods_of "$payer" "it pays"
  kill_system bridge
  restart_caller
fi
if [[ -n $week ]]; then
  until_seen 120 all_released >/dev/null
  note "five invoices wait for people, who take a week of $week seconds; no Pod of a task exists"
  kube get mcptasks -o custom-columns=TASK:.metadata.name,INVOICE:.spec.arguments.invoice,STATE:.status.state,REASON:.status.reason,MESSAGE:.status.message
  kube get jobs
  kill_system bridge
  kill_system controller
  a_week_passes
fi
wait "$caller"

heading "The states of each task, as kubectl saw them"
sort -s -k1,1 "$files/watch" | awk '
  $2 == "<none>" {next}
  {sub("<none>", "-", $3); state = $2 "/" $3}
  $1 != invoice {if (invoice) print ""; printf "%s", $1; invoice = $1; last = ""}
  state != last {printf "  %s", state; last = state}
  END {print ""}'

heading "The tasks and their Jobs"
kube get mcptasks -o custom-columns=TASK:.metadata.name,INVOICE:.spec.arguments.invoice,STATE:.status.state,REASON:.status.reason,AT:.status.stateName
kube get jobs -o custom-columns=JOB:.metadata.name,SUCCEEDED:.status.succeeded,FAILED:.status.failed

heading "What was paid"
"${order[@]}" verify "${arguments[@]}"

heading "Look around"
cat <<HINT
  kubectl -n $namespace get mcptools,mcptasks,jobs,pods
  kubectl -n $namespace get events --field-selector involvedObject.kind=McpTask
  kubectl get --raw /api/v1/namespaces/$namespace/services/erp:http/proxy/record

Clean up:
  kubectl delete namespace $namespace
HINT
