// Package question makes the questions of a program: it checks them, and gives them their keys.
package question

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// Method is the MCP method of every question.
const Method = "elicitation/create"

// Modes of a question.
const (
	Form = "form"
	URL  = "url"
)

// Params are the parameters of an elicitation (MCP 2025-11-25 and 2026-07-28, client/elicitation). The program may leave out
// the mode; the elicitationId of 2025-11-25 is the question's key.
type Params struct {
	Mode            string          `json:"mode"`
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema,omitempty"`
	URL             string          `json:"url,omitempty"`
	ElicitationID   string          `json:"elicitationId,omitempty"`
}

// Check completes the parameters as a program gave them, and says what is wrong with them, by the name of the field.
// asks are the modes that the tool may use.
func (p *Params) Check(asks []string) error {
	if p.Mode == "" {
		p.Mode = Form
		if p.URL != "" {
			p.Mode = URL
		}
	}
	if strings.TrimSpace(p.Message) == "" {
		return errors.New("message is missing: it says to a person what is asked, and why")
	}
	if p.ElicitationID != "" {
		return errors.New("elicitationId must be absent: it is the question's key")
	}
	var err error
	switch p.Mode {
	case Form:
		err = p.checkForm()
	case URL:
		err = p.checkURL()
	default:
		err = fmt.Errorf("mode is %q, neither form nor url", p.Mode)
	}
	if err != nil {
		return err
	}
	if err := allowed(p.Mode, asks); err != nil {
		return err
	}
	if encoded, err := json.Marshal(p); err != nil {
		return err
	} else if len(encoded) > report.MaxParamsBytes-64 { // the key is not in it yet
		return fmt.Errorf("the question has %d bytes as JSON; at most %d: shorten message or requestedSchema", len(encoded), report.MaxParamsBytes-64)
	}
	return nil
}

func allowed(mode string, asks []string) error {
	for _, ask := range asks {
		if strings.EqualFold(ask, mode) {
			return nil
		}
	}
	names := map[string]string{Form: "Form", URL: "URL"}
	return fmt.Errorf("this tool may not ask a %s question: spec.runtime.asks of its McpTool must contain %s", mode, names[mode])
}

func (p *Params) checkForm() error {
	switch {
	case p.URL != "":
		return errors.New("url must be absent from a form question")
	case len(p.RequestedSchema) == 0 || string(p.RequestedSchema) == "null":
		return errors.New("requestedSchema is missing: a form question needs one, a URL question needs url")
	}
	if err := checkSchema(p.RequestedSchema); err != nil {
		return err
	}
	canonical, err := canonical(p.RequestedSchema)
	if err != nil {
		return fmt.Errorf("requestedSchema: %w", err)
	}
	p.RequestedSchema = canonical
	return nil
}

func (p *Params) checkURL() error {
	if len(p.RequestedSchema) > 0 {
		return errors.New("requestedSchema must be absent from a URL question")
	}
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		return errors.New("url is missing")
	case err != nil || u.Host == "" || u.Hostname() == "":
		return errors.New("url must be an absolute https URL")
	case u.User != nil:
		return errors.New("url must not hold a user name or password")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("url must begin with https:// (http:// only for localhost)")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// canonical is one text for all JSON texts that differ only in the order of members and in white space.
func canonical(data json.RawMessage) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return encode(value)
}

// encode writes JSON with its members in order, and leaves <, > and & as they are.
func encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
