package tools

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// object is a ready tool; a change may make it another.
func object(name string, change func(*v1alpha1.McpTool)) *v1alpha1.McpTool {
	tool := &v1alpha1.McpTool{}
	tool.Namespace, tool.Name, tool.UID, tool.Generation = "team", name, types.UID(name), 1
	tool.CreationTimestamp = metav1.NewTime(epoch)
	tool.Spec.Description = "d"
	if change != nil {
		change(tool)
	}
	if len(tool.Status.Conditions) == 0 {
		tool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: tool.Generation}}
	}
	return tool
}

func schema(text string) func(*v1alpha1.McpTool) {
	return func(t *v1alpha1.McpTool) { t.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(text)} }
}

type fixture struct {
	*Catalog
	log     strings.Builder
	leftOut int
}

func newFixture() *fixture {
	f := &fixture{}
	f.Catalog = NewCatalog(func() *mcp.Server {
		return mcp.NewServer(&mcp.Implementation{Name: "test"}, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	}, slog.New(slog.NewTextHandler(&f.log, nil)), func(n int) { f.leftOut = n })
	return f
}

// listed are the tools that the MCP server of a namespace shows.
func (f *fixture) listed(t *testing.T, namespace string) []string {
	t.Helper()
	clientSide, serverSide := mcp.NewInMemoryTransports()
	server, err := f.Server(namespace).Connect(t.Context(), serverSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(context.Background(), clientSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestOnlyReadyToolsAreOffered(t *testing.T) {
	f := newFixture()
	condition := func(status metav1.ConditionStatus, generation int64) func(*v1alpha1.McpTool) {
		return func(t *v1alpha1.McpTool) {
			t.Generation = 2
			t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, ObservedGeneration: generation}}
		}
	}
	f.Observe(object("ready", nil))
	f.Observe(object("named", func(t *v1alpha1.McpTool) { t.Spec.Name = "Wire.Name" }))
	f.Observe(object("not-ready", condition(metav1.ConditionFalse, 2)))
	f.Observe(object("unknown", condition(metav1.ConditionUnknown, 2)))
	f.Observe(object("ready-for-an-older-generation", condition(metav1.ConditionTrue, 1)))
	f.Observe(object("no-condition", func(t *v1alpha1.McpTool) { t.Status.Conditions = []metav1.Condition{{Type: "Other"}} }))
	f.Observe(object("being-deleted", func(t *v1alpha1.McpTool) { now := metav1.Now(); t.DeletionTimestamp = &now }))
	if got := f.listed(t, "team"); !slices.Equal(got, []string{"Wire.Name", "ready"}) {
		t.Errorf("team offers %v", got)
	}
	if got := f.listed(t, "other"); len(got) != 0 {
		t.Errorf("another namespace offers %v", got)
	}
	if _, ok := f.Offered("team", "named"); ok {
		t.Error("a tool is offered under the name of its object")
	}
	task := &v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{ToolName: "not-ready"}}
	task.Namespace = "team"
	if f.OfTask(task) == nil {
		t.Error("the tool of a task is not found once it is not ready")
	}
}

func TestToolsAreKeptInStep(t *testing.T) {
	f := newFixture()
	tool := object("a", nil)
	f.Observe(tool)
	first, _ := f.Offered("team", "a")

	status := tool.DeepCopy()
	status.ResourceVersion = "2"
	f.Observe(status)
	if second, _ := f.Offered("team", "a"); second.Input != first.Input || second.Object != status {
		t.Error("a change of the status compiles the schemas again, or is not seen")
	}

	renamed := object("a", func(t *v1alpha1.McpTool) { t.Generation, t.Spec.Name = 2, "b" })
	f.Observe(renamed)
	if got := f.listed(t, "team"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after a new name: %v", got)
	}
	broken := renamed.DeepCopy()
	broken.Status.Conditions[0].Status = metav1.ConditionFalse
	f.Observe(broken)
	if got := f.listed(t, "team"); len(got) != 0 {
		t.Errorf("no longer ready: %v", got)
	}
	f.Observe(renamed)
	f.Forget(renamed)
	if got := f.listed(t, "team"); len(got) != 0 {
		t.Errorf("deleted: %v", got)
	}
	f.Forget(object("never-seen", func(t *v1alpha1.McpTool) { t.Namespace = "nowhere" }))
}

func TestTheOlderOfTwoToolsKeepsTheName(t *testing.T) {
	younger := object("a", func(t *v1alpha1.McpTool) {
		t.Spec.Name = "same"
		t.CreationTimestamp = metav1.NewTime(epoch.Add(time.Second))
	})
	older := object("z", func(t *v1alpha1.McpTool) { t.Spec.Name = "same" })
	for _, order := range [][]*v1alpha1.McpTool{{younger, older}, {older, younger}} {
		f := newFixture()
		for _, tool := range order {
			f.Observe(tool)
		}
		if got, _ := f.Offered("team", "same"); got.Object != older {
			t.Errorf("offered is %s", got.Object.Name)
		}
		f.Forget(older)
		if got, ok := f.Offered("team", "same"); !ok || got.Object != younger {
			t.Error("the name is not handed on")
		}
	}
}

func TestAToolThatCannotBeServedIsLeftOut(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.McpTool)
		want   string
	}{
		"a bad header name":    {schema(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"no spaces"}}}`), "x-mcp-header"},
		"a header of a number": {schema(`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`), "x-mcp-header"},
		"two of one header":    {schema(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`), "x-mcp-header"},
		"no object":            {schema(`{"type":"string"}`), "inputSchema"},
		"no schema":            {schema(`{"type":"object","properties":{"a":{"type":"int"}}}`), "inputSchema"},
		"no output schema": {func(t *v1alpha1.McpTool) {
			t.Spec.OutputSchema = &runtime.RawExtension{Raw: []byte(`{"$ref":"https://example.com/x"}`)}
		}, "outputSchema"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.Observe(object("good", nil))
			for range 3 {
				f.Observe(object("bad", tc.change))
			}
			if got := f.listed(t, "team"); !slices.Equal(got, []string{"good"}) {
				t.Errorf("offered are %v", got)
			}
			if log := f.log.String(); !strings.Contains(log, "mcptool=bad") || !strings.Contains(log, tc.want) || strings.Count(log, "left out") != 1 {
				t.Errorf("the log says %q", log)
			}
			if f.leftOut != 1 {
				t.Errorf("%d tools are counted as left out", f.leftOut)
			}
			f.Observe(object("bad", func(t *v1alpha1.McpTool) { t.Generation = 2 }))
			if got := f.listed(t, "team"); !slices.Equal(got, []string{"bad", "good"}) || f.leftOut != 0 {
				t.Errorf("mended: offered are %v, %d left out", got, f.leftOut)
			}
		})
	}
}

