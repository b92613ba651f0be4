package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TaskState is the state of a task, in MCP's words.
// +kubebuilder:validation:Enum=working;input_required;completed;failed;cancelled
type TaskState string

const (
	// TaskWorking: the work waits to run, or runs.
	TaskWorking TaskState = "working"
	// TaskInputRequired: the work waits for an answer.
	TaskInputRequired TaskState = "input_required"
	// TaskCompleted: the tool ran to its end; its result may still be an error of the tool (isError).
	TaskCompleted TaskState = "completed"
	// TaskFailed: the call ended with a JSON-RPC error, most often because the cluster could not run the Job.
	TaskFailed TaskState = "failed"
	// TaskCancelled: the task was cancelled before the tool ended.
	TaskCancelled TaskState = "cancelled"
)

// Terminal says whether the state is final.
func (s TaskState) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// McpTaskSpec is one call of a tool. Only ttl, cancel and inputResponses may change after creation.
//
// +kubebuilder:validation:XValidation:rule="self.toolName == oldSelf.toolName",fieldPath=".toolName",message="is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.arguments) == has(oldSelf.arguments) && (!has(self.arguments) || self.arguments == oldSelf.arguments)",message="arguments is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.owner) == has(oldSelf.owner) && (!has(self.owner) || self.owner == oldSelf.owner)",message="owner is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.clientCapabilities) == has(oldSelf.clientCapabilities) && (!has(self.clientCapabilities) || self.clientCapabilities == oldSelf.clientCapabilities)",message="clientCapabilities is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.progressToken) == has(oldSelf.progressToken) && (!has(self.progressToken) || self.progressToken == oldSelf.progressToken)",message="progressToken is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.reservation) == has(oldSelf.reservation) && (!has(self.reservation) || self.reservation == oldSelf.reservation)",message="reservation is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || (has(self.cancel) && self.cancel == oldSelf.cancel)",message="cancel is one way: once requested it can be neither withdrawn nor changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || (has(self.inputResponses) ? size(self.inputResponses) : 0) == (has(oldSelf.inputResponses) ? size(oldSelf.inputResponses) : 0)",message="inputResponses is closed: a task that was asked to end takes no more answers"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.inputResponses) || (has(self.inputResponses) && oldSelf.inputResponses.all(o, self.inputResponses.exists(n, n.key == o.key)))",message="inputResponses is append-only: an answer cannot be removed"
type McpTaskSpec struct {
	// toolName is the name of the McpTool object, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ToolName string `json:"toolName"`

	// arguments are the arguments of the call, at most 128 KiB as JSON.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Arguments *runtime.RawExtension `json:"arguments,omitempty"`

	// owner is who called the tool. Only this caller may see or touch the task over MCP; without an owner nobody may.
	// +optional
	Owner *Identity `json:"owner,omitempty"`

	// clientCapabilities are what the caller declared when it called the tool.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	ClientCapabilities *runtime.RawExtension `json:"clientCapabilities,omitempty"`

	// progressToken is the caller's token for progress notifications, as JSON (a string or an integer).
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ProgressToken string `json:"progressToken,omitempty"`

	// reservation names what was set aside for this task by a budget.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Reservation string `json:"reservation,omitempty"`

	// ttl is how long the task may live, from its creation; unlimited when absent. A task that still runs then is stopped and failed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be positive"
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// cancel asks for the end of the task.
	// +optional
	Cancel *CancelRequest `json:"cancel,omitempty"`

	// inputResponses are the answers to the questions of status.inputRequests. Append-only.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=256
	InputResponses []InputResponse `json:"inputResponses,omitempty"`
}

// Identity is a caller, as its identity source knows it.
type Identity struct {
	// issuer is the source that vouches for the subject: an OIDC issuer's URL, or one of the project's own sources.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer"`
	// subject is the caller's name at the issuer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Subject string `json:"subject"`
}

