//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/results"
)

// parts are the Secrets of a task's result.
func parts(t *testing.T, task *v1alpha1.McpTask) []corev1.Secret {
	t.Helper()
	var list corev1.SecretList
	if err := k8s.List(t.Context(), &list, client.InNamespace(task.Namespace), client.MatchingLabels{v1alpha1.LabelTask: task.Name}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// storedResult is the result of a task, read from its Secrets.
func storedResult(t *testing.T, task *v1alpha1.McpTask) []byte {
	t.Helper()
	raw, err := resultsecret.Read(t.Context(), task, func(ctx context.Context, at types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, k8s.Get(ctx, at, secret)
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLargeResultIsStoredInSecretsBeforeTheTaskEnds(t *testing.T) {
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.Result.MaxBytes = 900_000 })
	pod := awaitPod(t, task)
	message := strings.Repeat("0123456789\n", 60_000)
	// An operator before this one stored the result, and ended before it could say so.
	kept := results.Build(v1alpha1.ResultSourceAuto, &decide.Output{Succeeded: true}, results.Log{}, message, 900_000)
	if err := resultsecret.Write(t.Context(), task, resultsecret.Hash(kept.Raw), int64(len(kept.Raw)), bytes.NewReader(kept.Raw),
		func(ctx context.Context, part *corev1.Secret) error { return k8s.Create(ctx, part) }); err != nil {
		t.Fatal(err)
	}
	before := parts(t, task)

	play(t, pod, ended(0, message))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	r := task.Status.Result
	if r == nil || r.Inline != nil || r.SecretRef == nil || r.SecretRef.Parts != 2 || r.Truncated || r.IsError {
		t.Fatalf("result %+v", r)
	}
	var got struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(storedResult(t, task), &got); err != nil || len(got.Content) != 1 || got.Content[0].Text != strings.TrimSpace(message) {
		t.Errorf("%v, %d pieces", err, len(got.Content))
	}
	after := parts(t, task)
	same := func(a, b corev1.Secret) bool { return a.UID == b.UID }
	if len(before) != 2 || !slices.EqualFunc(before, after, same) {
		t.Errorf("the same result made %d Secrets, and then %d", len(before), len(after))
	}

	if err := k8s.Delete(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	for i := range after {
		eventuallyGone(t, &after[i])
	}
}

func TestResultIsKeptUpToWhatItsToolAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		limit     int64
		message   string
		parts     int32
		truncated bool
	}{
		"small":              {1 << 20, "done", 0, false},
		"more than inline":   {1 << 20, strings.Repeat("x", 20_000), 1, false},
		"more than is kept":  {100_000, strings.Repeat("x", 200_000), 1, true},
		"kept in the task":   {10_000, strings.Repeat("x", 200_000), 0, true},
		"no tool says less":  {1024, strings.Repeat("x", 5000), 0, true},
		"quotes and control": {1 << 20, strings.Repeat("\"\x01", 50_000), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.Result.MaxBytes = tc.limit })
			play(t, awaitPod(t, task), ended(0, tc.message))
			awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
			r := task.Status.Result
			var raw []byte
			if tc.parts == 0 && r.Inline != nil {
				raw = r.Inline.Raw
			} else if r.SecretRef != nil && r.SecretRef.Parts == tc.parts {
				raw = storedResult(t, task)
			}
			if len(raw) == 0 || r.Truncated != tc.truncated || int64(len(raw)) > tc.limit {
				t.Errorf("%d bytes of %+v", len(raw), r)
			}
			if says := strings.Contains(string(raw), "To see all of it"); says != tc.truncated {
				t.Errorf("result %.300s", raw)
			}
		})
	}
}

func TestLargeReportedResultIsTakenFromTheDecidingPodAlone(t *testing.T) {
	ref := func(letter string) string {
		return fmt.Sprintf(`"outcome":"result","result":{"secretRef":{"name":"first-%s-0","parts":3},"sha256":"%s","size":1500000}`, letter, strings.Repeat(letter, 64))
	}
	task, pod := runningWork(t, func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](1) })
	tell(t, task, pod, `"sequence":1,`+ref("a"))
	play(t, pod, ended(1, ""))
	retry := awaitNamedRetry(t, task, pod)
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/runtime/-","value":{"podUID":%q,"sequence":1,%s}}]`, retry.UID, ref("b"))
	if err := k8s.Status().Patch(t.Context(), task.DeepCopy(), jsonPatch(patch)); err != nil {
		t.Fatal(err)
	}
	play(t, retry, ended(3, ""))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError)
	r := task.Status.Result
	if r.SecretRef == nil || r.SecretRef.Name != "first-b-0" || r.SHA256 != strings.Repeat("b", 64) || r.Size != 1_500_000 || !r.IsError || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("result %+v", r)
	}
}

func TestAQuotaOnSecretsCutsAResultAndFailsNothing(t *testing.T) {
	task := calledTool(t, nil)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: "no-secrets"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}
	create(t, quota)
	eventually(t, "the quota is in force", func() error {
		if err := read(t, quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("status %+v", quota.Status)
		}
		return nil
	})
	play(t, awaitPod(t, task), ended(0, strings.Repeat("x", 50_000)+"the end"))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	r := task.Status.Result
	if r.Inline == nil || !r.Truncated || !strings.Contains(string(r.Inline.Raw), "the end") || len(parts(t, task)) != 0 {
		t.Errorf("result %+v", r)
	}
}

func TestResultSecretsAreMadeByMcptaskAlone(t *testing.T) {
	namespace := newGuardedNamespace(t)
	ctx := t.Context()
	task := unownedTask(t, namespace)
	part := func(change func(*corev1.Secret)) *corev1.Secret {
		var made *corev1.Secret
		raw := []byte(`{"content":[]}`)
		_ = resultsecret.Write(ctx, task, resultsecret.Hash(raw), int64(len(raw)), bytes.NewReader(raw), func(_ context.Context, s *corev1.Secret) error { made = s; return nil })
		if change != nil {
			change(made)
		}
		return made
	}
	for user, c := range map[string]client.Client{"the controller": as(t, controllerUser), "the bridge": as(t, bridgeUser)} {
		if err := c.Create(ctx, part(nil), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		for words, change := range map[string]func(*corev1.Secret){
			"type: must be":            func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
			"immutable: must be":       func(s *corev1.Secret) { s.Immutable = nil },
			"metadata.ownerReferences": func(s *corev1.Secret) { s.OwnerReferences = nil },
			"Secret's own name":        func(s *corev1.Secret) { s.Name = "another" },
		} {
			expectDenied(t, c.Create(ctx, part(change), client.DryRunAll), words)
		}
	}
	expectDenied(t, as(t, alice).Create(ctx, part(nil), client.DryRunAll), "only mcptask makes Secrets")
	expectAllowed(t, as(t, alice).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hers"}}, client.DryRunAll))
	expectAllowed(t, as(t, alice, restorers).Create(ctx, part(nil), client.DryRunAll))
}
