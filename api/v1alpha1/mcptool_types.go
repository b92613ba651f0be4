package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TaskSupport says whether a call of the tool may, must or must not become a task.
// +kubebuilder:validation:Enum=Optional;Required;Forbidden
type TaskSupport string

const (
	// TaskSupportOptional answers with a task the callers that understand tasks; the others wait for the result.
	TaskSupportOptional TaskSupport = "Optional"
	// TaskSupportRequired refuses callers that do not understand tasks.
	TaskSupportRequired TaskSupport = "Required"
	// TaskSupportForbidden always answers synchronously.
	TaskSupportForbidden TaskSupport = "Forbidden"
)

// CancelMode says when a cancelled task is shown as cancelled.
// +kubebuilder:validation:Enum=Cooperative;Immediate
type CancelMode string

const (
	// CancelModeCooperative shows the task as cancelled once its Job has ended; a Job that
	// completes first stays completed.
	CancelModeCooperative CancelMode = "Cooperative"
	// CancelModeImmediate shows the task as cancelled at once, while its Job is still ending.
	CancelModeImmediate CancelMode = "Immediate"
)

// AskMode is a kind of question that a Job may ask its caller.
// +kubebuilder:validation:Enum=Form;URL
type AskMode string

const (
	// AskModeForm asks for values that fit a schema.
	AskModeForm AskMode = "Form"
	// AskModeURL asks the person to visit a URL.
	AskModeURL AskMode = "URL"
)

// WhileWaiting says what becomes of the Pod while a question is open.
// +kubebuilder:validation:Enum=Hold;Release
type WhileWaiting string

const (
	// WhileWaitingHold keeps the Pod running.
	WhileWaitingHold WhileWaiting = "Hold"
	// WhileWaitingRelease suspends the Job until an answer comes.
	WhileWaitingRelease WhileWaiting = "Release"
)

// ResultSource says where the result of a task is read from.
// +kubebuilder:validation:Enum=Auto;File;Log
type ResultSource string

const (
	// ResultSourceAuto takes the last line on stdout that is a JSON object as structuredContent, and
	// the text before it as text; without such a line the tail of the log; without a log the termination message.
	ResultSourceAuto ResultSource = "Auto"
	// ResultSourceFile takes what the program wrote to a file: /mcptask/result.json where the
	// runtime is enabled, else the container's termination message file.
	ResultSourceFile ResultSource = "File"
	// ResultSourceLog takes the tail of the log as text.
	ResultSourceLog ResultSource = "Log"
)

