// Package resultsecret is how a result is stored that is too large for its task: cut into parts, one immutable Secret each.
//
// The Secrets belong to the task and go with it. Their names follow from the task and from the hash of the result, so that
// whoever stores the same result again, after a crash or through another replica, makes the same objects; and so that who reads
// follows no name that somebody wrote.
package resultsecret

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// Type of the Secrets. A policy of the chart reserves it for the parts of mcptask.
	Type corev1.SecretType = "mcptask.dev/result"
	// Key of a Secret's data that holds the part.
	Key = "result"
	// PartBytes is the size of every part but the last one: half of what a Secret may hold.
	PartBytes = 512 << 10
	// MaxBytes is the largest result that is stored.
	MaxBytes = 8 << 20
	// DefaultBytes is the largest result of a tool that does not say, or is gone.
	DefaultBytes = 1 << 20
)

// Damaged says that a stored result cannot be had any more, and which Secret is to blame.
type Damaged struct {
	// Secret is its namespace and name.
	Secret string
	// Why in words.
	Why string
}

func (d *Damaged) Error() string { return "the Secret " + d.Secret + " " + d.Why }

// Hash is the hash of a result, as a task's status has it.
func Hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// ValidHash says whether a text has the form of a hash.
func ValidHash(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == text
}

// Reference is where a result with this hash, of so many bytes, is stored.
func Reference(task *v1alpha1.McpTask, hash string, size int64) *v1alpha1.SecretReference {
	return &v1alpha1.SecretReference{Name: name(task, hash, 0), Parts: Parts(size)}
}

// Parts is how many Secrets hold so many bytes.
func Parts(size int64) int32 {
	return int32((size + PartBytes - 1) / PartBytes) //nolint:gosec // a result has at most a tool's maxBytes, a few Secrets
}

// name of a part. A task that was made anew under an old name has other ones.
func name(task *v1alpha1.McpTask, hash string, part int) string {
	sum := sha256.Sum256([]byte(string(task.UID) + "/" + hash))
	return task.Name + "-" + hex.EncodeToString(sum[:8]) + "-" + strconv.Itoa(part)
}

// Write stores a result that is read from in, part by part: no more than one is in memory. create stores a Secret,
// whose data it must not keep; one that is there already is no error of its. The result is whole once Write has returned nil: it must have so many bytes and this hash.
func Write(ctx context.Context, task *v1alpha1.McpTask, hash string, size int64, in io.Reader, create func(context.Context, *corev1.Secret) error) error {
	sum := sha256.New()
	part := make([]byte, min(size, PartBytes))
	for i, left := 0, size; left > 0; i++ {
		part = part[:min(left, PartBytes)]
		if _, err := io.ReadFull(in, part); err != nil {
			return fmt.Errorf("reading a result: %w", err)
		}
		left -= int64(len(part))
		sum.Write(part)
		if got := hex.EncodeToString(sum.Sum(nil)); left == 0 && got != hash {
			return &Mismatch{Got: got}
		}
		if err := create(ctx, secret(task, name(task, hash, i), part)); err != nil {
			return err
		}
	}
	return nil
}

// Mismatch says that a result has another hash than was said.
type Mismatch struct{ Got string }

func (m *Mismatch) Error() string {
	return "the result has the hash " + m.Got + ", not the one that was said"
}

func secret(task *v1alpha1.McpTask, name string, part []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: task.Namespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelTask: task.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "McpTask", Name: task.Name, UID: task.UID,
			}},
		},
		Immutable: ptr.To(true),
		Type:      Type,
		Data:      map[string][]byte{Key: part},
	}
}

// Same says what is wrong with a Secret that stands where another is to be stored, nil where they are the same.
func Same(there, wanted *corev1.Secret) error {
	at := there.Namespace + "/" + there.Name
	if why := foreign(there, wanted.OwnerReferences[0].UID); why != "" {
		return &Damaged{at, why}
	}
	if !bytes.Equal(there.Data[Key], wanted.Data[Key]) {
		return &Damaged{at, "holds something else than the part of a result that has its name"}
	}
	return nil
}

func foreign(s *corev1.Secret, owner types.UID) string {
	if s.Type != Type {
		return fmt.Sprintf("is of the type %s, not %s: it is no part of a result", s.Type, Type)
	}
	for _, ref := range s.OwnerReferences {
		if ref.UID == owner {
			return ""
		}
	}
	return "does not belong to the task"
}

// Read puts the result of a task together. The error is a *Damaged where the result is lost, else whatever get says.
func Read(ctx context.Context, task *v1alpha1.McpTask, get func(context.Context, types.NamespacedName) (*corev1.Secret, error)) ([]byte, error) {
	result := task.Status.Result
	if result == nil || result.SecretRef == nil {
		return nil, errors.New("the task has no result in Secrets")
	}
	at := func(part int) types.NamespacedName {
		return types.NamespacedName{Namespace: task.Namespace, Name: name(task, result.SHA256, part)}
	}
	if parts := result.SecretRef.Parts; result.SecretRef.Name != at(0).Name || parts < 1 || parts > MaxBytes/PartBytes {
		return nil, &Damaged{task.Namespace + "/" + result.SecretRef.Name, "is not where the result with the task's hash is stored"}
	}
	var raw []byte
	if result.SecretRef.Parts > 1 {
		raw = make([]byte, 0, int(result.SecretRef.Parts)*PartBytes)
	}
	for i := range int(result.SecretRef.Parts) {
		part, err := get(ctx, at(i))
		if apierrors.IsNotFound(err) {
			return nil, &Damaged{at(i).String(), "is missing: it was deleted"}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the Secret %s: %w", at(i), err)
		}
		if why := foreign(part, task.UID); why != "" {
			return nil, &Damaged{at(i).String(), why}
		}
		if n := len(part.Data[Key]); n == 0 || n > PartBytes {
			return nil, &Damaged{at(i).String(), fmt.Sprintf("holds %d bytes: it was changed", n)}
		}
		raw = append(raw, part.Data[Key]...)
	}
	if Hash(raw) != result.SHA256 {
		return nil, &Damaged{at(0).String(), fmt.Sprintf("and the other parts of the result, %d in all, have not the task's hash: one of them was changed", result.SecretRef.Parts)}
	}
	return raw, nil
}
