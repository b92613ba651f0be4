package charts

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/mcpbridge/limits"
)

// The chart sets the limits that the bridge has by itself: who reads the values knows what holds.
func TestTheChartsLimitsAreTheBridges(t *testing.T) {
	raw, err := os.ReadFile("mcptask/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Bridge struct {
			Limits limits.Limits `json:"limits"`
		} `json:"bridge"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	if got, want := values.Bridge.Limits, limits.Default(); got != want {
		t.Errorf("the chart says %+v, the bridge %+v", got, want)
	}
}
