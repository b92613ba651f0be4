package mcptest

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Secrets keeps Secrets in memory, as the bridge asks for them.
type Secrets struct {
	// Err is the answer to every read, where it is not nil.
	Err error
	// Reads counts.
	Reads int

	mu     sync.Mutex
	stored map[types.NamespacedName]*corev1.Secret
}

// Secret reads one.
func (s *Secrets) Secret(_ context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Reads++
	if s.Err != nil {
		return nil, s.Err
	}
	if found, ok := s.stored[key]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
}

// StoreSecret stores one.
func (s *Secrets) StoreSecret(_ context.Context, secret *corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil {
		s.stored = map[types.NamespacedName]*corev1.Secret{}
	}
	s.stored[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = secret.DeepCopy()
	return nil
}

// Clear deletes all of them.
func (s *Secrets) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stored)
}
