package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/test/chaos/verdict"
)

// toolKind is a kind of work, and the runtime that its tool has.
type toolKind struct{ name, runtime string }

var toolKinds = []toolKind{
	{"short", "{enabled: false}"},
	{"long", "{enabled: true}"},
	{"asking", "{enabled: true, asks: [Form]}"},
	{"releasing", "{enabled: true, asks: [Form], whileWaiting: Release}"},
	{"large", "{enabled: true}"},
	{"failing", "{enabled: false}"},
	{"cancelled", "{enabled: false}"},
	{"retrying", "{enabled: false}"},
}

// makeTools applies the tools and waits until they are ready.
func (r *running) makeTools(ctx context.Context, recorder string) (kinds []string, err error) {
	template, err := os.ReadFile("test/chaos/tools.yaml")
	if err != nil {
		return nil, err
	}
	var manifests strings.Builder
	for _, kind := range toolKinds {
		kinds = append(kinds, kind.name)
		manifests.WriteString("---\n" + strings.NewReplacer("${KIND}", kind.name, "${IMAGE}", r.image, "${RECORDER}", recorder,
			"${RETENTION}", retention.String(), "${RUNTIME}", kind.runtime, "${RETRIES}", fmt.Sprint(verdict.Retries[kind.name])).Replace(string(template)))
	}
	if err := r.kubectl(ctx, manifests.String(), "apply", "-f", "-"); err != nil {
		return nil, err
	}
	return kinds, r.kubectl(ctx, "", "wait", "mcptools", "--all", "--for=condition=Ready", "--timeout=60s")
}

func (r *running) kubectl(ctx context.Context, stdin string, args ...string) error {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--namespace", r.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// token makes an account and a token of it that lasts as long as the run.
func (r *running) token(ctx context.Context, account string) (string, error) {
	accounts := r.client.CoreV1().ServiceAccounts(r.namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: v1.ObjectMeta{Name: account}}, v1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := r.client.RbacV1().RoleBindings(r.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: v1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "mcptask-caller"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.namespace, Name: account}},
	}, v1.CreateOptions{}); err != nil {
		return "", err
	}
	made, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{publicURL + "/mcp/" + r.namespace}, ExpirationSeconds: ptr.To[int64](12 * 3600),
	}}, v1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Status.Token, nil
}
