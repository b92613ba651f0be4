package fakebridge

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Result answers with a result, given as JSON.
func Result(result string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
}

// Error answers with a JSON-RPC error.
func Error(status int, code int64, message string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"from":"test"}}}`, id, code, message)
	}
}

// Plain answers with a text that is no JSON-RPC, as proxies do.
func Plain(status int, text string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { http.Error(w, text, status) }
}

// Hangup ends the connection without an answer.
func Hangup(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) }

// Hang answers nothing until the client leaves, and says by the channels that the request came and that it ended.
func Hang(came, left chan<- struct{}) Answer {
	return func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(came)
		<-r.Context().Done()
		close(left)
	}
}

// Stream answers with server-sent events, as a function of the id of the request writes them.
func Stream(events func(id json.RawMessage) string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, events(id))
	}
}

// Listen answers with a stream of notifications about tasks, given as the ids that are granted and what is told of tasks
// (params of notifications/tasks). The stream stays open until the client leaves.
func Listen(granted string, told ...string) Answer {
	return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(method, params string) {
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":%s}\n\n:\n\n", method, params)
			_ = http.NewResponseController(w).Flush() // the client has left: the context says so
		}
		send("notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":`+granted+`}}`)
		for _, task := range told {
			send("notifications/tasks", task)
		}
		<-r.Context().Done()
	}
}

// Task is a task without anything that depends on its status, as JSON. More are further fields, such as `"pollIntervalMs":20`.
func Task(resultType, id, status string, more ...string) string {
	text := fmt.Sprintf(`{"resultType":%q,"taskId":%q,"status":%q,"createdAt":"2026-08-01T10:00:00Z","lastUpdatedAt":"2026-08-01T10:00:01Z","ttlMs":null`,
		resultType, id, status)
	for _, field := range more {
		text += "," + field
	}
	return text + "}"
}
