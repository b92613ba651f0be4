package runtimeport

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

const (
	// maxWait is the longest wait of a poll, in seconds.
	maxWait = 60
	// maxPolls and maxPollsOfPod bound the polls that wait at one time.
	maxPolls      = 8192
	maxPollsOfPod = 4
)

// answers are all answers that the task has. Answers are only added: their number is a version.
type answers struct {
	Count   int      `json:"count"`
	Answers []answer `json:"answers"`
}

type answer struct {
	Key      string          `json:"key"`
	Response json.RawMessage `json:"response"`
}

func answersOf(task *v1alpha1.McpTask) answers {
	all := answers{Count: len(task.Spec.InputResponses), Answers: []answer{}}
	for _, r := range task.Spec.InputResponses {
		all.Answers = append(all.Answers, answer{Key: r.Key, Response: r.Response.Raw})
	}
	return all
}

// giveAnswers waits until the task has more answers than the Pod knows of, or until the time that it asked for is up.
// The watch wakes it: waiting costs the API server nothing.
func (p *Port) giveAnswers(x *exchange) (any, error) {
	after, err := number(x.http, "after", int(^uint32(0)>>1))
	if err != nil {
		return nil, err
	}
	seconds, err := number(x.http, "wait", maxWait)
	if err != nil {
		return nil, err
	}
	// From here on the connection is only watched for the caller's leaving.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	changed, stop := p.Store.Subscribe(x.key)
	defer stop()
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	waiting := false
	for {
		task, err := p.finder.Find(x.http.Context(), x.key, host(x.http))
		switch {
		case errors.Is(err, tasks.ErrUnknown):
			return nil, &refusal{http.StatusNotFound, "unknown_task", "the task was deleted", ""}
		case err != nil:
			return nil, err
		case task.Status.State.Terminal():
			return nil, ended()
		}
		if len(task.Spec.InputResponses) > after || seconds == 0 || p.draining.Err() != nil {
			return answersOf(task), nil
		}
		if !waiting {
			if !p.polls.enter(x.pod.PodUID) {
				return nil, &refusal{http.StatusTooManyRequests, "polls", "too many requests wait for answers; try again in a second", ""}
			}
			defer p.polls.leave(x.pod.PodUID)
			waiting = true
		}
		select {
		case <-changed:
		case <-timer.C:
			seconds = 0
		case <-p.draining.Done():
		case <-x.http.Context().Done():
			return nil, x.http.Context().Err()
		}
	}
}

// number is a whole number of the query, 0 when it is absent.
func number(r *http.Request, name string, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, &refusal{http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("%s: must be a whole number from 0 to %d", name, most), ""}
	}
	return n, nil
}

// polls counts those who wait.
type polls struct {
	mu      sync.Mutex
	all     int
	pods    map[types.UID]int
	waiting prometheus.Gauge
}

func newPolls(waiting prometheus.Gauge) *polls {
	return &polls{pods: map[types.UID]int{}, waiting: waiting}
}

func (p *polls) enter(pod types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= maxPolls || p.pods[pod] >= maxPollsOfPod {
		return false
	}
	p.all++
	p.pods[pod]++
	p.waiting.Set(float64(p.all))
	return true
}

func (p *polls) leave(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.pods[pod]--; p.pods[pod] == 0 {
		delete(p.pods, pod)
	}
	p.waiting.Set(float64(p.all))
}
