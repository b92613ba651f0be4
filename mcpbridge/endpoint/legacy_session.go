package endpoint

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// sessionHeader carries the id of a session (2025-11-25, Transports, Session Management).
	sessionHeader = "Mcp-Session-Id"
	sealSession   = "session"
	sessionLife   = 30 * 24 * time.Hour
	// maxSessionCapabilities bounds what of a client's capabilities its session id holds, for the id is sent in a header.
	maxSessionCapabilities = 1 << 10
)

// session is what a client said when it initialized, and who it was. It is kept nowhere: its id is this, sealed, so that
// every replica knows it.
type session struct {
	ID           string            `json:"id"` // at random: tells the sessions of one caller apart
	Version      string            `json:"version"`
	Capabilities json.RawMessage   `json:"capabilities"`
	Principal    v1alpha1.Identity `json:"principal"`
	Namespace    string            `json:"namespace"`
}

// sealSession makes the id of a new session.
func (e *Endpoint) sealSession(x *exchange, version string, capabilities json.RawMessage) (string, error) {
	kept := capabilities
	if len(kept) > maxSessionCapabilities {
		modes := map[string]struct{}{}
		able := wire.LegacyElicitation(version, capabilities)
		if able.Form {
			modes[wire.ModeForm] = struct{}{}
		}
		if able.URL {
			modes[wire.ModeURL] = struct{}{}
		}
		kept = json.RawMessage(`{}`)
		if len(modes) > 0 {
			kept, _ = json.Marshal(map[string]any{"elicitation": modes}) // always marshals
		}
	}
	id, err := e.Keys.Seal(sealSession, session{
		ID: rand.Text(), Version: version, Capabilities: kept, Principal: x.principal.Identity, Namespace: x.namespace,
	}, sessionLife)
	if err != nil {
		return "", fmt.Errorf("a new session: %w", err)
	}
	return id, nil
}

// checkSession opens the session that a request belongs to, where the rule asks for one, and lets it stand for what
// newer clients say in each request.
func (e *Endpoint) checkSession(x *exchange, needed capability) *wire.Error {
	text := x.http.Header.Get(sessionHeader)
	if needed == noCapability {
		return nil
	}
	if text == "" {
		return status(http.StatusBadRequest, "the header "+sessionHeader+" is missing: initialize first")
	}
	opened := &session{}
	if err := e.Keys.Open(sealSession, text, opened); err != nil {
		return unknownSession()
	}
	if opened.Principal != x.principal.Identity || opened.Namespace != x.namespace {
		e.deny(x, "", "session of another caller or namespace")
		return unknownSession()
	}
	x.session = opened
	meta := &x.request.Params.Meta
	meta.Capabilities, meta.Elicitation = opened.Capabilities, wire.LegacyElicitation(opened.Version, opened.Capabilities)
	switch {
	case needed == anySession, wire.LegacyTasks(opened.Version) && (needed == taskSession || !x.principal.Anonymous()):
		return nil
	}
	return wire.MethodNotFound()
}

// unknownSession makes the client begin a new session (2025-11-25, Transports, Session Management).
func unknownSession() *wire.Error {
	return status(http.StatusNotFound, "the session is unknown or has expired: initialize again")
}

// hasHandle says whether a client of the exchange's session was given the handle of the task.
func (x *exchange) hasHandle(task *v1alpha1.McpTask) bool {
	return task.Annotations[v1alpha1.AnnotationSession] == x.session.ID
}
