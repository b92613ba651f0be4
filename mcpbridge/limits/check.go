package limits

import (
	"fmt"
	"time"
)

// Counts are the tasks that there are when a caller asks for one more, those included that are being made.
type Counts struct {
	// Stored tasks of the namespace.
	Stored int64
	// StoredOfCaller and RunningOfCaller are the caller's, in the namespace.
	StoredOfCaller, RunningOfCaller int64
	// RunningOfTool are the tool's, whoever called it; RunningOfToolByCaller are those of the caller.
	RunningOfTool, RunningOfToolByCaller int64
}

// Tool are the bounds that a tool sets itself (McpTool, spec.limits); nil is none.
type Tool struct {
	RunningTasks, RunningTasksPerCaller *int64
	// PollInterval is how often it makes sense to look whether one of its tasks has ended.
	PollInterval time.Duration
}

// Names of the limits, as callers and metrics are told.
const (
	StoredTasksPerNamespace   = "storedTasksPerNamespace"
	StoredTasksPerCaller      = "storedTasksPerCaller"
	RunningTasksPerCaller     = "runningTasksPerCaller"
	ToolRunningTasks          = "tool.runningTasks"
	ToolRunningTasksPerCaller = "tool.runningTasksPerCaller"
	CallsPerMinute            = "callsPerMinute"
	PollsPerSecond            = "pollsPerSecond"
	StreamsPerCaller          = "streamsPerCaller"
	Streams                   = "streams"
	WaitingCalls              = "waitingCalls"
	LargeResults              = "largeResults"
	LargeBodies               = "largeBodies"
	LookupsPerSecond          = "unknownTaskLookupsPerSecond"
	DeniedCallsPerSecond      = "unknownToolCallsPerSecond"
	ResourceQuota             = "resourceQuota"
)

// Refusal is a limit that is reached.
type Refusal struct {
	// Limit is its name.
	Limit string
	// Value is what it is set to.
	Value int64
	// RetryAfter is when it makes sense to try again; 0 when that depends on which tasks are stored.
	RetryAfter time.Duration
	// Words say what the limit is and what to do about it, to an agent.
	Words string
}

// Check says whether the tasks that there are leave room for one more.
func (l Limits) Check(c Counts, tool Tool) *Refusal {
	wait := max(tool.PollInterval, time.Second)
	switch {
	case c.RunningOfCaller >= l.RunningTasksPerCaller:
		return &Refusal{RunningTasksPerCaller, l.RunningTasksPerCaller, wait, fmt.Sprintf(
			"%d of your tasks have not ended, as many as one caller may have in this namespace; wait until some have ended, or cancel those that you do not need", c.RunningOfCaller)}
	case tool.RunningTasksPerCaller != nil && c.RunningOfToolByCaller >= *tool.RunningTasksPerCaller:
		return &Refusal{ToolRunningTasksPerCaller, *tool.RunningTasksPerCaller, wait, fmt.Sprintf(
			"%d of your tasks of this tool have not ended, as many as it takes of one caller; wait until one has ended, or cancel one", c.RunningOfToolByCaller)}
	case tool.RunningTasks != nil && c.RunningOfTool >= *tool.RunningTasks:
		return &Refusal{ToolRunningTasks, *tool.RunningTasks, wait, fmt.Sprintf(
			"%d tasks of this tool have not ended, as many as it takes; wait until one has ended", c.RunningOfTool)}
	case c.StoredOfCaller >= l.StoredTasksPerCaller:
		return &Refusal{StoredTasksPerCaller, l.StoredTasksPerCaller, 0, fmt.Sprintf(
			"%d tasks of yours are stored, ended ones included, as many as one caller may have in this namespace; ended tasks are deleted once they have expired", c.StoredOfCaller)}
	case c.Stored >= l.StoredTasksPerNamespace:
		return &Refusal{StoredTasksPerNamespace, l.StoredTasksPerNamespace, 0, fmt.Sprintf(
			"%d tasks are stored in this namespace, ended ones included, as many as it may hold; ended tasks are deleted once they have expired", c.Stored)}
	}
	return nil
}