func TestManyNamespacesWithoutToolsShareAServer(t *testing.T) {
	f := newFixture()
	for i := range 100 {
		if f.Server(fmt.Sprint("ns-", i)) != f.empty {
			t.Fatal("a namespace without tools has a server of its own")
		}
	}
}

// Clients are told of changes that they can see, and of no others.
func TestTheRevisionFollowsTheList(t *testing.T) {
	f := newFixture()
	last := f.Revision("team")
	step := func(what string, change func(), seen bool) {
		t.Helper()
		changed := f.Changed()
		change()
		now := f.Revision("team")
		told := false
		select {
		case <-changed:
			told = true
		default:
		}
		if (now > last) != seen || told != seen {
			t.Errorf("%s: the revision went from %d to %d, and a change was told: %v", what, last, now, told)
		}
		last = now
	}
	generation := func(n int64, change func(*v1alpha1.McpTool)) *v1alpha1.McpTool {
		return object("tool", func(tool *v1alpha1.McpTool) {
			tool.Generation = n
			if change != nil {
				change(tool)
			}
		})
	}
	unready := func(tool *v1alpha1.McpTool) {
		tool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	}
	step("a tool that is not ready", func() { f.Observe(generation(1, unready)) }, false)
	step("it becomes ready", func() { f.Observe(generation(1, nil)) }, true)
	step("its status is written again", func() { f.Observe(generation(1, nil)) }, false)
	step("its Job template changes", func() { f.Observe(generation(2, nil)) }, false)
	step("its schema changes", func() { f.Observe(generation(3, schema(`{"type":"object","properties":{"a":{}}}`))) }, true)
	step("it ceases to be ready", func() { f.Observe(generation(3, unready)) }, true)
	step("it is gone", func() { f.Forget(generation(3, nil)) }, false)
	changed := f.Changed()
	f.Observe(object("tool", func(tool *v1alpha1.McpTool) { tool.Namespace = "other" }))
	if <-changed; f.Revision("team") != last {
		t.Error("a tool of another namespace changed this one's list")
	}
}
