// Package jobs turns a tool and a call of it into the Job that does the work, and says what a tool's
// template may not do.
package jobs

import (
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// What the containers of a Job find.
const (
	// EnvTaskID holds the task's id.
	EnvTaskID = "MCPTASK_TASK_ID"
	// EnvArguments holds all arguments as JSON; absent when they are longer than a variable can be.
	EnvArguments = "MCPTASK_ARGUMENTS"
	// EnvArgumentsFile holds the path of the file with all arguments as JSON.
	EnvArgumentsFile = "MCPTASK_ARGUMENTS_FILE"
	// ArgumentsFile is that path.
	ArgumentsFile = argumentsFolder + "/arguments.json"

	argumentsFolder = "/etc/mcptask"
	argumentsVolume = "mcptask-arguments"
	defaultMark     = "kubectl.kubernetes.io/default-container"
)

// maxJobBytes bounds a Job as JSON: the API server's store takes no object of more than 1.5 MiB.
const maxJobBytes = 1 << 20

// Build makes the Job of a call. The error is a *toolschema.Mismatch when the arguments do not fit.
func Build(tool *v1alpha1.McpTool, task *v1alpha1.McpTask, r Runtime) (*batchv1.Job, error) {
	schema, err := toolschema.Compile(rawOf(tool.Spec.InputSchema))
	if err != nil {
		return nil, fmt.Errorf("inputSchema %w", err)
	}
	arguments := []byte("{}")
	if raw := rawOf(task.Spec.Arguments); len(raw) > 0 {
		arguments = raw
	}
	if err := toolschema.CheckArguments(arguments); err != nil {
		return nil, err
	}
	if err := schema.Validate(arguments); err != nil {
		return nil, err
	}
	job, err := build(tool, task, r, schema, arguments)
	if err != nil {
		return nil, err
	}
	// Every container carries the arguments, so that their size counts many times.
	if size := job.Size(); size > maxJobBytes {
		return nil, &toolschema.Mismatch{Faults: []toolschema.Fault{{Reason: fmt.Sprintf("arguments make a Job of %d bytes; at most %d are possible", size, maxJobBytes)}}}
	}
	return job, nil
}

// Sample makes a Job of the tool as a call without arguments would, whether or not the schema lets that be.
func Sample(tool *v1alpha1.McpTool, r Runtime) (*batchv1.Job, error) {
	schema, err := toolschema.Compile(rawOf(tool.Spec.InputSchema))
	if err != nil {
		return nil, fmt.Errorf("inputSchema %w", err)
	}
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: tool.Namespace}}
	return build(tool, task, r, schema, []byte("{}"))
}

func build(tool *v1alpha1.McpTool, task *v1alpha1.McpTask, r Runtime, schema *toolschema.Schema, arguments []byte) (*batchv1.Job, error) {
	variables, err := schema.Variables(arguments)
	if err != nil {
		return nil, err
	}

	template := tool.Spec.JobTemplate.DeepCopy()
	container := WorkContainer(tool)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        task.Name,
			Namespace:   task.Namespace,
			Labels:      with(template.Labels, v1alpha1.LabelTask, task.Name, v1alpha1.LabelTool, tool.Name),
			Annotations: with(template.Annotations, v1alpha1.AnnotationContainer, container, v1alpha1.AnnotationStartDeadline, startDeadline(tool)),
		},
		Spec: template.Spec,
	}
	pod := &job.Spec.Template
	pod.Labels = with(pod.Labels, v1alpha1.LabelTask, task.Name, v1alpha1.LabelTool, tool.Name)
	pod.Annotations = with(pod.Annotations, v1alpha1.AnnotationArguments, string(arguments), v1alpha1.AnnotationContainer, container)
	setDefaults(&job.Spec)
	inject(&pod.Spec, environment(task.Name, arguments, variables))
	if runtimeEnabled(tool) {
		if !r.Available() {
			return nil, fmt.Errorf("the McpTool %s has runtime.enabled, and the controller runs without --runtime-url and --runtime-image", tool.Name)
		}
		addSidecar(&pod.Spec, tool, task, r)
		if tool.Spec.Runtime.WhileWaiting == v1alpha1.WhileWaitingRelease {
			job.Annotations[v1alpha1.AnnotationWhileWaiting] = string(v1alpha1.WhileWaitingRelease)
		}
	}
	return job, nil
}

// setDefaults fills in what the author of the template left open.
func setDefaults(spec *batchv1.JobSpec) {
	pod := &spec.Template.Spec
	if pod.RestartPolicy == "" {
		pod.RestartPolicy = corev1.RestartPolicyNever
	}
	if spec.BackoffLimit == nil && spec.BackoffLimitPerIndex == nil {
		// An agent's side effects are not repeated unless the author says that they may be.
		spec.BackoffLimit = ptr.To[int32](0)
	}
	if spec.PodReplacementPolicy == nil {
		// No second Pod starts while the first one is still ending.
		spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			if c := &containers[i]; c.TerminationMessagePolicy == "" {
				c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

// environment is what every container of the Job finds in its environment.
func environment(taskID string, arguments []byte, variables []toolschema.Variable) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: EnvTaskID, Value: taskID}, {Name: EnvArgumentsFile, Value: ArgumentsFile}}
	if len(arguments) <= toolschema.MaxVariableBytes {
		env = append(env, corev1.EnvVar{Name: EnvArguments, Value: literal(string(arguments))})
	}
	for _, v := range variables {
		env = append(env, corev1.EnvVar{Name: v.Name, Value: literal(v.Value)})
	}
	return env
}

// literal keeps Kubernetes from expanding $(NAME) in a value that a caller chose: it could name the
// template's own secrets.
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// inject gives every container the environment and the file of the arguments. Ours stand first, so that the
// author's own variables may refer to them.
func inject(pod *corev1.PodSpec, env []corev1.EnvVar) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: argumentsVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path:     strings.TrimPrefix(ArgumentsFile, argumentsFolder+"/"),
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + v1alpha1.AnnotationArguments + "']"},
		}}},
	}})
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env = append(append(make([]corev1.EnvVar, 0, len(env)+len(c.Env)), env...), c.Env...)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: argumentsVolume, MountPath: argumentsFolder, ReadOnly: true})
		}
	}
}

// WorkContainer is the name of the container whose end is the end of the work.
func WorkContainer(tool *v1alpha1.McpTool) string {
	if tool.Spec.Container != "" {
		return tool.Spec.Container
	}
	template := &tool.Spec.JobTemplate.Spec.Template
	if name := template.Annotations[defaultMark]; name != "" {
		return name
	}
	if len(template.Spec.Containers) > 0 {
		return template.Spec.Containers[0].Name
	}
	return ""
}

func startDeadline(tool *v1alpha1.McpTool) string {
	if tool.Spec.StartDeadline == nil {
		return ""
	}
	return tool.Spec.StartDeadline.Duration.String()
}

// with is a copy of m with more entries, given as key, value, key, value.
func with(m map[string]string, entries ...string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	for i := 0; i+1 < len(entries); i += 2 {
		out[entries[i]] = entries[i+1]
	}
	return out
}
