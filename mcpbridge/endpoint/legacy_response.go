package endpoint

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// admitResponse finds the task that a client's response is about: the id of the request names it, so that any replica can
// take the answer.
func (e *Endpoint) admitResponse(x *exchange) (rule, *wire.Error) {
	task, _, ok := wire.ReadQuestionID(x.request.Response.ID)
	if !ok {
		if failure := e.checkSession(x, anySession); failure != nil {
			return rule{}, failure
		}
		return rule{}, status(http.StatusBadRequest, "this server has sent no request with this id")
	}
	x.request.Params.TaskID = json.RawMessage(strconv.Quote(task))
	admitted, failure := e.admitUnder(responseRule, x)
	return admitted, refusedResponse(failure)
}

// serveResponse stores the answer to a question. An answer to one that is not open any more is taken and ignored.
func (e *Endpoint) serveResponse(x *exchange) {
	_, key, _ := wire.ReadQuestionID(x.request.Response.ID)
	response := json.RawMessage(`{"action":"` + wire.ActionCancel + `"}`) // an error: the client could not ask
	if result := x.request.Response.Result; result != nil {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(result, &fields); err != nil {
			x.fail(status(http.StatusBadRequest, "the result cannot be read"))
			return
		}
		delete(fields, "_meta")
		var err error
		if response, err = json.Marshal(fields); err != nil {
			x.fail(e.internal(x, err))
			return
		}
	}
	if failure := refusedResponse(e.answer(x, x.task, map[string]json.RawMessage{key: response})); failure != nil {
		x.fail(failure)
		return
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// refusedResponse makes what is wrong with a response an error of HTTP: nobody waits for an answer to it.
func refusedResponse(failure *wire.Error) *wire.Error {
	if failure == nil || failure.Status != 0 {
		return failure
	}
	refused := *failure
	refused.Status = http.StatusBadRequest
	return &refused
}
