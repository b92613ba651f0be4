package controllers

import (
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestProgressOnlyGrows(t *testing.T) {
	p := func(current, message string) *v1alpha1.Progress {
		return &v1alpha1.Progress{Current: current, Message: message}
	}
	for _, tc := range []struct {
		before, told *v1alpha1.Progress
		want         string
	}{
		{nil, p("3", "a"), "3 a"},
		{p("3", "a"), p("10", "b"), "10 b"},
		{p("10", "a"), p("9.5", "b"), "10 b"},
		{p("3", "a"), nil, "3 a"},
	} {
		if got := grown(tc.before, tc.told); got.Current+" "+got.Message != tc.want {
			t.Errorf("got %+v, want %s", got, tc.want)
		}
	}
}
