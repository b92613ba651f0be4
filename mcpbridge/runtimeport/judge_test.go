package runtimeport

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func raw(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }

// full is a report with every field.
func full(sequence int64) *v1alpha1.RuntimeReport {
	data := raw(`{"a":1,"b":2}`)
	return &v1alpha1.RuntimeReport{
		PodUID: "pod", Sequence: sequence, StateName: "s", Progress: &v1alpha1.Progress{Current: "1", Total: "2", Message: "m"}, Outcome: "failed",
		InputRequests: []v1alpha1.InputRequest{{Key: "k", Method: "elicitation/create", Params: raw(`{"a":1,"b":2}`)}},
		Result:        &v1alpha1.TaskResult{SHA256: "h", Size: 3}, Error: &v1alpha1.TaskError{Code: 1, Message: "e", Data: &data},
	}
}

// changes are the ways in which a report can tell something else. Those that are heavy are written at once.
var changes = map[string]struct {
	heavy  bool
	change func(*v1alpha1.RuntimeReport)
}{
	"stateName":        {false, func(r *v1alpha1.RuntimeReport) { r.StateName = "t" }},
	"progress.current": {false, func(r *v1alpha1.RuntimeReport) { r.Progress.Current = "2" }},
	"progress.total":   {false, func(r *v1alpha1.RuntimeReport) { r.Progress.Total = "3" }},
	"progress.message": {false, func(r *v1alpha1.RuntimeReport) { r.Progress.Message = "n" }},
	"no progress":      {false, func(r *v1alpha1.RuntimeReport) { r.Progress = nil }},
	"outcome":          {true, func(r *v1alpha1.RuntimeReport) { r.Outcome = "cancelled" }},
	"a question more": {true, func(r *v1alpha1.RuntimeReport) {
		r.InputRequests = append(r.InputRequests, v1alpha1.InputRequest{Key: "l"})
	}},
	"no question":          {true, func(r *v1alpha1.RuntimeReport) { r.InputRequests = nil }},
	"another question":     {true, func(r *v1alpha1.RuntimeReport) { r.InputRequests[0].Key = "l" }},
	"a question's params":  {true, func(r *v1alpha1.RuntimeReport) { r.InputRequests[0].Params = raw(`{}`) }},
	"a result's hash":      {true, func(r *v1alpha1.RuntimeReport) { r.Result.SHA256 = "i" }},
	"a result's full size": {true, func(r *v1alpha1.RuntimeReport) { r.Result.Size = 4 }},
	"no result":            {true, func(r *v1alpha1.RuntimeReport) { r.Result = nil }},
	"error.code":           {true, func(r *v1alpha1.RuntimeReport) { r.Error.Code = 2 }},
	"error.message":        {true, func(r *v1alpha1.RuntimeReport) { r.Error.Message = "f" }},
	"error.data":           {true, func(r *v1alpha1.RuntimeReport) { r.Error.Data.Raw = []byte(`{"a":1}`) }},
	"no error.data":        {true, func(r *v1alpha1.RuntimeReport) { r.Error.Data = nil }},
	"no error":             {true, func(r *v1alpha1.RuntimeReport) { r.Error = nil }},
}

