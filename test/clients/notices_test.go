//go:build e2e

package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// The tool asks its callers to poll every ten minutes: who is done before was told.
func TestEndOfATaskIsTold(t *testing.T) {
	s := newSite(t, "unhurried")
	for _, c := range []shipped{extModern, extLegacy} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.run(t, s.url, "listen", input{"tool": "unhurried"})
			if saw.Outcome != "completed" || !strings.Contains(saw.Result.text(), "computed unhurriedly") {
				t.Errorf("got %+v", saw)
			}
			if saw.ClosedByServer != "" {
				t.Errorf("the subscription ended without the client: %s", saw.ClosedByServer)
			}
			s.awaitStored(t, saw.TaskID, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		})
	}
}

func TestNewToolIsTold(t *testing.T) {
	for _, c := range []shipped{plainModern, plainLegacy, sdkLegacy} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "compute")
			client := c.start(t, s.url, "tools", nil)
			client.ready()
			s.add(t, "fails")
			saw := client.end()
			slices.Sort(saw.Tools)
			if !slices.Equal(saw.Before, []string{"compute"}) || !slices.Equal(saw.Tools, []string{"compute", "fails"}) {
				t.Errorf("got %v, then %v", saw.Before, saw.Tools)
			}
		})
	}
}
