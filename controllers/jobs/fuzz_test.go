package jobs

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// FuzzArguments: whatever a caller sends as arguments, the containers find it in their file as those bytes, nothing of it is
// expanded in their environment, and nothing else in the Pod is another.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{"text":"$(DB_PASSWORD)"}`, `{"text":"$$(X) $ $$$(ARG_TEXT)"}`, `{"text":"; rm -rf /\n\u0000"}`, `{"list":[1,{"a":"$(X)"}],"text":""}`, `{}`, `{"text":7}`, `{"more":1}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	tool := askingTool()
	tool.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","default":"$(DB_PASSWORD)"},"list":{},"number":{"type":"number"}}}`)}
	secret := corev1.EnvVar{Name: "DB_PASSWORD", Value: "hunter2"}
	work := &tool.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	work.Env, work.Args = []corev1.EnvVar{secret}, []string{"--text=$(ARG_TEXT)"}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "abcdefghijklmnopqrstuvwxyz", Namespace: "ns", UID: "task-uid"}}
		task.Spec.Arguments = &runtime.RawExtension{Raw: arguments}
		job, err := Build(tool, task, testRuntime)
		if err != nil {
			var mismatch *toolschema.Mismatch
			if !errors.As(err, &mismatch) {
				t.Fatalf("%q: %v", arguments, err)
			}
			return
		}
		wanted := string(arguments)
		if wanted == "" {
			wanted = "{}"
		}
		pod := job.Spec.Template
		if pod.Annotations[v1alpha1.AnnotationArguments] != wanted {
			t.Fatalf("the file has %q, not %q", pod.Annotations[v1alpha1.AnnotationArguments], wanted)
		}
		schema, err := toolschema.Compile(tool.Spec.InputSchema.Raw)
		if err != nil {
			t.Fatal(err)
		}
		variables, err := schema.Variables([]byte(wanted))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{EnvArguments: wanted}
		for _, v := range variables {
			values[v.Name] = v.Value
		}
		for _, container := range pod.Spec.Containers {
			for _, env := range container.Env {
				value, ours := values[env.Name]
				switch {
				case !ours:
				case strings.Contains(strings.ReplaceAll(env.Value, "$$", ""), "$"): // what Kubernetes would expand
					t.Fatalf("%s is %q", env.Name, env.Value)
				case strings.ReplaceAll(env.Value, "$$", "$") != value:
					t.Fatalf("%s is %q, not %q", env.Name, env.Value, value)
				}
			}
		}
		got := pod.Spec.Containers[0]
		if last := got.Env[len(got.Env)-1]; last != secret || got.Args[0] != work.Args[0] || got.Image != work.Image {
			t.Fatalf("the template is another: %+v", got)
		}
	})
}
