package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/socket"
)

// openAPI is as much of the document as is checked against the server.
type openAPI struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct {
				Examples map[string]struct{ Value json.RawMessage }
			}
		}
		Responses map[string]any
	}
}

type described struct {
	t        *testing.T
	doc      openAPI
	compiler *jsonschema.Compiler
	client   *http.Client
}

const documentURL = "file:///taskrt-openapi.json"

func describe(t *testing.T, p *pod) *described {
	t.Helper()
	source, err := os.ReadFile("../../docs/taskrt-openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := yaml.YAMLToJSON(source)
	if err != nil {
		t.Fatal(err)
	}
	d := &described{t: t, compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal(encoded, &d.doc); err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compiler.AddResource(documentURL, document); err != nil {
		t.Fatal(err)
	}
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.path("run/task.sock"))
	}}}
	t.Cleanup(d.client.CloseIdleConnections)
	return d
}

// fits checks a value against a schema of the document, by JSON pointer.
func (d *described) fits(pointer string, value []byte) {
	d.t.Helper()
	schema, err := d.compiler.Compile(documentURL + "#" + pointer)
	if err != nil {
		d.t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		d.t.Fatalf("%s: %v", value, err)
	}
	if err := schema.Validate(instance); err != nil {
		d.t.Errorf("%s: %v", value, err)
	}
}

// call sends a request and checks that the document has its answer. pathInDocument has the path's parameters in braces.
func (d *described) call(method, pathInDocument, path string, body []byte) (int, []byte) {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, "http://task"+path, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := d.client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	status := fmt.Sprint(response.StatusCode)
	operation := d.doc.Paths[pathInDocument][strings.ToLower(method)]
	switch {
	case operation.Responses[status] == nil:
		d.t.Errorf("%s %s: %s is not in the document: %s", method, path, status, answer)
	case response.StatusCode == http.StatusNoContent:
	case response.StatusCode >= http.StatusBadRequest:
		d.fits("/components/schemas/Error", answer)
	default:
		d.fits("/paths/"+strings.ReplaceAll(pathInDocument, "/", "~1")+"/"+strings.ToLower(method)+"/responses/"+status+"/content/application~1json/schema", answer)
	}
	return response.StatusCode, answer
}

func TestDocumentHasWhatIsServed(t *testing.T) {
	t.Parallel()
	p := newPod(t, fakeport.New(t))
	p.sidecar()
	d := describe(t, p)
	var documented []string
	for path, operations := range d.doc.Paths {
		for method := range operations {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	served := slices.Sorted(slices.Values(socket.Routes))
	if slices.Sort(documented); !slices.Equal(documented, served) {
		t.Errorf("documented %v, served %v", documented, served)
	}
}

func TestServerDoesWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	d := describe(t, p)
	for path, operations := range d.doc.Paths {
		post, ok := operations["post"]
		if !ok {
			continue
		}
		for name, example := range post.RequestBody.Content["application/json"].Examples {
			d.fits("/paths/"+strings.ReplaceAll(path, "/", "~1")+"/post/requestBody/content/application~1json/schema", example.Value)
			if status, answer := d.call("POST", path, path, example.Value); status >= 300 {
				t.Errorf("%s, example %s: %d %s", path, name, status, answer)
			}
		}
		if post.RequestBody.Content != nil {
			for _, wrong := range []string{"", "nonsense", `[]`, `{"content":[7],"unknown":1}`} {
				if status, _ := d.call("POST", path, path, []byte(wrong)); status != http.StatusUnprocessableEntity {
					t.Errorf("%s with %q: %d", path, wrong, status)
				}
			}
			tooLarge := http.StatusRequestEntityTooLarge
			if path == "/v1/result" { // is never too large, but this is no JSON
				tooLarge = http.StatusUnprocessableEntity
			}
			if status, _ := d.call("POST", path, path, bytes.Repeat([]byte(" "), 600<<10)); status != tooLarge {
				t.Errorf("%s with a large body: %d", path, status)
			}
		}
	}
	d.call("POST", "/v1/cancelled", "/v1/cancelled", nil)
	questions := func(message string) []byte {
		return fmt.Appendf(nil, `{"id":"one","questions":[{"message":%q,"requestedSchema":{"type":"object","properties":{}}}]}`, message)
	}
	_, answer := d.call("POST", "/v1/questions", "/v1/questions", questions("A"))
	if _, again := d.call("POST", "/v1/questions", "/v1/questions", questions("A")); string(again) != string(answer) {
		t.Errorf("the same id: %s, then %s", answer, again)
	}
	if status, _ := d.call("POST", "/v1/questions", "/v1/questions", questions("B")); status != http.StatusConflict {
		t.Errorf("the id of another question: %d", status)
	}
	var keys socket.Keys
	if err := json.Unmarshal(answer, &keys); err != nil {
		t.Fatal(err)
	}
	one := "/v1/questions/" + keys.Keys[0]
	d.call("GET", "/v1/questions/{key}", one, nil)
	port.Answer(keys.Keys[0], `{"action":"accept","content":{}}`)
	if _, answer := d.call("GET", "/v1/questions/{key}", one+"?wait=600", nil); !strings.Contains(string(answer), "accept") {
		t.Errorf("answer %s", answer)
	}
	d.call("GET", "/v1/questions/{key}", one+"?wait=soon", nil)
	d.call("GET", "/v1/questions/{key}", "/v1/questions/unknown", nil)
	d.call("GET", "/v1/task", "/v1/task", nil)
	port.End()
	d.call("POST", "/v1/result", "/v1/result", []byte(`{}`))
	d.call("GET", "/v1/task", "/v1/task", nil)
}
