package mcpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// readStream reads server-sent events up to the response.
func readStream(answer *http.Response, id int64, notify func(*message) error) (json.RawMessage, error) {
	events := newEvents(answer.Body)
	for {
		data, err := events.next()
		if err != nil {
			return nil, err
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("the stream has an event that is no JSON-RPC message: %w", err)
		}
		if m.Method == "" {
			return m.settle(answer.StatusCode, id)
		}
		if notify == nil {
			continue
		}
		if err := notify(&m); err != nil {
			return nil, err
		}
	}
}

// events reads server-sent events (HTML Standard, 9.2.6 Interpreting an event stream), as far as MCP uses them:
// the data, whatever the type, with comments passed over.
type events struct{ lines *bufio.Scanner }

func newEvents(body io.Reader) *events {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	return &events{lines}
}

// next is the data of the next event. The end of the stream is an error: a stream ends with the response.
func (e *events) next() ([]byte, error) {
	var data []byte
	for e.lines.Scan() {
		line := e.lines.Bytes() // without the line end, \n or \r\n
		if len(line) == 0 {
			if data = bytes.TrimSuffix(data, []byte("\n")); len(data) > 0 {
				return data, nil
			}
			data = nil
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) == "data" {
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	if err := e.lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: reading the stream: %w", ErrNoAnswer, err)
	}
	return nil, fmt.Errorf("%w: the stream ended before the response", ErrNoAnswer)
}
