// Calls a tool as a task and follows it to the end: polls, and waits in tasks/result where it is asked something.
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { connect, resultOf } from "./v1.mjs";
import { input, run, shown } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const progress = [];
  const seen = { kind: "immediate", states: [], progress };
  const stream = client.experimental.tasks.callToolStream({ name: input.tool, arguments: input.arguments ?? {} }, CallToolResultSchema, {
    task: input.ttl === undefined ? {} : { ttl: input.ttl },
    ...(input.progress && { onprogress: (p) => progress.push(p) }),
  });
  for await (const message of stream) {
    switch (message.type) {
      case "taskCreated":
        Object.assign(seen, { kind: "task", taskId: message.task.taskId, ttl: message.task.ttl });
      // falls through
      case "taskStatus":
        if (seen.states.at(-1) !== message.task.status) seen.states.push(message.task.status);
        break;
      case "result":
        Object.assign(seen, { outcome: "completed", result: message.result });
        break;
      case "error":
        // What the task came to is not in this error: tasks/result has it.
        Object.assign(seen, { outcome: "failed", error: shown(message.error) });
        if (seen.taskId) Object.assign(seen, { error: undefined }, await resultOf(client, seen.taskId));
    }
  }
  return seen;
});
