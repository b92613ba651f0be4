package jobs

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Fault is why a tool cannot be offered: the reason of its Ready condition, and a message that names the field.
type Fault struct {
	Reason string
	Err    error
}

func (f *Fault) Error() string { return f.Err.Error() }

// Check says what is wrong with a tool, as far as the tool alone shows it. What the API server thinks of
// the Job is another question. nil: nothing.
func Check(tool *v1alpha1.McpTool, r Runtime) *Fault {
	spec := field.NewPath("spec")
	schema, err := toolschema.Compile(rawOf(tool.Spec.InputSchema))
	if err != nil {
		return &Fault{v1alpha1.ReasonInvalidSchema, fmt.Errorf("spec.inputSchema %w", err)}
	}
	if err := toolschema.CheckHeaders(rawOf(tool.Spec.InputSchema)); err != nil {
		return &Fault{v1alpha1.ReasonInvalidSchema, fmt.Errorf("spec.inputSchema%w", err)}
	}
	if tool.Spec.OutputSchema != nil {
		if _, err := toolschema.Compile(tool.Spec.OutputSchema.Raw); err != nil {
			return &Fault{v1alpha1.ReasonInvalidSchema, fmt.Errorf("spec.outputSchema %w", err)}
		}
	}
	for i, question := range tool.Spec.Preflight {
		if _, err := toolschema.Compile(question.Schema.Raw); err != nil {
			return &Fault{v1alpha1.ReasonInvalidSchema, fmt.Errorf("spec.preflight[%d].schema %w", i, err)}
		}
	}
	if faults := checkPreflight(tool, schema, spec.Child("preflight")); len(faults) > 0 {
		return &Fault{v1alpha1.ReasonInvalidArguments, faults.ToAggregate()}
	}
	if err := schema.CheckNames(); err != nil {
		return &Fault{v1alpha1.ReasonInvalidArguments, fmt.Errorf("spec.inputSchema: %w", err)}
	}
	template := spec.Child("jobTemplate", "spec", "template", "spec")
	if faults := append(checkTemplate(tool, template), checkRuntime(tool, r, template)...); len(faults) > 0 {
		return &Fault{v1alpha1.ReasonInvalidTemplate, faults.ToAggregate()}
	}
	if faults := checkArguments(tool, schema, template); len(faults) > 0 {
		return &Fault{v1alpha1.ReasonInvalidArguments, faults.ToAggregate()}
	}
	return nil
}

// checkPreflight finds questions whose answers are no arguments of the tool, or without which nobody could call it.
func checkPreflight(tool *v1alpha1.McpTool, schema *toolschema.Schema, at *field.Path) (faults field.ErrorList) {
	for i, question := range tool.Spec.Preflight {
		named := func(p toolschema.Property) bool { return p.Name == question.Name }
		switch {
		case !slices.ContainsFunc(schema.Properties(), named):
			faults = append(faults, field.Invalid(at.Index(i).Child("name"), question.Name, "must be a property of inputSchema: the answer becomes that argument, an object"))
		case schema.Requires(question.Name):
			faults = append(faults, field.Invalid(at.Index(i).Child("name"), question.Name, "must not be among inputSchema's required properties: the caller is asked for it"))
		}
	}
	return faults
}

// checkTemplate finds what a tool's template may not do. CEL rules of the definition refuse the rest at once.
func checkTemplate(tool *v1alpha1.McpTool, at *field.Path) (faults field.ErrorList) {
	pod := &tool.Spec.JobTemplate.Spec.Template.Spec
	names := map[string]bool{}
	for _, c := range pod.Containers {
		names[c.Name] = true
	}
	if name := WorkContainer(tool); !names[name] {
		from := field.NewPath("spec", "container")
		if tool.Spec.Container == "" {
			from = field.NewPath("spec", "jobTemplate", "spec", "template", "metadata", "annotations").Key(defaultMark)
		}
		faults = append(faults, field.Invalid(from, name, "names no container of the template"))
	}
	for i, v := range pod.Volumes {
		if v.Name == argumentsVolume {
			faults = append(faults, field.Invalid(at.Child("volumes").Index(i).Child("name"), v.Name, "is the name of the volume that carries the arguments"))
		}
	}
	for i, c := range pod.Containers {
		if c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyNever || len(c.RestartPolicyRules) > 0 {
			faults = append(faults, field.Forbidden(at.Child("containers").Index(i).Child("restartPolicy"), "a container that is started again has no one end; for retries set backoffLimit"))
		}
	}
	eachContainer(pod, at, func(c *corev1.Container, at *field.Path) {
		for i, m := range c.VolumeMounts {
			if within(m.MountPath, argumentsFolder) {
				faults = append(faults, field.Invalid(at.Child("volumeMounts").Index(i).Child("mountPath"), m.MountPath, "is where the arguments are mounted"))
			}
		}
	})
	return faults
}

var (
	reference   = regexp.MustCompile(`\$\((ARG_[A-Z0-9_]*)\)`)
	shell       = regexp.MustCompile(`^(ba|da|a|z|k|)sh$`)
	commandFlag = regexp.MustCompile(`^-[a-zA-Z]*c[a-zA-Z]*$`)
)

// checkArguments finds arguments that would not reach the containers, or would reach a shell as its program.
func checkArguments(tool *v1alpha1.McpTool, schema *toolschema.Schema, at *field.Path) (faults field.ErrorList) {
	given := map[string]bool{}
	for _, p := range schema.Properties() {
		given[toolschema.VariableName(p.Name)] = true
	}
	ours := map[string]bool{EnvTaskID: true, EnvArguments: true, EnvArgumentsFile: true, EnvSocket: runtimeEnabled(tool), EnvMaxResult: runtimeEnabled(tool)}
	eachContainer(&tool.Spec.JobTemplate.Spec.Template.Spec, at, func(c *corev1.Container, at *field.Path) {
		own := map[string]bool{}
		for i, e := range c.Env {
			own[e.Name] = true
			if given[e.Name] || ours[e.Name] {
				faults = append(faults, field.Invalid(at.Child("env").Index(i).Child("name"), e.Name, "is set by mcptask"))
			}
		}
		program := false // the word before asks a shell to run the next one
		isShell := false
		word := func(text string, at *field.Path) {
			// Kubernetes reads $$ as a plain dollar that begins no reference.
			names := reference.FindAllStringSubmatch(strings.ReplaceAll(text, "$$", ""), -1)
			if program && len(names) > 0 {
				faults = append(faults, field.Invalid(at, names[0][0], fmt.Sprintf("stands in the program of a shell, where a caller's text would be run; write \"$%s\", in double quotes, instead", names[0][1])))
			}
			for _, n := range names {
				if !given[n[1]] && !own[n[1]] {
					faults = append(faults, field.Invalid(at, n[0], "inputSchema has no property of that name"))
				}
			}
			program = isShell && commandFlag.MatchString(text)
			isShell = isShell || shell.MatchString(path.Base(text))
		}
		for i, text := range c.Command {
			word(text, at.Child("command").Index(i))
		}
		for i, text := range c.Args {
			word(text, at.Child("args").Index(i))
		}
	})
	return faults
}

func eachContainer(pod *corev1.PodSpec, at *field.Path, do func(*corev1.Container, *field.Path)) {
	for i := range pod.InitContainers {
		do(&pod.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range pod.Containers {
		do(&pod.Containers[i], at.Child("containers").Index(i))
	}
}

func rawOf(e *runtime.RawExtension) []byte {
	if e == nil {
		return nil
	}
	return e.Raw
}