func TestOnlyNewsAreWritten(t *testing.T) {
	stored := full(7)
	stored.Result.Inline = &runtime.RawExtension{Raw: []byte(`{"content":[]}`)}
	stored.InputRequests[0].Params = raw(`{"b":2, "a":1.0}`) // as the API server may write it
	now := metav1.NowMicro()
	stored.ReportedAt = &now
	task := &v1alpha1.McpTask{Status: v1alpha1.McpTaskStatus{Runtime: []v1alpha1.RuntimeReport{{PodUID: "other", Sequence: 99}, *stored}}}
	for name, c := range changes {
		told := full(8)
		c.change(told)
		if v := judge(task, told, 0); v != (verdict{outcome: written, sequence: 8}) {
			t.Errorf("%s: got %+v", name, v)
		}
		if weighty(stored, told) != c.heavy {
			t.Errorf("%s: written at once: %v", name, !c.heavy)
		}
		told.Sequence = 7
		if v := judge(task, told, 0); v != (verdict{outcome: stale, sequence: 7}) {
			t.Errorf("%s with an old sequence: got %+v", name, v)
		}
	}
	for name, tc := range map[string]struct {
		sequence, seen int64
		want           verdict
	}{
		"older":                               {3, 0, verdict{outcome: stale, sequence: 7}},
		"the same again":                      {7, 0, verdict{outcome: stale, sequence: 7}},
		"the next, unchanged":                 {8, 0, verdict{outcome: unchanged, sequence: 8}},
		"unchanged, one is missing":           {9, 0, verdict{outcome: written, sequence: 9}},
		"unchanged, the one before was seen":  {9, 8, verdict{outcome: unchanged, sequence: 9}},
		"unchanged, seen long before another": {9, 3, verdict{outcome: written, sequence: 9}},
		"seen before":                         {8, 10, verdict{outcome: unchanged, sequence: 8}},
	} {
		if v := judge(task, full(tc.sequence), tc.seen); v != tc.want {
			t.Errorf("%s: got %+v", name, v)
		}
	}
	first := full(1)
	first.PodUID = "new"
	if v := judge(task, first, 0); v != (verdict{outcome: written, sequence: 1}) {
		t.Errorf("a Pod's first: got %+v", v)
	}
	if weighty(nil, &v1alpha1.RuntimeReport{StateName: "s"}) || !weighty(nil, &v1alpha1.RuntimeReport{Outcome: "cancelled"}) {
		t.Error("what weighs in a first report is not what weighs in a later one")
	}
}

// questionOf is a report with a question of so many bytes.
func questionOf(pod types.UID, n int) v1alpha1.RuntimeReport {
	return v1alpha1.RuntimeReport{PodUID: pod, Sequence: 1,
		InputRequests: []v1alpha1.InputRequest{{Key: "k", Params: raw(`{"m":"` + strings.Repeat("x", n) + `"}`)}}}
}

func TestTheReportsOfATaskHaveABound(t *testing.T) {
	task := &v1alpha1.McpTask{}
	task.Status.Runtime = []v1alpha1.RuntimeReport{questionOf("one", 250<<10), questionOf("two", 250<<10)}
	told := questionOf("three", 20<<10)
	var why *refusal
	if err := fits(task, &told); !errors.As(err, &why) || why.status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %v", err)
	}
	told = questionOf("two", 250<<10)
	if err := fits(task, &told); err != nil {
		t.Errorf("a report in the place of another: %v", err)
	}
}

func TestProgressIsDueTwoSecondsAfterTheLastReport(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		reported []time.Duration
		want     time.Duration
	}{
		"none yet":                    {nil, 0},
		"just now":                    {[]time.Duration{0}, every},
		"one second ago":              {[]time.Duration{-time.Second}, time.Second},
		"the newest counts":           {[]time.Duration{-time.Second, -time.Minute, -1500 * time.Millisecond}, time.Second},
		"long ago":                    {[]time.Duration{-time.Hour}, 0},
		"by a clock that is ahead":    {[]time.Duration{time.Hour}, every},
		"by a clock that lags behind": {[]time.Duration{-time.Hour, -every}, 0},
	} {
		task := &v1alpha1.McpTask{Status: v1alpha1.McpTaskStatus{Runtime: []v1alpha1.RuntimeReport{{PodUID: "never"}}}}
		for _, ago := range tc.reported {
			at := metav1.NewMicroTime(now.Add(ago))
			task.Status.Runtime = append(task.Status.Runtime, v1alpha1.RuntimeReport{ReportedAt: &at})
		}
		if got := dueAfter(task, now).Sub(now); got != tc.want {
			t.Errorf("%s: due in %s", name, got)
		}
	}
}
