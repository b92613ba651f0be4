package incluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var bridgeLabels = map[string]string{"app.kubernetes.io/name": "mcptask", "app.kubernetes.io/component": "bridge"}

func service(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x-bridge", Labels: bridgeLabels},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"part": "bridge"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
}

func serviceWithTLS(namespace string) *corev1.Service {
	s := service(namespace)
	s.Spec.Ports[0].Name, s.Spec.Ports[0].Port = "https", 443
	return s
}

func deployment(namespace string, arguments ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x-bridge", Labels: bridgeLabels}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "bridge", Args: arguments}}
	return d
}

func pod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name, Labels: map[string]string{"part": "bridge"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "health", ContainerPort: 1}, {Name: "http", ContainerPort: 8080}}}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func cluster(objects ...runtime.Object) *Cluster {
	return &Cluster{Namespace: "team-a", client: fake.NewClientset(objects...)}
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		objects   []runtime.Object
		namespace string
		audience  string
		endpoint  string
		failure   string
	}{
		"in the usual place, with others elsewhere": {
			objects:  []runtime.Object{service(DefaultNamespace), deployment(DefaultNamespace, "--log-level=info", "--public-url=https://mcp.example.com/agents/"), service("other")},
			audience: "https://mcp.example.com/agents/mcp/team-a", endpoint: "http://mcp.example.com/mcp/team-a",
		},
		"elsewhere": {
			objects:  []runtime.Object{service("other"), deployment("other", "--public-url=http://a:8080")},
			audience: "http://a:8080/mcp/team-a", endpoint: "http://a:8080/mcp/team-a",
		},
		"where it was said to be": {
			objects: []runtime.Object{service(DefaultNamespace), service("other"), deployment("other", "--public-url=http://a")}, namespace: "other",
			audience: "http://a/mcp/team-a", endpoint: "http://a/mcp/team-a",
		},
		"without a public URL": {
			objects:  []runtime.Object{service("other"), deployment("other", "--public-url=")},
			audience: "http://x-bridge.other.svc.cluster.local/mcp/team-a", endpoint: "http://x-bridge.other.svc.cluster.local/mcp/team-a",
		},
		"with TLS of its own": {
			objects:  []runtime.Object{serviceWithTLS("other"), deployment("other", "--public-url=https://mcp.example.com")},
			audience: "https://mcp.example.com/mcp/team-a", endpoint: "https://mcp.example.com/mcp/team-a",
		},
		"nowhere":         {failure: "is mcptask installed?"},
		"not there":       {objects: []runtime.Object{service("other")}, namespace: "third", failure: "the namespace third has no Service"},
		"in two places":   {objects: []runtime.Object{service("one"), service("two")}, failure: "one/x-bridge, two/x-bridge"},
		"with an odd URL": {objects: []runtime.Object{service("other"), deployment("other", "--public-url=mcp")}, failure: "is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := cluster(c.objects...).Find(t.Context(), c.namespace)
			endpoint := ""
			if err == nil {
				endpoint, err = found.Endpoint("team-a")
			}
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("got %v, want %q in it", err, c.failure)
				}
				return
			}
			if err != nil || endpoint != c.endpoint || found.Audience("team-a") != c.audience {
				t.Errorf("got %q, %q, %v", endpoint, found.Audience("team-a"), err)
			}
		})
	}
}

func TestFindWithoutTheRightToLookEverywhere(t *testing.T) {
	c := cluster()
	c.client.(*fake.Clientset).PrependReactor("list", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == DefaultNamespace {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("not you"))
	})
	if _, err := c.Find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--bridge-namespace") {
		t.Errorf("got %v", err)
	}
}

func TestForwarderPicksAReadyPod(t *testing.T) {
	leaving := pod("leaving", corev1.ConditionTrue)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/kept"}
	c := cluster(pod("starting", corev1.ConditionFalse), pod("good", corev1.ConditionTrue), leaving)
	found, port, err := c.NewForwarder(&Bridge{service: *service(DefaultNamespace)}).pod(t.Context())
	if err != nil || found.Name != "good" || port != 8080 {
		t.Errorf("got %v, %d, %v", found, port, err)
	}
	_, _, err = cluster(leaving).NewForwarder(&Bridge{service: *service(DefaultNamespace)}).pod(t.Context())
	if want := "none of the 1 Pods of Service mcptask-system/x-bridge is ready"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTargetPort(t *testing.T) {
	numbered, unknown, none := service("a"), service("a"), service("a")
	numbered.Spec.Ports[0].TargetPort = intstr.FromInt32(9000)
	unknown.Spec.Ports[0].TargetPort = intstr.FromString("surprise")
	none.Spec.Ports = nil
	for i, c := range []struct {
		service *corev1.Service
		port    int32
		ok      bool
	}{{service("a"), 8080, true}, {numbered, 9000, true}, {unknown, 0, false}, {none, 0, false}} {
		if port, ok := targetPort(c.service, pod("p", corev1.ConditionTrue)); port != c.port || ok != c.ok {
			t.Errorf("%d: got %d, %v", i, port, ok)
		}
	}
}

func TestServiceAccountTokens(t *testing.T) {
	c := cluster()
	made, lifetime := 0, time.Hour
	c.client.(*fake.Clientset).PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		request := create.Object.(*authenticationv1.TokenRequest)
		if create.Subresource != "token" || create.Namespace != "team-a" || create.Name != "agent" || request.Spec.Audiences[0] != "http://a/mcp/team-a" {
			t.Errorf("asked for %+v", create)
		}
		made++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: fmt.Sprint("token", made), ExpirationTimestamp: metav1.NewTime(time.Now().Add(lifetime)),
		}}, nil
	})
	tokens := c.ServiceAccountTokens(context.Background(), "agent", "http://a/mcp/team-a")
	want := func(text string) {
		t.Helper()
		if token, err := tokens.Token(); err != nil || token.AccessToken != text {
			t.Errorf("got %v, %v, want %s", token, err, text)
		}
	}
	want("token1")
	want("token1")
	lifetime = renewBefore / 2
	tokens = c.ServiceAccountTokens(context.Background(), "agent", "http://a/mcp/team-a")
	want("token2")
	want("token3")
}
