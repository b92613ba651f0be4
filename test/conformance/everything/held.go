package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// held holds an answer back until it is known whether it is the one to give. Streams pass.
type held struct {
	w       http.ResponseWriter
	header  http.Header // where there is no w
	status  int
	begun   bool
	streams bool
	body    bytes.Buffer
}

// Header implements http.ResponseWriter.
func (h *held) Header() http.Header {
	if h.w == nil {
		return h.header
	}
	return h.w.Header()
}

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) {
	if h.begun {
		return
	}
	h.begun, h.status = true, status
	if h.w != nil && strings.HasPrefix(h.Header().Get("Content-Type"), "text/event-stream") {
		h.streams = true
		h.w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (h *held) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.streams {
		return h.w.Write(p)
	}
	return h.body.Write(p)
}

// FlushError is what http.ResponseController flushes with.
func (h *held) FlushError() error {
	if h.streams {
		return http.NewResponseController(h.w).Flush()
	}
	return nil
}

// Flush implements http.Flusher.
func (h *held) Flush() { _ = h.FlushError() }

// Unwrap is for the deadlines of http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.w }

// release gives the answer.
func (h *held) release() {
	if h.body.Len() > 0 {
		h.w.Header().Set("Content-Length", strconv.Itoa(h.body.Len()))
	}
	h.w.WriteHeader(h.status)
	_, _ = h.w.Write(h.body.Bytes()) // the client has left: there is nobody to tell
}

// merge adds fields to an object of the result.
func (h *held) merge(name string, more map[string]json.RawMessage) {
	h.change(name, func(was json.RawMessage) any {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(was, &fields) != nil {
			return was
		}
		for field, value := range more {
			fields[field] = value
		}
		return fields
	})
}

// append adds elements to the end of an array of the result.
func (h *held) append(name string, order []string, more map[string]json.RawMessage) {
	h.change(name, func(was json.RawMessage) any {
		var all []json.RawMessage
		if json.Unmarshal(was, &all) != nil {
			return was
		}
		for _, element := range order {
			all = append(all, more[element])
		}
		return all
	})
}

// change replaces a field of the result.
func (h *held) change(name string, change func(json.RawMessage) any) {
	var whole, result map[string]json.RawMessage
	if json.Unmarshal(h.body.Bytes(), &whole) != nil || json.Unmarshal(whole["result"], &result) != nil {
		return
	}
	var err error
	if result[name], err = json.Marshal(change(result[name])); err != nil {
		return
	}
	if whole["result"], err = json.Marshal(result); err != nil {
		return
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		return
	}
	h.body.Reset()
	h.body.Write(changed)
}

// unnamed keeps the fixtures' session ids from the clients, who have the bridge's.
type unnamed struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (u *unnamed) WriteHeader(status int) {
	u.Header().Del(sessionHeader)
	u.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (u *unnamed) Write(p []byte) (int, error) {
	u.Header().Del(sessionHeader) // before the first byte; later it changes nothing
	return u.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (u *unnamed) Flush() { _ = http.NewResponseController(u.ResponseWriter).Flush() }

// Unwrap is for the deadlines of http.ResponseController.
func (u *unnamed) Unwrap() http.ResponseWriter { return u.ResponseWriter }
