package endpoint

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/seal"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// strictly refuses names that exist, as the API server does.
func (c *cluster) strictly() {
	c.onCreate = func(task *v1alpha1.McpTask) error {
		if _, ok := c.tasks[types.NamespacedName{Namespace: task.Namespace, Name: task.Name}]; ok {
			return apierrors.NewAlreadyExists(schema.GroupResource{Group: "mcptask.dev", Resource: "mcptasks"}, task.Name)
		}
		return nil
	}
}

func keyed(key string, arguments string) map[string]any {
	return map[string]any{"name": "tool", "arguments": json.RawMessage(arguments), "_meta": map[string]any{"mcptask.dev/idempotencyKey": key}}
}

func handleOf(t *testing.T, response *mcptest.Response) string {
	t.Helper()
	var handle struct{ TaskID string }
	if response.Error != nil || json.Unmarshal(response.Result, &handle) != nil || !v1alpha1.ValidTaskID(handle.TaskID) {
		t.Fatalf("no handle but %s", response.Raw)
	}
	return handle.TaskID
}

func TestTheSameCallTwiceIsOneTask(t *testing.T) {
	f := newFixture(t, nil)
	f.cluster.strictly()
	f.offer("tool", nil)
	first := handleOf(t, f.alice.Call(t, "tools/call", keyed("k", `{"a":1,"b":[1,2]}`)))
	if again := handleOf(t, f.alice.Call(t, "tools/call", keyed("k", `{ "b":[1,2], "a":1 }`))); again != first {
		t.Errorf("the second try got %s", again)
	}
	if f.cluster.count() != 1 {
		t.Errorf("there are %d tasks", f.cluster.count())
	}
	failsWith(t, f.alice.Call(t, "tools/call", keyed("k", `{"a":2}`)), -32602, 400, "used before, for a call with other arguments")
	if another := handleOf(t, f.alice.Call(t, "tools/call", keyed("k2", `{"a":1,"b":[1,2]}`))); another == first {
		t.Error("another key leads to the same task")
	}
	bob := f.alice
	bob.Token = "bob"
	if bobs := handleOf(t, bob.Call(t, "tools/call", keyed("k", `{"a":1,"b":[1,2]}`))); bobs == first {
		t.Error("another caller's key leads to the same task")
	}
	for _, key := range []any{"", 7, strings.Repeat("k", 1025)} {
		params := keyed("", `{}`)
		params["_meta"] = map[string]any{"mcptask.dev/idempotencyKey": key}
		failsWith(t, f.alice.Call(t, "tools/call", params), -32602, 400, "mcptask.dev/idempotencyKey")
	}
}

func TestManyTriesAtOnceThroughTwoReplicasAreOneTask(t *testing.T) {
	f := newFixture(t, nil)
	f.cluster.strictly()
	f.offer("tool", nil)
	config := f.Config
	config.Store = tasks.NewStore(nil) // its watch shows nothing
	other := New(config)
	for _, tool := range f.published {
		other.Tools.Observe(tool)
	}
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	var group sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		client := f.alice
		if i%2 == 0 {
			client.URL = server.URL + "/mcp/team"
		}
		group.Go(func() { ids[i] = handleOf(t, client.Call(t, "tools/call", keyed("k", `{}`))) })
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("one got %s, another %s", ids[0], id)
		}
	}
	if f.cluster.count() != 1 {
		t.Errorf("there are %d tasks", f.cluster.count())
	}
}

func TestAKeyLeadsToItsTaskAfterARotation(t *testing.T) {
	f := newFixture(t, nil)
	f.cluster.strictly()
	f.offer("tool", nil)
	first := handleOf(t, f.alice.Call(t, "tools/call", keyed("k", `{}`)))
	rotated := f.Config
	var err error
	if rotated.Keys, err = seal.NewKeys([]byte(strings.Repeat("n", 32)), []byte(strings.Repeat("k", 32))); err != nil {
		t.Fatal(err)
	}
	other := New(rotated)
	for _, tool := range f.published {
		other.Tools.Observe(tool)
	}
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	client := f.alice
	client.URL = server.URL + "/mcp/team"
	if again := handleOf(t, client.Call(t, "tools/call", keyed("k", `{}`))); again != first || f.cluster.count() != 1 {
		t.Errorf("got %s, %d tasks", again, f.cluster.count())
	}
}

func TestWhoCanComeBackMayLeave(t *testing.T) {
	f := newFixture(t, nil)
	f.cluster.strictly()
	f.offer("tool", waits(v1alpha1.TaskSupportForbidden, 0, patience))
	_, leave := start(t, f.alice, "tools/call", keyed("k", `{}`))
	id := f.cluster.only(t).Name
	leave()
	again, _ := start(t, f.alice, "tools/call", keyed("k", `{}`))
	eventually(t, "the second try waits", func() bool { return len(f.slots) == 1 })
	f.cluster.change(t, id, completed(`{"content":[{"type":"text","text":"done"}]}`))
	if response := again(); !strings.Contains(response.Raw, "done") {
		t.Errorf("got %s", response.Raw)
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("the task was cancelled when its caller left")
	}
}
