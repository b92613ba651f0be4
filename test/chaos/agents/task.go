package agents

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// shown is a task as either revision shows it: they differ in two names.
type shown struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTLMs         *int64 `json:"ttlMs"`
	TTL           *int64 `json:"ttl"`
	InputRequests map[string]struct {
		Method string
		Params struct{ Message string }
	} `json:"inputRequests"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// terminal says whether a status is final.
func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// fill puts what is shown into a read.
func (s *shown) fill(log *record.Log, read *record.Read) error {
	if s.TaskID == "" || s.Status == "" {
		return fmt.Errorf("a task without taskId or status")
	}
	read.Task, read.Status, read.Message, read.CreatedAt, read.UpdatedAt = s.TaskID, s.Status, s.StatusMessage, s.CreatedAt, s.LastUpdatedAt
	if read.TTLMs = s.TTLMs; read.TTLMs == nil {
		read.TTLMs = s.TTL
	}
	for _, key := range slices.Sorted(maps.Keys(s.InputRequests)) {
		read.Questions = append(read.Questions, record.Question{Key: key, Message: s.InputRequests[key].Params.Message})
	}
	if s.Result != nil {
		read.Result = log.Body(string(s.Result))
	}
	read.Error = string(s.Error)
	return nil
}
