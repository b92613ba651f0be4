package jobs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Runtime is how the work of tools with runtime.enabled reaches its task. The zero value: not at all.
type Runtime struct {
	// URL of the bridge's runtime port, as Pods reach it.
	URL string
	// Image with the program /taskrt.
	Image string
}

// Available says whether tools may have the runtime.
func (r Runtime) Available() bool { return r.URL != "" && r.Image != "" }

const (
	// SidecarName is the name of the container that joins the work to its task.
	SidecarName = "mcptask-runtime"
	// EnvSocket holds the path of the sidecar's socket, in every container, and EnvMaxResult how many bytes of a result the tool keeps.
	EnvSocket    = "MCPTASK_SOCKET"
	EnvMaxResult = "MCPTASK_MAX_RESULT_BYTES"

	runtimeFolder = "/mcptask"
	runtimeVolume = "mcptask"
	tokenFolder   = "/var/run/mcptask" //nolint:gosec // a folder, no token
	tokenVolume   = "mcptask-token"    //nolint:gosec // the name of a volume, no token
	socketPath    = runtimeFolder + "/run/task.sock"
	sidecarUser   = 65532

	// minGraceSeconds leaves the sidecar, which ends after the work, time to hand over a result.
	minGraceSeconds = 10
)

// Audience is the audience of the token that the Pods of a task show at the runtime port.
func Audience(task *v1alpha1.McpTask) string {
	return fmt.Sprintf("mcptask.dev/%s/%s", task.Namespace, task.UID)
}

// addSidecar joins the Pod to its task: the sidecar, its token, and the folder that every container shares with it.
func addSidecar(pod *corev1.PodSpec, tool *v1alpha1.McpTool, task *v1alpha1.McpTask, r Runtime) {
	shared := corev1.VolumeMount{Name: runtimeVolume, MountPath: runtimeFolder}
	socket := corev1.EnvVar{Name: EnvSocket, Value: socketPath}
	maxResult := corev1.EnvVar{Name: EnvMaxResult, Value: strconv.FormatInt(tool.Spec.Result.MaxBytes, 10)}
	if tool.Spec.Result.MaxBytes <= 0 {
		maxResult.Value = strconv.Itoa(resultsecret.DefaultBytes)
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env = append([]corev1.EnvVar{socket, maxResult}, c.Env...)
			c.VolumeMounts = append(c.VolumeMounts, shared)
		}
	}
	pod.Volumes = append(pod.Volumes,
		corev1.Volume{Name: runtimeVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("256Mi"))},
		}},
		corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: Audience(task), ExpirationSeconds: ptr.To[int64](3600), Path: "token",
			}}},
		}}},
	)
	sidecar := corev1.Container{
		Name:          SidecarName,
		Image:         r.Image,
		Command:       []string{"/taskrt", "serve"},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		Env: []corev1.EnvVar{
			{Name: EnvTaskID, Value: task.Name},
			{Name: "MCPTASK_NAMESPACE", Value: task.Namespace},
			{Name: "MCPTASK_RUNTIME_URL", Value: literal(r.URL)},
			{Name: "MCPTASK_ASKS", Value: asks(tool)},
			{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
			socket, maxResult,
		},
		VolumeMounts: []corev1.VolumeMount{shared, {Name: tokenVolume, MountPath: tokenFolder, ReadOnly: true}},
		// The next container starts only once the socket is there.
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/taskrt", "ready"}}}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			RunAsNonRoot:             ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if s := pod.SecurityContext; s != nil && s.RunAsUser != nil && *s.RunAsUser == 0 {
		sidecar.SecurityContext.RunAsUser = ptr.To[int64](sidecarUser)
	}
	pod.InitContainers = append([]corev1.Container{sidecar}, pod.InitContainers...)
}

// asks are the kinds of questions that the work may ask, as the sidecar reads them.
func asks(tool *v1alpha1.McpTool) string {
	var modes []string
	for _, mode := range tool.Spec.Runtime.Asks {
		modes = append(modes, strings.ToLower(string(mode)))
	}
	return strings.Join(modes, ",")
}

// HasSidecar says whether the Pod has the sidecar.
func HasSidecar(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == SidecarName })
}

func runtimeEnabled(tool *v1alpha1.McpTool) bool {
	return tool.Spec.Runtime != nil && tool.Spec.Runtime.Enabled
}

// checkRuntime finds what stands in the way of the sidecar.
func checkRuntime(tool *v1alpha1.McpTool, r Runtime, at *field.Path) (faults field.ErrorList) {
	pod := &tool.Spec.JobTemplate.Spec.Template.Spec
	eachContainer(pod, at, func(c *corev1.Container, at *field.Path) {
		if c.Name == SidecarName {
			faults = append(faults, field.Invalid(at.Child("name"), c.Name, "is the name of the container that runtime.enabled adds"))
		}
	})
	if !runtimeEnabled(tool) {
		return faults
	}
	if !r.Available() {
		faults = append(faults, field.Forbidden(field.NewPath("spec", "runtime", "enabled"),
			"the controller runs without --runtime-url and --runtime-image, so that no work can reach its task"))
	}
	if tool.Spec.Runtime.WhileWaiting == v1alpha1.WhileWaitingRelease {
		faults = append(faults, checkRelease(tool)...)
	}
	if g := pod.TerminationGracePeriodSeconds; g != nil && *g < minGraceSeconds {
		faults = append(faults, field.Invalid(at.Child("terminationGracePeriodSeconds"), *g,
			fmt.Sprintf("must be absent or at least %d with runtime.enabled: what the work leaves of it is the time to hand over its result", minGraceSeconds)))
	}
	for i, v := range pod.Volumes {
		if v.Name == runtimeVolume || v.Name == tokenVolume {
			faults = append(faults, field.Invalid(at.Child("volumes").Index(i).Child("name"), v.Name, "is the name of a volume that runtime.enabled adds"))
		}
	}
	eachContainer(pod, at, func(c *corev1.Container, at *field.Path) {
		for i, m := range c.VolumeMounts {
			if within(m.MountPath, runtimeFolder) {
				faults = append(faults, field.Invalid(at.Child("volumeMounts").Index(i).Child("mountPath"), m.MountPath, "is where runtime.enabled mounts the folder shared with the sidecar"))
			}
		}
	})
	return faults
}

// within says whether a mount is the folder or lies in it.
func within(mount, folder string) bool {
	p := path.Clean(mount)
	return p == folder || strings.HasPrefix(p, folder+"/")
}
