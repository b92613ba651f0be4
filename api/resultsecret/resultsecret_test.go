package resultsecret

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// stored are Secrets by name.
type stored map[types.NamespacedName]*corev1.Secret

func (s stored) create(_ context.Context, secret *corev1.Secret) error {
	at := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	if there, ok := s[at]; ok {
		return Same(there, secret)
	}
	secret = secret.DeepCopy() // the part is used again for the next one
	s[at] = secret
	return nil
}

func (s stored) get(_ context.Context, at types.NamespacedName) (*corev1.Secret, error) {
	if secret, ok := s[at]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, at.Name)
}

func newTask() *v1alpha1.McpTask {
	task := &v1alpha1.McpTask{}
	task.Namespace, task.Name, task.UID = "team", v1alpha1.NewTaskID(), "uid-1"
	return task
}

// write stores a result as the task's.
func write(t *testing.T, s stored, task *v1alpha1.McpTask, raw []byte) {
	t.Helper()
	hash := Hash(raw)
	if err := Write(t.Context(), task, hash, int64(len(raw)), bytes.NewReader(raw), s.create); err != nil {
		t.Fatal(err)
	}
	task.Status.Result = &v1alpha1.TaskResult{SHA256: hash, SecretRef: Reference(task, hash, int64(len(raw)))}
}

func TestWhatIsStoredIsReadAgain(t *testing.T) {
	for _, size := range []int{1, PartBytes - 1, PartBytes, PartBytes + 1, 3*PartBytes + 5, MaxBytes} {
		s, task := stored{}, newTask()
		raw := bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
		write(t, s, task, raw)
		if want := (size + PartBytes - 1) / PartBytes; len(s) != want || int(task.Status.Result.SecretRef.Parts) != want {
			t.Errorf("%d bytes make %d Secrets, said to be %d", size, len(s), task.Status.Result.SecretRef.Parts)
		}
		for at, secret := range s {
			if len(validation.IsDNS1123Subdomain(at.Name)) > 0 || !*secret.Immutable || secret.OwnerReferences[0].UID != task.UID || len(secret.Data[Key]) > PartBytes {
				t.Errorf("%s: %+v", at, secret.ObjectMeta)
			}
		}
		got, err := Read(t.Context(), task, s.get)
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%d bytes are read as %d, %v", size, len(got), err)
		}
	}
}

func TestStoringTheSameAgainMakesTheSame(t *testing.T) {
	s, task := stored{}, newTask()
	raw := bytes.Repeat([]byte("x"), PartBytes+1)
	write(t, s, task, raw)
	write(t, s, task, raw)
	if len(s) != 2 {
		t.Errorf("there are %d Secrets", len(s))
	}
	again := task.DeepCopy()
	again.UID = "uid-2"
	write(t, s, again, raw)
	if len(s) != 4 {
		t.Error("a task that was made anew shares Secrets that go with the old one")
	}
}

func TestAResultThatIsNotWhatWasSaidIsNotStoredWhole(t *testing.T) {
	s, task := stored{}, newTask()
	raw := bytes.Repeat([]byte("x"), PartBytes+1)
	err := Write(t.Context(), task, Hash([]byte("other")), int64(len(raw)), bytes.NewReader(raw), s.create)
	var mismatch *Mismatch
	if !errors.As(err, &mismatch) || mismatch.Got != Hash(raw) || len(s) != 1 {
		t.Errorf("got %v, with %d Secrets", err, len(s))
	}
	if err := Write(t.Context(), task, Hash(raw), int64(len(raw)), bytes.NewReader(raw[:PartBytes]), s.create); err == nil {
		t.Error("a result that ends too early is taken for whole")
	}
}

func TestWhatWasTamperedWithIsDamaged(t *testing.T) {
	for words, tamper := range map[string]func(stored, *v1alpha1.McpTask, types.NamespacedName){
		"is missing": func(s stored, _ *v1alpha1.McpTask, at types.NamespacedName) { delete(s, at) },
		"is of the type Opaque": func(s stored, _ *v1alpha1.McpTask, at types.NamespacedName) {
			s[at].Type = corev1.SecretTypeOpaque
		},
		"does not belong to the task": func(s stored, _ *v1alpha1.McpTask, at types.NamespacedName) {
			s[at].OwnerReferences[0].UID = "another"
		},
		"holds 0 bytes":           func(s stored, _ *v1alpha1.McpTask, at types.NamespacedName) { s[at].Data = nil },
		"one of them was changed": func(s stored, _ *v1alpha1.McpTask, at types.NamespacedName) { s[at].Data[Key][5] = 'y' },
		"is not where the result": func(_ stored, task *v1alpha1.McpTask, _ types.NamespacedName) {
			task.Status.Result.SecretRef.Name = "db-password"
		},
		"other parts of the result, 1 in all": func(_ stored, task *v1alpha1.McpTask, _ types.NamespacedName) {
			task.Status.Result.SecretRef.Parts = 1
		},
	} {
		s, task := stored{}, newTask()
		write(t, s, task, bytes.Repeat([]byte("x"), PartBytes+1))
		tamper(s, task, types.NamespacedName{Namespace: task.Namespace, Name: task.Status.Result.SecretRef.Name})
		_, err := Read(t.Context(), task, s.get)
		var damaged *Damaged
		if !errors.As(err, &damaged) || !strings.Contains(err.Error(), words) || !strings.HasPrefix(damaged.Secret, "team/") {
			t.Errorf("want %q, got %v", words, err)
		}
	}
}

func TestAnotherSecretIsNotTakenForAPart(t *testing.T) {
	s, task := stored{}, newTask()
	raw := []byte(`{"content":[]}`)
	write(t, s, task, raw)
	for _, secret := range s {
		secret.Data[Key] = []byte("other")
	}
	if err := Write(t.Context(), task, Hash(raw), int64(len(raw)), bytes.NewReader(raw), s.create); err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyHashesAreTakenForHashes(t *testing.T) {
	if !ValidHash(Hash(nil)) {
		t.Error("a hash is refused")
	}
	for _, text := range []string{"", "00", strings.ToUpper(Hash(nil)), strings.Repeat("z", 64), Hash(nil) + "00", "../../" + Hash(nil)[6:]} {
		if ValidHash(text) {
			t.Errorf("%q is taken for a hash", text)
		}
	}
}
