package upload

import (
	"context"
	"net/http"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/bridge"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// fetchAnswers asks for answers as long as a question is open.
func (u *Uploader) fetchAnswers(ctx context.Context) {
	retry := firstRetry
	after := 0                 // the number of answers that were looked through
	asked := map[string]bool{} // for the answers to these questions
	for ctx.Err() == nil {
		changed := u.Task.Changed()
		waiting := u.Task.Waiting()
		if len(waiting) == 0 {
			wait(ctx, changed)
			continue
		}
		if news(waiting, asked) {
			// The answer to a new question may be there already, from an attempt before this one.
			after = 0
		}
		asked = set(waiting)
		started := time.Now()
		answers, err := u.poll(ctx, after, asked)
		if err == nil {
			u.Task.Answered(answers.Answers)
			if answers.Count <= after && time.Since(started) < unknownPod {
				u.pause(ctx, unknownPod, nil) // a port that does not wait must not be asked without end
			}
			after = answers.Count
			retry = firstRetry
			continue
		}
		if bridge.Status(err) == http.StatusGone {
			u.Task.End()
			return
		}
		if news(u.Task.Waiting(), asked) {
			continue // poll was stopped for that
		}
		if bridge.Status(err) == http.StatusConflict {
			u.pause(ctx, unknownPod, nil)
			continue
		}
		u.Log.Debug("answers could not be fetched; trying again", "reason", err.Error())
		u.pause(ctx, retry, nil)
		retry = min(2*retry, lastRetry)
	}
}

// poll fetches the answers, and is stopped when a question is asked that it was not for.
func (u *Uploader) poll(ctx context.Context, after int, asked map[string]bool) (*report.Answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			changed := u.Task.Changed()
			if news(u.Task.Waiting(), asked) {
				cancel()
				return
			}
			wait(ctx, changed)
		}
	}()
	return u.Port.Answers(ctx, after)
}

func set(keys []string) map[string]bool {
	s := map[string]bool{}
	for _, key := range keys {
		s[key] = true
	}
	return s
}

func news(keys []string, known map[string]bool) bool {
	for _, key := range keys {
		if !known[key] {
			return true
		}
	}
	return false
}
