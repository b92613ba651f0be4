package jobs

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var testRuntime = Runtime{URL: "http://bridge.test:8082", Image: "example.test/mcptask"}

func askingTool() *v1alpha1.McpTool {
	return &v1alpha1.McpTool{
		ObjectMeta: metav1.ObjectMeta{Name: "tool", Namespace: "ns"},
		Spec: v1alpha1.McpToolSpec{
			Runtime: &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm, v1alpha1.AskModeURL}},
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "before", Image: "example.test/image"}},
				Containers:     []corev1.Container{{Name: "work", Image: "example.test/image"}, {Name: "beside", Image: "example.test/image"}},
			}}}},
		},
	}
}

func buildJob(t *testing.T, tool *v1alpha1.McpTool) *corev1.PodSpec {
	t.Helper()
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "abcdefghijklmnopqrstuvwxyz", Namespace: "ns", UID: "task-uid"}}
	job, err := Build(tool, task, testRuntime)
	if err != nil {
		t.Fatal(err)
	}
	return &job.Spec.Template.Spec
}

func TestSidecarStandsFirstAndSharesItsFolder(t *testing.T) {
	pod := buildJob(t, askingTool())
	sidecar := pod.InitContainers[0]
	if sidecar.Name != SidecarName || sidecar.Image != testRuntime.Image || *sidecar.RestartPolicy != corev1.ContainerRestartPolicyAlways || len(pod.InitContainers) != 2 {
		t.Fatalf("init containers %+v", pod.InitContainers)
	}
	if got := strings.Join(append(sidecar.Command, sidecar.Lifecycle.PostStart.Exec.Command...), " "); got != "/taskrt serve /taskrt ready" {
		t.Errorf("it runs %q", got)
	}
	for name, want := range map[string]string{
		"MCPTASK_RUNTIME_URL": testRuntime.URL, "MCPTASK_TASK_ID": "abcdefghijklmnopqrstuvwxyz", "MCPTASK_NAMESPACE": "ns", "MCPTASK_ASKS": "form,url", "MCPTASK_SOCKET": "/mcptask/run/task.sock",
	} {
		if !slices.Contains(sidecar.Env, corev1.EnvVar{Name: name, Value: want}) {
			t.Errorf("%s is not %s in %v", name, want, sidecar.Env)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		folder := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "mcptask" && m.MountPath == "/mcptask" })
		if !folder || !slices.Contains(c.Env, corev1.EnvVar{Name: EnvSocket, Value: "/mcptask/run/task.sock"}) {
			t.Errorf("%s lacks the folder: %v %v", c.Name, c.Env, c.VolumeMounts)
		}
		if token := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == tokenVolume }); token != (c.Name == SidecarName) {
			t.Errorf("%s has the token: %v", c.Name, token)
		}
	}
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == tokenVolume })
	token := pod.Volumes[i].Projected.Sources[0].ServiceAccountToken
	if token.Audience != "mcptask.dev/ns/task-uid" || *token.ExpirationSeconds != 3600 || token.Path != "token" {
		t.Errorf("token %+v", token)
	}
	s := sidecar.SecurityContext
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || s.Capabilities.Drop[0] != "ALL" || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || s.RunAsUser != nil {
		t.Errorf("security %+v", s)
	}
}

func TestSidecarIsNoRootInARootPod(t *testing.T) {
	for user, want := range map[int64]*int64{0: ptr.To[int64](65532), 1000: nil} {
		tool := askingTool()
		tool.Spec.JobTemplate.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
		if got := buildJob(t, tool).InitContainers[0].SecurityContext.RunAsUser; !ptr.Equal(got, want) {
			t.Errorf("in a Pod of user %d it has runAsUser %v", user, ptr.Deref(got, -1))
		}
	}
}

func TestNoSidecarUnlessAskedFor(t *testing.T) {
	tool := askingTool()
	tool.Spec.Runtime = nil
	pod := buildJob(t, tool)
	if len(pod.InitContainers) != 1 || len(pod.Volumes) != 1 || len(pod.Containers[0].VolumeMounts) != 1 {
		t.Errorf("Pod %+v", pod)
	}
}

func TestRuntimeChecks(t *testing.T) {
	const at = "spec.jobTemplate.spec.template.spec."
	for words, change := range map[string]func(*v1alpha1.McpTool, *corev1.PodSpec, *Runtime){
		"": func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.TerminationGracePeriodSeconds = ptr.To[int64](10)
		},
		at + "terminationGracePeriodSeconds: Invalid value: 9: must be absent or at least 10": func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.TerminationGracePeriodSeconds = ptr.To[int64](9)
		},
		"spec.runtime.enabled: Forbidden: the controller runs without --runtime-url": func(_ *v1alpha1.McpTool, _ *corev1.PodSpec, r *Runtime) { *r = Runtime{Image: "x"} },
		at + `initContainers[0].name: Invalid value: "mcptask-runtime"`: func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.InitContainers[0].Name = SidecarName
		},
		at + `volumes[0].name: Invalid value: "mcptask"`: func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.Volumes = []corev1.Volume{{Name: "mcptask"}}
		},
		at + `volumes[0].name: Invalid value: "mcptask-token"`: func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.Volumes = []corev1.Volume{{Name: "mcptask-token"}}
		},
		at + `containers[1].volumeMounts[0].mountPath: Invalid value: "/mcptask/x/.."`: func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.Containers[1].VolumeMounts = []corev1.VolumeMount{{MountPath: "/mcptask/x/.."}}
		},
		at + `containers[0].env[0].name: Invalid value: "MCPTASK_SOCKET"`: func(_ *v1alpha1.McpTool, p *corev1.PodSpec, _ *Runtime) {
			p.Containers[0].Env = []corev1.EnvVar{{Name: EnvSocket}}
		},
	} {
		tool, r := askingTool(), testRuntime
		change(tool, &tool.Spec.JobTemplate.Spec.Template.Spec, &r)
		fault := Check(tool, r)
		switch {
		case fault == nil && words != "":
			t.Errorf("nothing is wrong, want %s", words)
		case fault != nil && (words == "" || !strings.Contains(fault.Error(), words)):
			t.Errorf("got %v, want %s", fault, words)
		}
	}
	plain := askingTool()
	plain.Spec.Runtime = nil
	plain.Spec.JobTemplate.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	plain.Spec.JobTemplate.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "mcptask"}}
	if fault := Check(plain, Runtime{}); fault != nil {
		t.Errorf("without the runtime: %v", fault)
	}
}
