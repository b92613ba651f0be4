// Calls a tool as a task, cancels it, and tries to cancel it once more.
import { CreateTaskResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { connect, resultOf } from "./v1.mjs";
import { input, run, shown } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const params = { name: input.tool, arguments: input.arguments ?? {} };
  const { task } = await client.request({ method: "tools/call", params }, CreateTaskResultSchema, { task: {} });
  const cancelled = await client.experimental.tasks.cancelTask(task.taskId);
  const again = await client.experimental.tasks.cancelTask(task.taskId).then(() => undefined, shown);
  const { status } = await client.experimental.tasks.getTask(task.taskId);
  return { kind: "task", taskId: task.taskId, states: [task.status, cancelled.status], outcome: status, again };
});
