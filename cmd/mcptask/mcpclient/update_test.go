package mcpclient_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func TestUpdateTask(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tasks/update", fakebridge.Result(`{"resultType":"complete"}`), fakebridge.Error(http.StatusOK, -32602, "Unknown task"))
	answer := map[string]any{"k-1": map[string]any{"action": "accept", "content": map[string]any{"approve": true}}}
	if err := client.UpdateTask(t.Context(), "t1", answer); err != nil {
		t.Fatal(err)
	}
	if asked := bridge.Requests("tasks/update"); len(asked) != 1 || asked[0].Params.TaskID != "t1" || !asked[0].Tasks() {
		t.Errorf("the request was %+v", asked[0])
	}
	var refused *mcpclient.RPCError
	if err := client.UpdateTask(t.Context(), "t1", answer); !errors.As(err, &refused) || refused.Code != mcpclient.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
}
