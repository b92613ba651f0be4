//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/test/harness"
)

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := harness.Run(t.Context(), stdin, "kubectl", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTaskMadeWithKubectl(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute", "fails")
	id, failing := v1alpha1.NewTaskID(), v1alpha1.NewTaskID()
	task := func(name, tool string) string {
		return "apiVersion: mcptask.dev/v1alpha1\nkind: McpTask\nmetadata: {name: " + name + "}\nspec: {toolName: " + tool + "}\n"
	}
	kubectl(t, task(id, "compute")+"---\n"+task(failing, "fails"), "-n", namespace, "create", "-f", "-")
	kubectl(t, "", "-n", namespace, "wait", "--for=condition=Finished", "--timeout=90s", "mcptask/"+id, "mcptask/"+failing)

	table := kubectl(t, "", "-n", namespace, "get", "mcptasks,mcptools,jobs", "-o", "wide")
	for _, words := range []string{"TOOL", "STATE", "REASON", "PROGRESS", "AGE", "OWNER", "JOB", "EXPIRES", id, "Succeeded", "ToolError"} {
		if !strings.Contains(table, words) {
			t.Errorf("kubectl get lacks %q:\n%s", words, table)
		}
	}
	selected := kubectl(t, "", "-n", namespace, "get", "mcptasks", "--field-selector", "spec.toolName=fails,status.state=completed", "-o", "name")
	if strings.TrimSpace(selected) != "mcptask.mcptask.dev/"+failing {
		t.Errorf("selected %q", selected)
	}
	described := kubectl(t, "", "-n", namespace, "describe", "mcptask", failing)
	for _, words := range []string{"exit code 3", "ToolError", "no such host"} {
		if !strings.Contains(described, words) {
			t.Errorf("kubectl describe lacks %q:\n%s", words, described)
		}
	}
}

func TestKubectlExplainReads(t *testing.T) {
	connect(t)
	for field, words := range map[string]string{
		"mcptool.spec.execution":           "execution says how a call is answered",
		"mcptool.spec.execution.maxWait":   "does not understand tasks waits",
		"mcptask.spec.cancel":              "asks for the end of the task",
		"mcptask.status.state":             "The last three are final",
		"mcptool.spec.jobTemplate":         "The Job that does the work",
		"mcptask.status.inputRequests.key": "unique for the life of the task",
	} {
		if out := kubectl(t, "", "explain", field); !strings.Contains(strings.ToLower(strings.Join(strings.Fields(out), " ")), strings.ToLower(words)) {
			t.Errorf("kubectl explain %s lacks %q:\n%s", field, words, out)
		}
	}
}
