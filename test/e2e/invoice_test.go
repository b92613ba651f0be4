//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/order"
	"github.com/mcptask/mcptask/test/harness"
)

// withInvoices is a namespace with the ERP system and the tool of examples/invoice, and a client of the ERP.
func withInvoices(t *testing.T, cluster *harness.Cluster) (namespace string, erp *erpclient.Client) {
	t.Helper()
	namespace = cluster.Namespace(t)
	for _, file := range []string{"erp.yaml", "tool.yaml"} {
		manifest, err := os.ReadFile(filepath.Join(harness.Root(), "examples/invoice", file))
		if err != nil {
			t.Fatal(err)
		}
		cluster.Apply(t, namespace, strings.ReplaceAll(string(manifest), "image: mcptask.dev/examples:dev", "image: IMAGE"))
	}
	if _, err := harness.Run(t.Context(), "", "kubectl", "-n", namespace, "rollout", "status", "deployment/erp", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	cluster.AwaitTools(t, namespace)
	return namespace, erpclient.New("http://"+harness.Forward(t, namespace, "service/erp", 80), 0)
}

// payer is a client that answers questions.
func payer(t *testing.T, cluster *harness.Cluster, namespace string) *mcpclient.Client {
	t.Helper()
	token := cluster.Token(t, namespace, "agent", harness.Audience(namespace))
	return mcpclient.New(cluster.Replicas(t)[0]+"/mcp/"+namespace, mcpclient.Options{
		Tasks: true, Capabilities: order.Capabilities, Token: func(context.Context) (string, error) { return token, nil },
	})
}

// invoiceOrders are those of the example.
func invoiceOrders(t *testing.T) []order.Order {
	t.Helper()
	orders, err := order.ReadOrders(filepath.Join(harness.Root(), "examples/invoice/orders.json"))
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

// states collects the states and the tool's names for them that the namespace's tasks go through, as
// "STATE/NAME STATE/NAME", from a watch: nothing that was stored is missed. The function it returns waits until each task
// has ended, and gives them by the tasks' names.
func states(t *testing.T, cluster *harness.Cluster, namespace string, tasks int) func() map[string]string {
	t.Helper()
	watcher, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(stop)
	var list v1alpha1.McpTaskList
	seen, err := watcher.Watch(ctx, &list, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(seen.Stop)
	return func() map[string]string {
		t.Helper()
		all, last, ended := map[string]string{}, map[string]string{}, map[string]bool{}
		for len(ended) < tasks {
			event, open := <-seen.ResultChan()
			if !open {
				t.Fatalf("the watch ended; seen so far: %v", all)
			}
			task, ok := event.Object.(*v1alpha1.McpTask)
			if !ok || event.Type == watch.Deleted {
				t.Fatalf("unexpected %s %T", event.Type, event.Object)
			}
			now := string(task.Status.State) + "/" + task.Status.StateName
			if now != last[task.Name] && task.Status.State != "" {
				all[task.Name] = strings.TrimSpace(all[task.Name] + " " + now)
				last[task.Name] = now
			}
			if task.Status.State.Terminal() {
				ended[task.Name] = true
			}
		}
		return all
	}
}

// The states of the work appear in this order, each with the state of the task that goes with it, and no other. What asks
// and what ends is always seen. What the work only says of itself goes unseen when the next comes within the half second in
// which several reports become one write; and where a question is about to be asked, and where its answer has just come, the
// task may be seen working for a moment.
const pathToApproval = `^(working/ )?(working/validating )?` +
	`(working/awaiting_approval )?input_required/awaiting_approval (working/awaiting_approval )?`

var (
	pathToPaid = regexp.MustCompile(pathToApproval +
		`(working/reconciling )?(working/paying )?(working/paid )?completed/paid$`)
	pathWithCorrection = regexp.MustCompile(pathToApproval + `(working/reconciling )?` +
		`(working/awaiting_correction )?input_required/awaiting_correction (working/awaiting_correction )?` +
		`(working/paying )?(working/paid )?completed/paid$`)
	pathToDeclined = regexp.MustCompile(pathToApproval + `(working/declined )?completed/declined$`)
	pathToRejected = regexp.MustCompile(`^(working/ )?(working/validating )?(working/rejected )?completed/rejected$`)
)

func TestInvoiceGoesThroughItsStates(t *testing.T) {
	cluster := connect(t)
	namespace, erp := withInvoices(t, cluster)
	collected := states(t, cluster, namespace, 1)
	agent := payer(t, cluster, namespace)
	called, err := agent.CallTool(t.Context(), order.Tool,
		json.RawMessage(`{"invoice":"INV-1003","vendor":"Chair Makers","amount":"4301.25","currency":"EUR"}`), mcpclient.CallOptions{})
	if err != nil || called.Task == nil {
		t.Fatalf("%v, %+v", err, called)
	}
	id := called.Task.ID

	approval := question(t, agent, id, `"Pay 4301.25 EUR to Chair Makers for invoice INV-1003?"`)
	answer(t, agent, id, approval, `{"action":"accept","content":{"approve":true,"comment":"fine"}}`)
	correction := question(t, agent, id, `"enum":["4301.25","4310.25"]`)
	if correction == approval {
		t.Errorf("two questions have the key %s", approval)
	}
	answer(t, agent, id, correction, `{"action":"accept","content":{"amount":"4310.25"}}`)

	task := finish(t, agent, called)
	want := fmt.Sprintf(`{"currency":"EUR","invoice":"INV-1003","paidAmount":"4310.25","paymentKey":"%s/INV-1003","status":"paid"}`, id)
	if task.Status != mcpclient.Completed || task.Result.IsError || !sameJSON(t, task.Result.StructuredContent, want) {
		t.Errorf("got %s, want %s", task.Raw, want)
	}
	if path := collected()[id]; !pathWithCorrection.MatchString(path) {
		t.Errorf("the states were %s", path)
	}
	payments, err := erp.Payments(t.Context(), "INV-1003")
	if err != nil || len(payments) != 1 || payments[0].Key != id+"/INV-1003" || payments[0].Amount.String() != "4310.25" {
		t.Errorf("payments %+v, %v", payments, err)
	}
	stored := stored(t, cluster, namespace, id)
	if len(stored.Status.InputRequests) != 2 || len(stored.Spec.InputResponses) != 2 || len(stored.Status.Runtime) != 0 {
		t.Errorf("questions %+v, answers %+v, runtime %+v", stored.Status.InputRequests, stored.Spec.InputResponses, stored.Status.Runtime)
	}
}

// question waits for a question with these words and gives its key.
func question(t *testing.T, agent *mcpclient.Client, id, words string) (key string) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, "the task asks "+words, func(ctx context.Context) error {
		task, err := agent.GetTask(ctx, id)
		if err != nil {
			return err
		}
		for k, request := range task.InputRequests {
			if key = k; strings.Contains(string(request.Params), words) {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %s", task.Status, task.Raw)
	})
	return key
}

func answer(t *testing.T, agent *mcpclient.Client, id, key, response string) {
	t.Helper()
	if err := agent.UpdateTask(t.Context(), id, map[string]any{key: json.RawMessage(response)}); err != nil {
		t.Fatal(err)
	}
}

func sameJSON(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	var value any
	if err := json.Unmarshal(got, &value); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	text, err := json.Marshal(value) // with sorted keys
	if err != nil {
		t.Fatal(err)
	}
	return string(text) == want
}

func TestInvoicesAnsweredInAnyOrderArePaidOnce(t *testing.T) {
	cluster := connect(t)
	namespace, erp := withInvoices(t, cluster)
	orders := invoiceOrders(t)
	collected := states(t, cluster, namespace, len(orders))
	journal, err := order.OpenJournal(filepath.Join(t.TempDir(), "journal.json"))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("the people's seed is %d", seed)
	caller := &order.Caller{
		Agent: payer(t, cluster, namespace), Stock: erp, Journal: journal, Think: 10 * time.Second,
		Random: rand.New(rand.NewPCG(seed, 0)), Show: func(e order.Event) { t.Logf("%s %s: %s", e.Order, e.What, e.Words) },
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	if err := caller.Place(ctx, orders); err != nil {
		t.Fatal(err)
	}
	record, err := erp.Record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if wrong, err := order.Verify(&said, orders, journal, record); err != nil || wrong > 0 {
		t.Errorf("%v\n%s", err, said.String())
	}
	paths := collected()
	for i, want := range []struct {
		outcome order.Outcome
		path    *regexp.Regexp
	}{
		{order.Paid, pathToPaid}, {order.Paid, pathToPaid}, {order.Paid, pathWithCorrection},
		{order.Declined, pathToDeclined}, {order.Paid, pathToPaid}, {order.ToClarify, pathToRejected},
	} {
		entry, _ := journal.Entry(orders[i].Order)
		if entry.Outcome != want.outcome {
			t.Errorf("%s is %s: %s; want %s", orders[i].Order, entry.Outcome, entry.Detail, want.outcome)
		}
		if !want.path.MatchString(paths[entry.Task]) {
			t.Errorf("the states of %s were %s", orders[i].Order, paths[entry.Task])
		}
	}
}

// The example's script kills the caller, the bridge, the controller and the Pods of Jobs half-way.
func TestInvoicesArePaidOnceWhateverIsKilled(t *testing.T) {
	cluster := connect(t)
	namespace := cluster.Namespace(t)
	cmd := exec.CommandContext(t.Context(), "hack/invoice/run.sh")
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "FAULTS=1", "INVOICE_NAMESPACE="+namespace, "EXAMPLES_IMAGE="+harness.ExamplesImage())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Exactly one payment for each paid invoice, and none for the others.") {
		t.Fatalf("%v\n%s", err, out)
	}
	var jobs batchv1.JobList
	if err := cluster.Client.List(t.Context(), &jobs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(jobs.Items, func(job batchv1.Job) bool { return job.Status.Failed > 0 && job.Status.Succeeded == 1 }) {
		t.Errorf("no Job needed a second attempt: nothing was killed\n%s", out)
	}
}

// The example's script lets people take a week, which is 60 seconds long here, kills controller and bridges meanwhile, and looks all
// the time that no Pod of a task exists before the first answer.
func TestInvoicesWaitAWeekWithoutAPod(t *testing.T) {
	cluster := connect(t)
	namespace := cluster.Namespace(t)
	cmd := exec.CommandContext(t.Context(), "hack/invoice/run.sh")
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "WEEK=60", "INVOICE_NAMESPACE="+namespace, "EXAMPLES_IMAGE="+harness.ExamplesImage())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "found no Pod of any task") || !strings.Contains(string(out), "Exactly one payment for each paid invoice, and none for the others.") {
		t.Fatal(err)
	}
	var tasks v1alpha1.McpTaskList
	if err := cluster.Client.List(t.Context(), &tasks, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, task := range tasks.Items {
		pods += len(task.Status.PodUIDs)
	}
	// Six questions, one of which comes second; each has its Pod taken and given anew. Accidents at the ERP may cost more.
	if pods < 6+6 {
		t.Errorf("%d Pods for all tasks", pods)
	}
}
