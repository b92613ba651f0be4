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

// identify does the same work, a look at the task and a review of the token, and gives the same answer, whether the token is
// not good for the task or the task is not there: a stranger does not learn which tasks there are.
func (p *Port) identify(x *exchange, caller string) error {
	stranger := func(reason, audit string) *refusal {
		return &refusal{http.StatusNotFound, reason,
			"there is no such task, or the token is not that of a Pod of it, made for it and not expired", audit}
	}
	if len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, x.key.Namespace) {
		return stranger("unknown_task", "")
	}
	var reviewed error
	review := func(audience string) bool {
		x.pod, reviewed = p.Tokens.Authenticate(x.http.Context(), auth.Request{Header: x.http.Header, Audiences: []string{audience}})
		return reviewed == nil
	}
	task, err := p.finder.FindOwn(x.http.Context(), x.key, caller, func(task *v1alpha1.McpTask) bool { return review(Audience(task)) })
	if errors.Is(err, tasks.ErrUnknown) {
		review("mcptask.dev/" + x.key.Namespace + "/none/" + x.key.Name)
		x.pod = auth.Principal{}
	}
	switch {
	case reviewed != nil && !errors.Is(reviewed, auth.ErrRefused) && !errors.Is(reviewed, auth.ErrNoCredentials):
		return reviewed
	case errors.Is(err, tasks.ErrTooMany):
		return &refusal{http.StatusTooManyRequests, "rate", "too many look-ups of unknown tasks; try again in a second", ""}
	case errors.Is(err, tasks.ErrUnknown):
		return stranger("unknown_task", "no such task")
	case errors.Is(err, tasks.ErrStranger):
		return stranger("credentials", "the token is not accepted")
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
