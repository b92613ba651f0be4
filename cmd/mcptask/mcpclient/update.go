package mcpclient

import "context"

// UpdateTask answers questions of a task (tasks, Task Update Requests). The responses go by the keys of the task's
// InputRequests; to an elicitation each is an object with "action" and, when that is "accept", "content". It may be sent
// again: an answer to a question that is not open, or not any more, is passed over by the server.
func (c *Client) UpdateTask(ctx context.Context, id string, responses map[string]any) error {
	var acknowledgement struct{}
	return c.call(ctx, request{
		method: "tasks/update", name: id, params: map[string]any{"taskId": id, "inputResponses": responses},
	}, &acknowledgement)
}