// McpToolSpec is what the platform team publishes: a description for agents and a Job template for the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.jobTemplate.spec.template.spec) || !has(self.jobTemplate.spec.template.spec.restartPolicy) || self.jobTemplate.spec.template.spec.restartPolicy == 'Never'",fieldPath=".jobTemplate.spec.template.spec.restartPolicy",message="must be Never or absent: with OnFailure a failed container's Pod, exit code and log are lost; for retries set backoffLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.jobTemplate.spec.selector)",fieldPath=".jobTemplate.spec.selector",message="must be absent: Kubernetes selects the Pods of a Job by its UID"
// +kubebuilder:validation:XValidation:rule="!has(self.jobTemplate.spec.manualSelector)",fieldPath=".jobTemplate.spec.manualSelector",message="must be absent: Kubernetes selects the Pods of a Job by its UID"
// +kubebuilder:validation:XValidation:rule="!has(self.jobTemplate.spec.ttlSecondsAfterFinished)",fieldPath=".jobTemplate.spec.ttlSecondsAfterFinished",message="must be absent: the Job is removed by its task, after the result is stored; set retention"
// +kubebuilder:validation:XValidation:rule="has(self.jobTemplate.spec.template.spec) && size(self.jobTemplate.spec.template.spec.containers) > 0",fieldPath=".jobTemplate.spec.template.spec.containers",message="must have at least one container"
// +kubebuilder:validation:XValidation:rule="!has(self.runtime) || !has(self.runtime.asks) || size(self.runtime.asks) == 0 || (has(self.runtime.enabled) && self.runtime.enabled)",fieldPath=".runtime.asks",message="questions need runtime.enabled: true"
type McpToolSpec struct {
	// name is the tool's name on the wire, unique in its namespace (of two tools with one name the older keeps it).
	// The name of the object when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Name string `json:"name,omitempty"`

	// title is a name for people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Title string `json:"title,omitempty"`

	// description tells an agent what the tool does, when to use it and what it returns.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Description string `json:"description"`

	// annotations are hints about the tool's behaviour, passed to agents as they are.
	// +optional
	Annotations *ToolAnnotations `json:"annotations,omitempty"`

	// inputSchema is the JSON Schema (2020-12) of the arguments, of type object. Each of its properties is
	// given to the containers as an environment variable ARG_NAME and may be used in command and args as $(ARG_NAME).
	// An object without properties when absent.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	InputSchema *runtime.RawExtension `json:"inputSchema,omitempty"`

	// outputSchema is the JSON Schema (2020-12) of the structured result. A result that does not fit it is
	// reported to the agent as an error of the tool.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	OutputSchema *runtime.RawExtension `json:"outputSchema,omitempty"`

	// execution says how a call is answered: at once, or with a task.
	// +optional
	// +kubebuilder:default={}
	Execution ToolExecution `json:"execution,omitempty"`

	// preflight are questions that the caller answers before a task exists. Each answer becomes part of the arguments.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Preflight []PreflightQuestion `json:"preflight,omitempty"`

	// ttl bounds how long tasks of this tool may live, from their creation.
	// +optional
	TTL *TTLPolicy `json:"ttl,omitempty"`

	// pollInterval is how often an agent is asked to poll, at most.
	// +optional
	// +kubebuilder:default="2s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="must be between 100ms and 1h"
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`

	// startDeadline is how long the cluster may take to start the work, and each further attempt: counted from the Pod's creation, or from
	// when the Job could make one. Time in a queue does not count. After that the task fails with the cause, and nothing more of it is
	// started. 5m when absent.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be positive"
	StartDeadline *metav1.Duration `json:"startDeadline,omitempty"`

	// limits bound how many tasks of this tool run at one time. Calls beyond them are refused, saying so; tasks that are
	// made with kubectl count, and are not refused.
	// +optional
	Limits *ToolLimits `json:"limits,omitempty"`

	// retention says how long a finished task is kept, by how it ended.
	// +optional
	Retention *RetentionPolicy `json:"retention,omitempty"`

	// runtime adds a sidecar through which the work reports progress, asks questions and hands over its result.
	// +optional
	Runtime *ToolRuntime `json:"runtime,omitempty"`

	// container is the container whose end is the end of the work and whose log holds the result.
	// When absent: the one named by the template's annotation kubectl.kubernetes.io/default-container, else the first.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// result says where the result is read from and how much of it is kept.
	// +optional
	// +kubebuilder:default={}
	Result ToolResult `json:"result,omitempty"`

	// jobTemplate is the Job that does the work of one call. Its labels and annotations reach the Job as written.
	// Where it is silent: restartPolicy Never, backoffLimit 0, podReplacementPolicy Failed,
	// terminationMessagePolicy FallbackToLogsOnError.
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`
}

// ToolAnnotations are MCP's hints about a tool (2026-07-28, schema, ToolAnnotations).
type ToolAnnotations struct {
	// readOnlyHint: the tool does not change its environment.
	// +optional
	ReadOnlyHint *bool `json:"readOnlyHint,omitempty"`
	// destructiveHint: the tool may destroy something.
	// +optional
	DestructiveHint *bool `json:"destructiveHint,omitempty"`
	// idempotentHint: a second call with the same arguments changes nothing more.
	// +optional
	IdempotentHint *bool `json:"idempotentHint,omitempty"`
	// openWorldHint: the tool deals with things outside its own closed domain.
	// +optional
	OpenWorldHint *bool `json:"openWorldHint,omitempty"`
}

// ToolExecution says how a call of the tool is answered.
type ToolExecution struct {
	// taskSupport says whether a call may (Optional), must (Required) or must not (Forbidden) become a task.
	// +optional
	// +kubebuilder:default=Optional
	TaskSupport TaskSupport `json:"taskSupport,omitempty"`

	// syncWindow is how long a caller that understands tasks waits for the result before it gets a task instead.
	// 0s: it gets the task at once.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('5m')",message="must be between 0s and 5m"
	SyncWindow *metav1.Duration `json:"syncWindow,omitempty"`

	// maxWait is how long a caller that does not understand tasks waits for the result before it is told that it takes longer.
	// +optional
	// +kubebuilder:default="50s"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be positive and at most 24h"
	MaxWait *metav1.Duration `json:"maxWait,omitempty"`

	// cancelMode says whether a cancelled task is shown as cancelled once its Job has ended (Cooperative) or at once (Immediate).
	// +optional
	// +kubebuilder:default=Cooperative
	CancelMode CancelMode `json:"cancelMode,omitempty"`
}

// PreflightQuestion is asked over a multi round-trip request before the task exists.
type PreflightQuestion struct {
	// name is the property of the arguments that receives the answer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// message is shown to the person.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message"`
	// schema is the elicitation schema of the answer: an object with primitive properties.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Schema runtime.RawExtension `json:"schema"`
}

