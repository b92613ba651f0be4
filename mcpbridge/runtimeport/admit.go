package runtimeport

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// Audience is what a Pod's token must be made for: this one task.
func Audience(task *v1alpha1.McpTask) string {
	return "mcptask.dev/" + task.Namespace + "/" + string(task.UID)
}

// admit finds the task and makes sure that one of its Pods calls. The token's audience names the task, and the review
// of the token names the Pod: both must fit.
func (p *Port) admit(x *exchange) error {
	if x.http.Header.Get("Authorization") == "" {
		return &refusal{http.StatusUnauthorized, "credentials", "a token is required", "no token"}
	}
	caller := host(x.http)
	if !p.bounds.tolerates(caller) {
		return &refusal{http.StatusTooManyRequests, "rate", "too many requests of this address were refused; try again in a second", ""}
	}
	err := p.identify(x, caller)
	var why *refusal
	if errors.As(err, &why) && why.status != http.StatusConflict && why.status != http.StatusGone {
		p.bounds.refused(caller)
	}
	if err != nil {
		return err
	}
	if !p.bounds.allows(x.pod.PodUID) {
		return &refusal{http.StatusTooManyRequests, "rate", "too many requests of this Pod; try again in a second", ""}
	}
	return nil
}

func (p *Port) identify(x *exchange, caller string) error {
	unknown := &refusal{http.StatusNotFound, "unknown_task", "there is no such task", ""}
	if len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, x.key.Namespace) {
		return unknown
	}
	task, err := p.finder.Find(x.http.Context(), x.key, caller)
	switch {
	case errors.Is(err, tasks.ErrUnknown):
		return unknown
	case errors.Is(err, tasks.ErrTooMany):
		return &refusal{http.StatusTooManyRequests, "rate", "too many look-ups of unknown tasks; try again in a second", ""}
	case err != nil:
		return err
	}
	x.pod, err = p.Tokens.Authenticate(x.http.Context(), auth.Request{Header: x.http.Header, Audiences: []string{Audience(task)}})
	switch {
	case errors.Is(err, auth.ErrRefused), errors.Is(err, auth.ErrNoCredentials):
		return &refusal{http.StatusUnauthorized, "credentials", "the token is not accepted: it must be a token of a Pod of this task, for this task, and not expired", "the token is not accepted"}
	case err != nil:
		return err
	case !strings.HasPrefix(x.pod.Subject, "system:serviceaccount:"+task.Namespace+":"):
		return &refusal{http.StatusForbidden, "credentials", "the token is not that of a Pod of this task", "the service account is not of the task's namespace"}
	case x.pod.PodUID == "":
		return &refusal{http.StatusForbidden, "credentials", "the token is not that of a Pod of this task", "the token is bound to no Pod"}
	case task.Status.State.Terminal():
		return ended()
	case !slices.Contains(task.Status.PodUIDs, x.pod.PodUID):
		return &refusal{http.StatusConflict, "not_yet", "this Pod is not known to be of this task; if it has just been made, try again", ""}
	}
	x.task = task
	return nil
}

func ended() *refusal {
	return &refusal{http.StatusGone, "ended", "the task has ended", ""}
}

// host is the address that calls, without its port.
func host(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
