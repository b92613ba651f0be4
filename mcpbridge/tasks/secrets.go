package tasks

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/resultsecret"
)

// Secrets are where results stand that are too large for their task.
type Secrets interface {
	// Secret reads a Secret.
	Secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error)
	// StoreSecret stores a part of a result. The same part may be there already; something else in its place is a
	// *resultsecret.Damaged.
	StoreSecret(ctx context.Context, part *corev1.Secret) error
}

// The bridge stores what Pods hand over and reads it for those who ask. RBAC cannot say "Secrets of tasks only": with get, who takes
// over a bridge can read any Secret of the namespaces that it serves, provided that they know its name (there is no list and no watch). What
// narrows it: names are computed from the task and its hash and never taken from an object; a Secret of another type or owner is not read as a
// result; and a policy of the chart lets the bridge create nothing but such Secrets.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;get

// Secret implements Secrets.
func (c Client) Secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, key, secret)
	return secret, err
}

// StoreSecret implements Secrets.
func (c Client) StoreSecret(ctx context.Context, part *corev1.Secret) error {
	wanted := part.DeepCopy() // a client fills in what the server answers
	err := c.Client.Create(ctx, part)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := c.Secret(ctx, types.NamespacedName{Namespace: wanted.Namespace, Name: wanted.Name})
	if err != nil {
		return err
	}
	return resultsecret.Same(there, wanted)
}