// TTLPolicy bounds the life of a task, counted from its creation.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.default) || duration(self.default) <= duration(self.max)",message="default must not exceed max"
type TTLPolicy struct {
	// default is the ttl of a task whose caller asks for none; unlimited when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	Default *metav1.Duration `json:"default,omitempty"`
	// max caps what a caller may ask for; uncapped when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	Max *metav1.Duration `json:"max,omitempty"`
}

// ToolLimits bound the tasks of a tool that have not ended.
type ToolLimits struct {
	// runningTasks is how many there may be; as many as the callers' own limits allow when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RunningTasks *int64 `json:"runningTasks,omitempty"`
	// runningTasksPerCaller is how many of them may be one caller's.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RunningTasksPerCaller *int64 `json:"runningTasksPerCaller,omitempty"`
}

// RetentionPolicy says how long a finished task is kept after its end. A task is never deleted before its ttl.
type RetentionPolicy struct {
	// completed tasks; 24h when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	Completed *metav1.Duration `json:"completed,omitempty"`
	// failed tasks; 72h when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	Failed *metav1.Duration `json:"failed,omitempty"`
	// cancelled tasks; 1h when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	Cancelled *metav1.Duration `json:"cancelled,omitempty"`
	// job is how long the Job of a finished task and its Pods are kept, e.g. to look at their logs; 5m when absent. With 0s a
	// finished task costs the cluster one object.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	Job *metav1.Duration `json:"job,omitempty"`
}

// ToolRuntime configures the sidecar that joins the work to its task.
type ToolRuntime struct {
	// enabled adds the sidecar.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// asks lists the kinds of questions that the work may ask. A caller that cannot answer them is refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Asks []AskMode `json:"asks,omitempty"`
	// whileWaiting says whether the Pod is kept (Hold) or given back (Release) while a question is open. With Release the Job is
	// suspended once its Pod has only waited for 10 seconds, and the answer resumes it: the work begins anew, and is given at once
	// what was answered before. Only for Jobs of one Pod.
	// +optional
	// +kubebuilder:default=Hold
	WhileWaiting WhileWaiting `json:"whileWaiting,omitempty"`
}

// ToolResult says where the result is read from and how much of it is kept.
type ToolResult struct {
	// source is where the result is read from.
	// +optional
	// +kubebuilder:default=Auto
	Source ResultSource `json:"source,omitempty"`
	// maxBytes is how much of a result is kept; what exceeds it is cut, and the result says so.
	// +optional
	// +kubebuilder:default=1048576
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=8388608
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// McpToolStatus is what the controller found about the tool.
type McpToolStatus struct {
	// conditions: Ready says whether agents are offered the tool and, if not, what is wrong and where.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// toolName is the tool's name on the wire.
	// +optional
	ToolName string `json:"toolName,omitempty"`
	// observedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ConditionReady is the type of the condition that says whether agents are offered the tool.
const ConditionReady = "Ready"

// Reasons of a tool's Ready condition.
const (
	// ReasonToolReady: agents are offered the tool.
	ReasonToolReady = "Ready"
	// ReasonInvalidSchema: a JSON Schema of the tool is wrong, or refers to a remote document.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonInvalidTemplate: the Job template uses what a tool's template may not.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonInvalidArguments: properties of inputSchema cannot be given to the containers as they are named or used.
	ReasonInvalidArguments = "InvalidArguments"
	// ReasonNameConflict: an older tool of the namespace has the same name on the wire.
	ReasonNameConflict = "NameConflict"
	// ReasonCheckFailed (Ready is Unknown): the tool could not be checked; the check is repeated.
	ReasonCheckFailed = "CheckFailed"
	// ReasonJobRefused: the API server refuses the Job or its Pod (server-side dry-run).
	ReasonJobRefused = "JobRefused"
)

// McpTool publishes a Kubernetes Job template as an MCP tool.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcptools,singular=mcptool,scope=Namespaced,categories={mcp}
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.status.toolName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Tasks",type=string,JSONPath=`.spec.execution.taskSupport`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it becomes a label"
type McpTool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the platform team publishes.
	Spec McpToolSpec `json:"spec"`
	// status is what the controller found about the tool.
	// +optional
	Status McpToolStatus `json:"status,omitempty"`
}

// WireName is the tool's name in MCP messages.
func (t *McpTool) WireName() string {
	if t.Spec.Name != "" {
		return t.Spec.Name
	}
	return t.Name
}

// McpToolList is a list of tools.
//
// +kubebuilder:object:root=true
type McpToolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []McpTool `json:"items"`
}
