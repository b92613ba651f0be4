package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
)

func TestALineSaysWhoDidWhatAndNothingThatIsNot(t *testing.T) {
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	log := New(slog.New(slog.NewJSONHandler(&out, nil)), registry)
	log.Write(Event{
		Outcome: Denied, Who: auth.Principal{Identity: v1alpha1.Identity{Issuer: "https://a", Subject: "alice"}, User: "oidc:alice", Groups: []string{"g"}},
		Method: "tasks/get", Namespace: "team", Task: "a\n" + strings.Repeat("x", 2*longest), Why: "not the owner of the task",
	})
	if strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("not one line: %q", out.String())
	}
	line := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	want := []string{"audit", "issuer", "level", "method", "msg", "namespace", "outcome", "subject", "task", "time", "why"}
	if got := slices.Sorted(maps.Keys(line)); !slices.Equal(got, want) {
		t.Errorf("the fields are %v, want %v", got, want)
	}
	if task := line["task"].(string); len(task) > longest+len("…") || line["audit"] != true || line["outcome"] != "denied" || line["subject"] != "alice" {
		t.Errorf("the line is %v", line)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "mcptask_bridge_audit_events_total" || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("counted is %v, %v", families, err)
	}
}
