package v1alpha1

// ConditionFinished is the type of the condition that is True once a task's state is final:
//
//	kubectl wait --for=condition=Finished mcptask/NAME
const ConditionFinished = "Finished"

// Reasons of a task, in status.reason and in the Finished condition.
const (
	// ReasonQueued: the Job is suspended, for instance by a queue, or the API server does not take it yet, for instance
	// because of a quota.
	ReasonQueued = "Queued"
	// ReasonScheduling: the Pod waits for a node.
	ReasonScheduling = "Scheduling"
	// ReasonPulling: the node prepares the Pod: volumes, images, containers.
	ReasonPulling = "Pulling"
	// ReasonRunning: the work's container runs.
	ReasonRunning = "Running"
	// ReasonRetrying: an attempt failed and the Job's backoffLimit allows another.
	ReasonRetrying = "Retrying"
	// ReasonAwaitingInput: the work waits for an answer.
	ReasonAwaitingInput = "AwaitingInput"
	// ReasonCancelling: a cancellation was asked for and the work is ending.
	ReasonCancelling = "Cancelling"
	// ReasonFinishing: the work has ended and the Job is about to say so.
	ReasonFinishing = "Finishing"

	// ReasonSucceeded (completed): the work ended with exit code 0.
	ReasonSucceeded = "Succeeded"
	// ReasonToolError (completed): the work ended with another exit code; the result has isError.
	ReasonToolError = "ToolError"
	// ReasonToolFailed (failed): the work handed over a JSON-RPC error of its own.
	ReasonToolFailed = "ToolFailed"
	// ReasonCancelled (cancelled): the task was cancelled before the work ended, or the work said that it was.
	ReasonCancelled = "Cancelled"

	// ReasonToolNotFound (failed): the task names a tool that does not exist.
	ReasonToolNotFound = "ToolNotFound"
	// ReasonToolNotReady (failed): the tool's Ready condition is not True.
	ReasonToolNotReady = "ToolNotReady"
	// ReasonInvalidArguments (failed; also on a tool): the arguments do not fit the tool.
	// ReasonJobRefused (failed; also on a tool): the API server refused the Job.

	// ReasonJobConflict (failed): a Job with the task's name exists and belongs to somebody else.
	ReasonJobConflict = "JobConflict"
	// ReasonJobDeleted (failed): the Job was deleted while the task was working.
	ReasonJobDeleted = "JobDeleted"
	// ReasonUnschedulable (failed): no node could take the Pod before the start deadline.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePullFailed (failed): an image could not be pulled before the start deadline.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonStartFailed (failed): the Pod could not be created or started before the start deadline.
	ReasonStartFailed = "StartFailed"
	// ReasonDeadlineExceeded (failed): the Job's or the Pod's activeDeadlineSeconds passed.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonOOMKilled (completed): the work was killed because it exceeded its memory limit; the result has isError.
	ReasonOOMKilled = "OOMKilled"
	// ReasonEvicted (failed): the cluster took the Pod's place: eviction, preemption, drain.
	ReasonEvicted = "Evicted"
	// ReasonNodeLost (failed): the node of the Pod is gone.
	ReasonNodeLost = "NodeLost"
	// ReasonJobFailed (failed): the Job failed in a way that says nothing about the tool.
	ReasonJobFailed = "JobFailed"
	// ReasonExpired (failed): the task's ttl passed while it was working.
	ReasonExpired = "Expired"
)

// Labels and annotations of the project.
const (
	// LabelTask, on Jobs, Pods and the Secrets of a large result: the name of the task.
	LabelTask = "mcptask.dev/task"
	// LabelTool, on tasks, Jobs and Pods: the name of the McpTool object.
	LabelTool = "mcptask.dev/tool"
	// LabelOwner, on tasks: a hash of spec.owner.
	LabelOwner = "mcptask.dev/owner"
	// AnnotationArguments, on Pods: the arguments of the call, shown to the containers as a file.
	AnnotationArguments = "mcptask.dev/arguments"
	// AnnotationArgumentsDigest, on tasks that were called with an idempotency key: a hash of their arguments.
	AnnotationArgumentsDigest = "mcptask.dev/arguments-digest"
	// AnnotationSession, on tasks whose handle a client of the revision 2025-11-25 has: the session in which it got it.
	AnnotationSession = "mcptask.dev/session"
	// AnnotationShown, on tasks: which questions were lately put to clients of 2025-11-25, on which kind of stream, as JSON. It keeps
	// two replicas from asking a person twice.
	AnnotationShown = "mcptask.dev/shown"
	// AnnotationContainer, on Jobs and their Pods: the container whose end is the end of the work.
	AnnotationContainer = "mcptask.dev/container"
	// AnnotationStartDeadline, on Jobs: how long the cluster may take to start the work.
	AnnotationStartDeadline = "mcptask.dev/start-deadline"
	// AnnotationWhileWaiting, on Jobs: Release where the Pod is given back while a question is open.
	AnnotationWhileWaiting = "mcptask.dev/while-waiting"
	// AnnotationReleased, on Jobs: the Pod that was given back, how many answers it had, and whether the Job was resumed since, as JSON.
	// It is written in one with each suspension and its end: a Job that is suspended without it, or although it was resumed, was
	// suspended by somebody else.
	AnnotationReleased = "mcptask.dev/released"
)