// CancelRequest asks for the end of a task. It cannot be withdrawn.
type CancelRequest struct {
	// requested is always true.
	// +kubebuilder:validation:XValidation:rule="self",message="must be true"
	Requested bool `json:"requested"`
	// by is who asked.
	// +optional
	// +kubebuilder:validation:MaxLength=1100
	By string `json:"by,omitempty"`
	// at is when.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// reason is why, in words for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// InputResponse is the answer to one question.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an answer cannot be changed"
type InputResponse struct {
	// key is the key of the question.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Key string `json:"key"`
	// response is the result of the request, e.g. {"action":"accept","content":{…}} for an elicitation.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Response runtime.RawExtension `json:"response"`
	// answeredBy is who answered and through what.
	// +optional
	AnsweredBy *Answerer `json:"answeredBy,omitempty"`
	// answeredAt is when.
	// +optional
	AnsweredAt *metav1.Time `json:"answeredAt,omitempty"`
}

// Answerer is who answered a question.
type Answerer struct {
	// principal is the name of the person or account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1100
	Principal string `json:"principal"`
	// via is the way the answer came: mcp or kubectl.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Via string `json:"via,omitempty"`
}

// McpTaskStatus is what became of the call. runtime is written by the bridge, for the Pods; all else by the controller.
type McpTaskStatus struct {
	// state is the task's state: working, input_required, completed, failed or cancelled. The last three are final.
	// +optional
	State TaskState `json:"state,omitempty"`
	// reason is why the task is in its state, as one word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says the same in words.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// conditions: Finished is True once the state is final.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// progress is how far the work is.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// stateName is the tool's own name for where it is.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StateName string `json:"stateName,omitempty"`
	// inputRequests are the questions asked so far, answered ones included.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=256
	InputRequests []InputRequest `json:"inputRequests,omitempty"`
	// result is what the tool returned.
	// +optional
	Result *TaskResult `json:"result,omitempty"`
	// error is the JSON-RPC error of a failed task.
	// +optional
	Error *TaskError `json:"error,omitempty"`
	// jobRef is the Job that does the work. It has the name of the task.
	// +optional
	JobRef *JobReference `json:"jobRef,omitempty"`
	// podUIDs are the Pods of the Job.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodUIDs []types.UID `json:"podUIDs,omitempty"`
	// startedAt is when the work's container started first.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when the state became final.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// expiresAt is when the task is deleted, and not before: once it has ended, the later one of its ttl's end and of the
	// end of its tool's retention.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// lastUpdatedAt is when the status last changed.
	// +optional
	LastUpdatedAt *metav1.MicroTime `json:"lastUpdatedAt,omitempty"`
	// usage is what the work used.
	// +optional
	Usage *Usage `json:"usage,omitempty"`
	// runtime is what each Pod reported, by the Pod's UID. It is removed when the task has ended: what counts of it then
	// stands in the other fields.
	// +optional
	// +listType=map
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=64
	Runtime []RuntimeReport `json:"runtime,omitempty"`
}

// Progress is how far the work is.
type Progress struct {
	// current is the amount of work done. It only grows.
	Current string `json:"current"`
	// total is the whole amount, where it is known.
	// +optional
	Total string `json:"total,omitempty"`
	// message says what is being done.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// InputRequest is one question of the work.
type InputRequest struct {
	// key names the question; it is unique for the life of the task.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Key string `json:"key"`
	// method is the MCP method of the question.
	// +kubebuilder:validation:Enum=elicitation/create
	Method string `json:"method"`
	// params are the parameters of the method.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Params runtime.RawExtension `json:"params"`
	// requestedAt is when the question was asked.
	// +optional
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
	// answered says that the answer, in spec.inputResponses, has reached the work.
	// +optional
	Answered bool `json:"answered,omitempty"`
}

// TaskResult is what the tool returned, or where it stands.
type TaskResult struct {
	// inline is the CallToolResult, up to 16 KiB.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Inline *runtime.RawExtension `json:"inline,omitempty"`
	// secretRef names the Secrets that hold a larger CallToolResult. They belong to the task.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// size is the size in bytes of what the tool put out, before it was cut.
	// +optional
	Size int64 `json:"size,omitempty"`
	// sha256 is the hash of what is kept, in hex.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
	// truncated says that less is kept than the tool put out.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// isError says that the result is an error of the tool.
	// +optional
	IsError bool `json:"isError,omitempty"`
	// exitCode is the exit code of work that failed after it had handed over a result in secretRef, which does not say so itself.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// SecretReference names Secrets in the task's namespace. Their data has the key result; the parts follow one another.
type SecretReference struct {
	// name of the first Secret. It ends in -0; the names of the others end in -1, -2 and so on.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// parts is the number of Secrets.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Parts int32 `json:"parts"`
}

// TaskError is a JSON-RPC error.
type TaskError struct {
	// code of the error.
	Code int32 `json:"code"`
	// message in words.
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message"`
	// data is more about the error.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Data *runtime.RawExtension `json:"data,omitempty"`
}

// JobReference is the Job of a task.
type JobReference struct {
	// name of the Job, in the task's namespace.
	Name string `json:"name"`
	// uid of the Job.
	UID types.UID `json:"uid"`
}

// Usage is what the work used.
type Usage struct {
	// seconds is the time from the start of the work's container to its end, over all attempts.
	// +optional
	Seconds int64 `json:"seconds,omitempty"`
	// attempts is the number of Pods that ran.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// RuntimeReport is what one Pod told about its work.
type RuntimeReport struct {
	// podUID is the Pod that reported.
	PodUID types.UID `json:"podUID"`
	// sequence grows with each report of the Pod: one that arrives late does not replace a newer one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// progress as the Pod reported it.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// stateName as the Pod reported it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StateName string `json:"stateName,omitempty"`
	// inputRequests are the questions that the Pod asked.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=256
	InputRequests []InputRequest `json:"inputRequests,omitempty"`
	// outcome is how the Pod said that its work ended: result, failed or cancelled.
	// +optional
	// +kubebuilder:validation:Enum=result;failed;cancelled
	Outcome string `json:"outcome,omitempty"`
	// result that the Pod handed over.
	// +optional
	Result *TaskResult `json:"result,omitempty"`
	// error that the Pod handed over.
	// +optional
	Error *TaskError `json:"error,omitempty"`
	// reportedAt is when the Pod last reported.
	// +optional
	ReportedAt *metav1.MicroTime `json:"reportedAt,omitempty"`
}

// McpTask is one durable call of a tool. Its name is the MCP taskId; its Job has the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcptasks,singular=mcptask,scope=Namespaced,categories={mcp}
// +kubebuilder:selectablefield:JSONPath=`.spec.toolName`
// +kubebuilder:selectablefield:JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.toolName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.current`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Owner",type=string,priority=1,JSONPath=`.spec.owner.subject`
// +kubebuilder:printcolumn:name="Job",type=string,priority=1,JSONPath=`.status.jobRef.name`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.expiresAt`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z][a-z2-7]{25}$')",message="metadata.name must be a letter and then 25 characters of a-z and 2-7, at random: the name is the handle that gives access to the task"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.state) || !(oldSelf.status.state in ['completed', 'failed', 'cancelled']) || (has(self.status) && has(self.status.state) && self.status.state == oldSelf.status.state)",message="status.state is final: a completed, failed or cancelled task never changes its state"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.state) || !(oldSelf.status.state in ['completed', 'failed', 'cancelled']) || (has(self.status) && has(self.status.result) == has(oldSelf.status.result) && (!has(self.status.result) || self.status.result == oldSelf.status.result))",message="status.result is final once the task has ended"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.state) || !(oldSelf.status.state in ['completed', 'failed', 'cancelled']) || (has(self.status) && has(self.status.error) == has(oldSelf.status.error) && (!has(self.status.error) || self.status.error == oldSelf.status.error))",message="status.error is final once the task has ended"
type McpTask struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the call.
	Spec McpTaskSpec `json:"spec"`
	// status is what became of it.
	// +optional
	Status McpTaskStatus `json:"status,omitempty"`
}

// McpTaskList is a list of tasks.
//
// +kubebuilder:object:root=true
type McpTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []McpTask `json:"items"`
}
