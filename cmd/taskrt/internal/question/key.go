package question

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// keyPrefix is the length of the part of a key that says what is asked.
const keyPrefix = 12

// Namer gives questions their keys: what is asked, and how often it was asked in this Pod. So the same question asked twice
// is two questions, and a new attempt that asks the same things in the same order gets the keys, and the answers, of the one before.
type Namer struct {
	index string
	asked map[string]int
}

// NewNamer returns a Namer that knows the questions asked so far. index is the Pod's completion index, empty unless the Job is indexed:
// the Pods of an indexed Job do not share their questions.
func NewNamer(index string, asked []report.InputRequest) *Namer {
	n := &Namer{index: index}
	n.Reset(asked)
	return n
}

// Reset makes the Namer know these questions only.
func (n *Namer) Reset(asked []report.InputRequest) {
	n.asked = map[string]int{}
	for _, q := range asked {
		name, ordinal, _ := strings.Cut(q.Key, "-")
		if count, err := strconv.Atoi(ordinal); err == nil {
			n.asked[name] = max(n.asked[name], count)
		}
	}
}

// Ask makes the next question from parameters that were checked.
func (n *Namer) Ask(p Params) (report.InputRequest, error) {
	identity, err := encode(struct {
		CompletionIndex string `json:"completionIndex,omitempty"`
		Method          string `json:"method"`
		Params          Params `json:"params"`
	}{n.index, Method, p})
	if err != nil {
		return report.InputRequest{}, fmt.Errorf("key of the question: %w", err)
	}
	sum := sha256.Sum256(identity)
	name := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:keyPrefix]
	n.asked[name]++
	key := name + "-" + strconv.Itoa(n.asked[name])
	if p.Mode == URL {
		p.ElicitationID = key
	}
	params, err := encode(p)
	if err != nil {
		return report.InputRequest{}, fmt.Errorf("question %s: %w", key, err)
	}
	return report.InputRequest{Key: key, Method: Method, Params: params}, nil
}
